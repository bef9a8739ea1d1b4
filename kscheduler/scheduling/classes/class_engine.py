"""The class engine: what was worked out for one pod is kept for all that its plugins judge alike.

    pod --signatures--> KnownClass --refresh: rows that changed since--> alive rows, sums of points --> the cycle

A class is the tuple of what the plugins with columns sign of a pod; plugins that do not sign, or depend on other rows,
take no part in it and are asked in each cycle. Two classes that a plugin signs alike share its column. Nominated pods
are unknown here: rows that carry them are judged again for the pod, on forks (`nominations`). Whatever is not a plain
success (a PreFilter that rejects or narrows, an exception, points out of bounds) leaves the pod to the cycle without
columns, and so to the one place where its fate is told. That a plugin has failed, and how long it took, is reported
here as well: asked again, it may answer.

Memory is bounded, by the size of the cluster: the classes not asked about for longest go first.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import (
    UNSIGNABLE,
    FilterPlugin,
    Plugin,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.classes.class_columns import (
    Answers,
    FilterColumn,
    ScoreColumn,
    UnkeepableError,
)
from kscheduler.scheduling.classes.known_class import KnownClass, Stretch
from kscheduler.scheduling.classes.pod_templates import PodTemplates
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.cycle_calls import call_pre_filter, call_pre_score
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import PRE_FILTER, PRE_SCORE, SIGNATURES
from kscheduler.scheduling.runtime.signing import Signer, signatures_of, signer_of
from kscheduler.scheduling.runtime.timing import UNTIMED, CallTimer
from kscheduler.state.cache import Cache

BUDGET_BYTES: Final = 256 * 2**20
"""At most, for all profiles; a class takes 10 KiB at 200 nodes, some 250 KiB at 5,000, and 4 MiB at 100,000."""
_LEAST_BYTES: Final = 2 * 2**20
_BYTES_PER_NODE: Final = 32 * 2**10
_BYTES_PER_POD: Final = 2 * 2**10
"""Below that the budget follows the cluster: most classes that fill it are of releases and Jobs that are gone, and what
is kept of those may not outweigh the nodes (20 to 30 KiB each, their rows included) and pods (4 KiB) that are there."""


class ClassEngine:
    """The classes of one profile over one cache."""

    def __init__(
        self,
        profile: Profile,
        view: Cache,
        *,
        tells_all: bool = False,
        budget_bytes: int = BUDGET_BYTES,
        engines: int = 1,
    ) -> None:
        """`tells_all`: records of pods that found a node hold rejections and each plugin's points, too.

        `engines`: how many share the budget.
        """
        self._profile = profile
        self._nodes = view.nodes
        self._tells_all = tells_all
        self._most_bytes = budget_bytes
        self._engines = engines
        self._budget_bytes = self._room()
        signers = _signers(profile)
        traits, listener = profile.traits, profile.listener
        by_spec = [plugin for plugin in signers if traits[plugin.name].reads_spec_only]
        others = [plugin for plugin in signers if not traits[plugin.name].reads_spec_only]
        self._signers = (*by_spec, *others)
        self._sign_by_spec = [signer_of(plugin, traits[plugin.name], listener) for plugin in by_spec]
        self._sign_others = [signer_of(plugin, traits[plugin.name], listener) for plugin in others]
        self._times_signing = not all(traits[plugin.name].is_in_tree for plugin in signers)
        self._needing_volumes = frozenset(one.name for one in _asked(profile) if traits[one.name].needs_volumes)
        self._templates = PodTemplates()
        self._classes: dict[Hashable, KnownClass] = {}
        self._bytes = 0
        self._answers: WeakValueDictionary[tuple[str, Hashable], Answers] = WeakValueDictionary()
        self._shape = self._shape_of(self._nodes)

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def bytes(self) -> int:
        """What the classes take: as counted when they were last asked for the 4th, 16th or each 64th time."""
        return self._bytes

    @property
    def budget_bytes(self) -> int:
        """What they may take, as of the last class that was learned."""
        return self._budget_bytes

    def known(self, pod: PodInfo, tally: CallTimer) -> KnownClass | None:
        """What is known of the pod's class, as of now; `None` where the pod is to be judged by itself."""
        if self._shape != self._shape_of(self._nodes):
            self.forget_all()
        found: tuple[tuple[Hashable, ...], KnownClass | None] | None
        try:
            found = SIGNATURES.ask("", self._taken_out, pod)
        except PluginFailure:
            found = None  # who fails to sign has been told of: the pod is judged by itself
        if self._times_signing or found is None:
            tally.asks()  # a slow signature was told of; else the next plugin would be blamed for it
        if found is None:
            return None
        name, known = found
        try:
            if known is None:
                known = self._learn(pod, name, tally)
            self._bytes -= known.bytes
            known.refresh(pod, self._nodes, tally)
            known.asked += 1
            if known.asked == known.counts_at:
                known.count_bytes()
        except (PluginFailure, UnkeepableError) as failure:
            if isinstance(failure, PluginFailure):
                failure.end(tally, self._profile.listener, pod)
            tally.asks()  # the time that went by is not the next plugin's
            if known is not None:
                _let_go(known)
            return None
        self._keep(name, known)
        return known

    def forget_all(self) -> None:
        """Begin anew: for changes that the table does not tell of."""
        self._classes.clear()
        self._answers.clear()
        self._bytes = 0
        self._shape = self._shape_of(self._nodes)

    def _taken_out(self, pod: PodInfo) -> tuple[tuple[Hashable, ...], KnownClass | None] | None:
        """What the pod's class is called, and the class, taken out of those that are kept, if it is known.

        `None` for a pod that is not signed. Raises what plugins raise: called inside a guard.
        """
        name = self._signatures(pod)
        return None if UNSIGNABLE in name else (name, self._classes.pop(name, None))

    def _signatures(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """What the plugins sign, in the order of `_signers`, and last whether there are volumes."""
        template = self._templates.of(pod)
        signatures = template.signatures if template is not None else ()
        if not signatures:
            signatures = signatures_of(self._sign_by_spec, pod)
            if template is not None:
                template.signatures = signatures
        return (
            *signatures,
            *[_signature(sign, pod) for sign in self._sign_others],
            bool(pod.pod.spec.volumes),
        )

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _keep(self, name: Hashable, known: KnownClass) -> None:
        # By hand: what a class that goes has shared with others counts as theirs from then on, and the budget moves.
        while self._classes and self._bytes + known.bytes > self._budget_bytes:
            oldest = self._classes.pop(next(iter(self._classes)))
            self._bytes -= oldest.bytes
            _let_go(oldest)
        self._classes[name] = known
        self._bytes += known.bytes

    def _room(self) -> int:
        """The budget for a cluster of this size."""
        nodes = self._nodes
        follows = _LEAST_BYTES + len(nodes) * _BYTES_PER_NODE + int(nodes.pod_count.sum()) * _BYTES_PER_POD
        return min(self._most_bytes, min(follows, BUDGET_BYTES) // self._engines)

    @staticmethod
    def _shape_of(nodes: NodeTable) -> tuple[int, int]:
        """Columns have the table's capacity, and what a plugin says may hang on which resources there are."""
        return nodes.capacity, nodes.resources_version

    # --- learning -----------------------------------------------------------------------------------------------------

    def _learn(self, pod: PodInfo, name: tuple[Hashable, ...], tally: CallTimer) -> KnownClass:
        """A class that was not known. Raises `PluginFailure` and `UnkeepableError`."""
        profile = self._profile
        self._budget_bytes = self._room()
        answers = {
            plugin.name: self._answers_of(plugin, signature, pod, tally)
            for plugin, signature in zip(self._signers, name[:-1], strict=True)
        }
        idle = self._needing_volumes if not pod.pod.spec.volumes else frozenset[str]()
        dealt_with = answers.keys() | idle
        for its in answers.values():
            its.users += 1
        weighted = ((answers[one.plugin.name].score, one.weight) for one in profile.score if one.plugin.name in answers)
        return KnownClass(
            answers=tuple(answers.values()),
            skipped=frozenset(plugin for plugin, one in answers.items() if one.skips_filter) | idle,
            live_pre_filter=tuple(one for one in profile.pre_filter if one.name not in dealt_with),
            live_pre_score=tuple(one for one in profile.pre_score if one.name not in dealt_with),
            live_score=tuple(one for one in profile.score if one.plugin.name not in dealt_with),
            steps=_steps(profile, answers, idle),
            scores=tuple((column, weight) for column, weight in weighted if column is not None),
            tells_all=self._tells_all,
        )

    def _answers_of(self, plugin: Any, signature: Hashable, pod: PodInfo, tally: CallTimer) -> Answers:
        """Those that other classes have, or empty ones: who skips, and what was prepared. Raises like `_learn`."""
        known: Answers | None = SIGNATURES.ask(
            plugin.name, self._answers.get, (plugin.name, signature)
        )  # values of plugins compare
        if known is not None:
            return known
        profile, nodes, answers = self._profile, self._nodes, Answers()
        skips_score = False
        if plugin in profile.pre_filter:
            result = call_pre_filter(plugin, answers.state, pod, nodes, UNTIMED)
            if result.node_names is not None:
                raise UnkeepableError(plugin.name)
            answers.skips_filter = _skips(plugin, result.status)
            tally.evaluated(PRE_FILTER.label, plugin.name, nodes=0 if answers.skips_filter else 1)
        if plugin in profile.pre_score:
            status = call_pre_score(plugin, answers.state, pod, nodes, nodes.rows(), UNTIMED)
            skips_score = _skips(plugin, status)
            tally.evaluated(PRE_SCORE.label, plugin.name, nodes=0 if skips_score else 1)
        if plugin in profile.filter and not answers.skips_filter:
            answers.filter = FilterColumn(plugin, profile.traits[plugin.name], answers.state, nodes)
        if not skips_score and any(one.plugin is plugin for one in profile.score):
            answers.score = ScoreColumn(plugin, profile.traits[plugin.name], answers.state, nodes)
        self._answers[plugin.name, signature] = answers
        return answers


def _let_go(known: KnownClass) -> None:
    """The class is dropped: what it shared costs the others more from now on."""
    for answers in known.answers:
        answers.users -= 1


def _steps(
    profile: Profile, answers: Mapping[str, Answers], idle: Collection[str]
) -> tuple[Stretch | FilterPlugin, ...]:
    steps: list[Stretch | FilterPlugin] = []
    columns: list[FilterColumn] = []
    for plugin in profile.filter:
        if plugin.name in idle:
            continue
        its = answers.get(plugin.name)
        if its is None:
            if columns:
                steps.append(Stretch(tuple(columns)))
                columns.clear()
            steps.append(plugin)
        elif its.filter is not None:
            columns.append(its.filter)
    if columns:
        steps.append(Stretch(tuple(columns)))
    return tuple(steps)


def _signers(profile: Profile) -> Sequence[Any]:
    """The plugins that judge or score and whose answers can be kept."""
    return [plugin for plugin in _asked(profile) if profile.traits[plugin.name].is_keepable]


def _asked(profile: Profile) -> Collection[Any]:
    """The plugins that judge or score."""
    points: Sequence[Sequence[Any]] = (
        profile.pre_filter,
        profile.filter,
        profile.pre_score,
        tuple(one.plugin for one in profile.score),
    )
    found: dict[str, Plugin] = {plugin.name: plugin for point in points for plugin in point}
    return found.values()


def _signature(sign: Signer, pod: PodInfo) -> Hashable:
    signature = sign(pod)
    return signature if signature is UNSIGNABLE else (signature, pod.namespace, frozenset(pod.labels.items()))


def _skips(plugin: Any, status: Status) -> bool:
    if not (status.is_skip or status.is_success):
        raise UnkeepableError(plugin.name)
    return status.is_skip
