"""The class engine: what plugins answered for one pod is kept for all pods with the same signatures.

    pod --signatures--> KnownClass --refresh: rows that changed since--> passing rows, sums of points --> the cycle

A class is identified by the tuple of signatures of the plugins with columns. Plugins that do not sign, or that depend
on other rows, have no column and are called in each cycle. Two classes share a plugin's column if they have the same
signature of it. Nominated pods are ignored here: rows with nominated pods are judged again, on forks (`nominations`).

If anything is not a plain success (PreFilter rejects the pod or names nodes, a plugin raises, points are out of
bounds), the cycle judges the pod without columns, so there is one place that decides its fate. A failure and its
duration are reported here as well, because the plugin may succeed when it is called again.

Memory is bounded by the size of the cluster: the classes that have not been used for the longest time are dropped
first.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from kscheduler.bounded import LARGEST_SHARE, RecentlyUsed, weight_of
from kscheduler.change_count import ChangeCount
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.nodes.repeats import BucketJudge, Conditions
from kscheduler.framework.plugin import (
    UNSIGNABLE,
    FilterPlugin,
    Plugin,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.classes.buckets import Buckets, ByBucket
from kscheduler.scheduling.classes.class_columns import (
    FilterColumn,
    PluginResults,
    ScoreColumn,
    UnkeepableError,
)
from kscheduler.scheduling.classes.known_class import ColumnFilters, KnownClass, Repeat
from kscheduler.scheduling.classes.pod_templates import PodTemplates
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.cycle_calls import call_pre_filter, call_pre_score
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import PRE_FILTER, PRE_SCORE, SIGNATURES
from kscheduler.scheduling.runtime.sign_calls import Signer, signatures_of, signer_of
from kscheduler.scheduling.runtime.timing import UNTIMED, CallTimer
from kscheduler.state.cache import Cache

# At most, for all profiles; a class takes 10 KiB at 200 nodes, some 250 KiB at 5,000, and 4 MiB at 100,000.
BUDGET_BYTES: Final = 256 * 2**20
_LEAST_BYTES: Final = 2 * 2**20
_BYTES_PER_NODE: Final = 32 * 2**10
# Below `BUDGET_BYTES`, the budget grows with the cluster: most kept classes belong to releases and Jobs that are gone,
# and they must not take more memory than the nodes (20 to 30 KiB each, with their rows) and pods (4 KiB) themselves.
_BYTES_PER_POD: Final = 2 * 2**10


# After so many repeats of a template that held for no pod, only each 64th is noted.
_MAX_UNUSED: Final = 3
_NOTED_EVERY: Final = 64


# How many repeats have their rows in buckets, and what they take at most: a number for each row, and some of leaders.
_MOST_BUILT: Final = 32
_BUILT_BYTES: Final = 32 * 2**20
_BUILT_BYTES_PER_ROW: Final = 48


class ClassEngine:
    """The classes of one profile over one cache."""

    def __init__(
        self,
        profile: Profile,
        cache: Cache,
        *,
        reports_all: bool = False,
        budget_bytes: int = BUDGET_BYTES,
        engines: int = 1,
    ) -> None:
        """`reports_all`: the records of pods that found a node also hold rejections and the points by plugin.

        `engines`: how many engines share the budget.
        """
        self._profile = profile
        self._nodes = cache.nodes
        self._reports_all = reports_all
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
        self._repeats = not reports_all and all(traits[plugin.name].is_in_tree for plugin in others)
        """Whether repeats are noted: of a user's plugin that signs more than the spec nobody knows what it reads."""
        self._times_signing = not all(traits[plugin.name].is_in_tree for plugin in signers)
        self._needing_volumes = frozenset(
            plugin.name for plugin in _judging(profile) if traits[plugin.name].needs_volumes
        )
        self._live_unsigned = frozenset(plugin.name for plugin in signers if traits[plugin.name].is_live_unsigned)
        supervisor = profile.supervisor
        self._circuits = [] if supervisor is None else supervisor.circuits_of(plugin.name for plugin in signers)
        """Of users' plugins with columns: a pod that is decided by these was answered by the plugin."""
        self._templates = PodTemplates()
        self._built: RecentlyUsed[int, Buckets] = RecentlyUsed(_MOST_BUILT)
        """Buckets that have arrays, the one built last at the end."""
        self._classes: dict[Hashable, KnownClass] = {}
        self._newest: KnownClass | None = None
        """The one that was used last, and so the last of them."""
        self._bytes = 0
        self._epoch = 0
        """How often all classes were dropped: a class may be in use then, and is among them as well."""
        self._answers: WeakValueDictionary[tuple[str, Hashable], PluginResults] = WeakValueDictionary()
        self._shape = self._shape_of(self._nodes)

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def bytes(self) -> int:
        """The size of the classes, each as counted at its 1st, 4th, 16th and then each 64th use."""
        return self._bytes

    @property
    def budget_bytes(self) -> int:
        """The most bytes that the classes may take, as of the last class that was learned."""
        return self._budget_bytes

    def known(self, pod: PodInfo, tally: CallTimer) -> KnownClass | None:
        """The pod's class, brought up to date; `None` if the pod must be judged by itself. Never raises."""
        # A class in use is outside `_classes` (`_pop_class`); only if everything succeeds, `_keep` puts it back. So a
        # class whose refresh failed half-way is dropped.
        if self._shape != self._shape_of(self._nodes):
            self.forget_all()
        found: tuple[tuple[Hashable, ...], KnownClass | None] | None
        try:
            found = SIGNATURES.call("", self._pop_class, pod)
        except PluginFailure:
            found = None  # the failure has been reported; the pod is judged by itself
        if self._times_signing or found is None:
            tally.restart()  # a slow signature has been reported: its time must not count for the next plugin
        if found is None:
            return None
        name, known = found
        try:
            if known is None:
                known = self._learn(pod, name, tally)
            self._bytes -= known.bytes
            known.refresh(pod, self._nodes, tally)
            known.uses += 1
            if known.uses == known.counts_at:
                known.count_bytes()
        except (PluginFailure, UnkeepableError) as failure:
            if isinstance(failure, PluginFailure):
                failure.end(tally, self._profile.listener, pod)
            tally.restart()  # the time so far must not count for the next plugin
            if known is not None:
                _release(known)
            return None
        self._keep(name, known)
        for breaker in self._circuits:
            breaker.kept_answers += 1
        return known

    def repeated(self, pod: PodInfo, tally: CallTimer) -> Repeat | None:
        """What the cycle of a pod like this one has found, with its class brought up to date. Never raises.

        Here a class in use stays among those that are kept; if its refresh fails, it is dropped.
        """
        repeat = self._templates.repeat_of(pod)
        known = None if repeat is None else repeat.known
        if repeat is None or known is None or repeat.epoch != self._epoch or known.uses + 1 == known.counts_at:
            return None  # bytes are counted by `known`
        for count, number in repeat.versions:
            if count.number != number:
                return None
        try:
            if self._sign_others and repeat.signed != SIGNATURES.call("", self._signed_by_others, pod):
                return None
        except PluginFailure:
            return None
        nodes = self._nodes
        if self._shape[0] != nodes.capacity or self._shape[1] != nodes.resources_version:
            return None
        pod.take(repeat.pod, is_alike=True)
        try:
            known.refresh(pod, nodes, tally)
        except (PluginFailure, UnkeepableError):
            self._drop(repeat.name, known)  # the pod's own cycle meets the failure again, and reports it
            return None
        known.uses += 1
        repeat.is_used = True
        if known is not self._newest:
            self._newest = self._classes[repeat.name] = self._classes.pop(repeat.name)
        for breaker in self._circuits:
            breaker.kept_answers += 1
        return repeat

    def note_repeat(self, pod: PodInfo, known: KnownClass) -> None:
        """After a cycle: keep for the next pod like this one which live plugins need not be called."""
        template, name = self._templates.of(pod), next(reversed(self._classes), None)
        if template is None or not self._repeats or name is None or self._classes[name] is not known:
            return
        template.unused = 0 if template.repeat is None or template.repeat.is_used else template.unused + 1
        if template.unused > _MAX_UNUSED and template.unused % _NOTED_EVERY:
            return
        idle, conditions = self._idle(pod, known)
        live_filters = [step.name for step in known.steps if not isinstance(step, ColumnFilters)]
        scoring = [weighted.plugin.name for weighted in known.live_score]
        live_pre_filter = tuple(plugin for plugin in known.live_pre_filter if plugin.name not in idle)
        live_pre_score = tuple(plugin for plugin in known.live_pre_score if plugin.name not in idle)
        labels, skipped = pod.pod.metadata.labels, idle | known.skipped
        is_whole = not (live_pre_filter or live_pre_score) and idle.issuperset([*live_filters, *scoring])
        template.repeat = repeat = Repeat(
            known=known,
            name=name,
            epoch=self._epoch,
            labels=labels,
            read={key: labels[key] for key in conditions.labels if key in labels},
            owners=pod.pod.metadata.owner_references,
            signed=self._signed_by_others(pod),
            pod=pod,
            idle=idle,
            versions=tuple([(count, count.number) for count in conditions.counts]),
            skipped=skipped,
            skipped_all=skipped,
            live_pre_filter=live_pre_filter,
            live_pre_score=live_pre_score,
            is_whole=is_whole,
            may_be_by_bucket=not is_whole,
        )
        known.repeats.add(repeat)

    def buckets_of(self, repeat: Repeat, pod: PodInfo) -> Buckets | None:
        """The rows by bucket for a pod that the repeat holds for; `None`: rows must be judged by themselves."""
        buckets, nodes = repeat.buckets, self._nodes
        plugin = repeat.counting = repeat.counting or self._counting(repeat)
        if plugin is None:
            repeat.may_be_by_bucket = False
            return None
        if buckets is None or not buckets.judge.holds_for(pod, nodes):
            # They are of use from the next pod on: where a node changes between any two pods, none are ever built.
            repeat.buckets = self._new_buckets(plugin, repeat, pod)
            return None
        if not buckets.is_built:
            self._built.most = max(2, min(_MOST_BUILT, _BUILT_BYTES // (_BUILT_BYTES_PER_ROW * nodes.capacity)))
            pushed_out = self._built.put(id(buckets), buckets)
            if pushed_out is not None:
                pushed_out.forget()
        return buckets

    def _new_buckets(self, plugin: ByBucket, repeat: Repeat, pod: PodInfo) -> Buckets | None:
        try:
            judge: BucketJudge | None = SIGNATURES.call(plugin.name, plugin.by_bucket, pod, self._nodes)
        except PluginFailure:  # it is called in the whole cycle, too, which reports it
            judge = None
        if judge is None:
            repeat.may_be_by_bucket = False
            return None
        repeat.skipped_all = repeat.skipped | {plugin.name}
        labels, conditions = pod.labels, judge.conditions
        repeat.read = repeat.read | {key: labels[key] for key in conditions.labels if key in labels}
        repeat.versions = (*repeat.versions, *[(count, count.number) for count in conditions.counts])
        weight = next(scoring.weight for scoring in self._profile.score if scoring.plugin.name == plugin.name)
        return Buckets(judge, weight, self._nodes)

    def _counting(self, repeat: Repeat) -> ByBucket | None:
        """The live plugin that is not idle, if it is a single one of ours, and has a method `by_bucket`."""
        known, idle = repeat.known, repeat.idle
        if known is None:
            return None
        points: tuple[Sequence[Any], ...] = (
            known.live_pre_filter,
            [step for step in known.steps if not isinstance(step, ColumnFilters)],
            known.live_pre_score,
            [scoring.plugin for scoring in known.live_score],
        )
        by_point = [[plugin for plugin in plugins if plugin.name not in idle] for plugins in points]
        plugin = by_point[0][0] if by_point[0] else None
        if plugin is None or not self._profile.traits[plugin.name].judges_by_bucket:
            return None
        return plugin if all(plugins == [plugin] for plugins in by_point) else None

    def _idle(self, pod: PodInfo, known: KnownClass) -> tuple[frozenset[str], Conditions]:
        """The live plugins that skip pods like this one, and under which conditions (`framework.nodes.repeats`)."""
        idle: set[str] = set()
        counts: list[ChangeCount] = []
        labels = {key for constraint in pod.pod.spec.topology_spread_constraints for key in constraint.match_label_keys}
        plugins: Sequence[Any] = (*known.live_pre_filter, *known.live_pre_score)
        for plugin in plugins:
            in_tree = plugin if self._profile.traits[plugin.name].is_in_tree else None
            skips_while = getattr(in_tree, "skips_while", None)
            found = None if skips_while is None or plugin.name in idle else skips_while(pod)
            if found is not None:
                idle.add(plugin.name)
                counts += found.counts
                labels |= found.labels
        return frozenset(idle), Conditions(tuple(counts), frozenset(labels))

    def forget_all(self) -> None:
        """Drop all classes: for changes that the table's logs do not show."""
        self._epoch += 1
        for known in self._classes.values():
            known.end_repeats()
        self._classes.clear()
        self._answers.clear()
        self._built.clear()
        self._bytes = 0
        self._shape = self._shape_of(self._nodes)

    def _pop_class(self, pod: PodInfo) -> tuple[tuple[Hashable, ...], KnownClass | None] | None:
        """The name of the pod's class, and the class itself, removed from those that are kept, if it is known.

        `None` for a pod that is not signed. Raises what plugins raise, so call it inside a guard.
        """
        name = self._signatures(pod)
        if UNSIGNABLE in name and not self._unsigned_in(name) <= self._live_unsigned:
            return None
        return name, self._classes.pop(name, None)

    def _unsigned_in(self, name: tuple[Hashable, ...]) -> frozenset[str]:
        """The plugins that do not sign the pods of a class."""
        signed = zip(self._signers, name[:-1], strict=True)
        return frozenset([plugin.name for plugin, signature in signed if signature is UNSIGNABLE])

    def _signatures(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """The plugins' signatures, in the order of `_signers`; the last element says whether there are volumes."""
        template = self._templates.of(pod)
        signatures = template.signatures if template is not None else ()
        if not signatures:
            signatures = signatures_of(self._sign_by_spec, pod)
            if template is not None:
                template.signatures = signatures
        return (*signatures, *self._signed_by_others(pod), bool(pod.pod.spec.volumes))

    def _signed_by_others(self, pod: PodInfo) -> list[Hashable]:
        """The signatures of the plugins that may read more than the spec: annotations, labels, the name."""
        return [_signature(sign, pod) for sign in self._sign_others]

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _drop(self, name: Hashable, known: KnownClass) -> None:
        """Forget a class that is kept."""
        del self._classes[name]
        self._bytes -= known.bytes
        _release(known)

    def _keep(self, name: Hashable, known: KnownClass) -> None:
        # Not a `RecentlyUsed`: the size of what a dropped class shared now counts for other classes, and the budget
        # moves. The dict is in order of use: `_pop_class` removes a class and this method puts it back at the end.
        if known.signed_bytes > self._budget_bytes // LARGEST_SHARE:
            _release(known)  # of a giant pod: it would push out the classes of all others
            return
        while self._classes and self._bytes + known.bytes > self._budget_bytes:
            oldest = self._classes.pop(next(iter(self._classes)))
            self._bytes -= oldest.bytes
            _release(oldest)
        self._newest = self._classes[name] = known
        self._bytes += known.bytes

    def _room(self) -> int:
        """The budget for a cluster of this size."""
        nodes = self._nodes
        follows = _LEAST_BYTES + len(nodes) * _BYTES_PER_NODE + int(nodes.pod_count.sum()) * _BYTES_PER_POD
        return min(self._most_bytes, min(follows, BUDGET_BYTES) // self._engines)

    @staticmethod
    def _shape_of(nodes: NodeTable) -> tuple[int, int]:
        """If this changes, all classes are dropped: columns are as long as the table's capacity, and a plugin's answer
        may depend on which resources exist.
        """
        return nodes.capacity, nodes.resources_version

    # --- learning -----------------------------------------------------------------------------------------------------

    def _learn(self, pod: PodInfo, name: tuple[Hashable, ...], tally: CallTimer) -> KnownClass:
        """Make a class that is not known yet. Raises `PluginFailure` and `UnkeepableError`."""
        # Example: of NodeAffinity, VolumeBinding and PodTopologySpread, for a pod without volumes, NodeAffinity has
        # `answers`, VolumeBinding is `idle`, and PodTopologySpread is live: called in each cycle.
        profile = self._profile
        self._budget_bytes = self._room()
        answers = {
            plugin.name: self._answers_of(plugin, signature, pod, tally)
            for plugin, signature in zip(self._signers, name[:-1], strict=True)
            if signature is not UNSIGNABLE  # such a plugin is live: claims of devices are the pod's own
        }
        idle = self._needing_volumes if not pod.pod.spec.volumes else frozenset[str]()
        dealt_with = answers.keys() | idle
        for plugin_answers in answers.values():
            plugin_answers.users += 1
        weighted = (
            (answers[scoring.plugin.name].score, scoring.weight)
            for scoring in profile.score
            if scoring.plugin.name in answers
        )
        return KnownClass(
            answers=tuple(answers.values()),
            skipped=frozenset(plugin for plugin, kept in answers.items() if kept.skips_filter) | idle,
            live_pre_filter=tuple(plugin for plugin in profile.pre_filter if plugin.name not in dealt_with),
            live_pre_score=tuple(plugin for plugin in profile.pre_score if plugin.name not in dealt_with),
            live_score=tuple(scoring for scoring in profile.score if scoring.plugin.name not in dealt_with),
            steps=_steps(profile, answers, idle),
            scores=tuple((column, weight) for column, weight in weighted if column is not None),
            reports_all=self._reports_all,
            signed_bytes=weight_of(pod.pod.spec),
        )

    def _answers_of(self, plugin: Any, signature: Hashable, pod: PodInfo, tally: CallTimer) -> PluginResults:
        """The plugin's answers, shared with other classes if they have some for this signature; else new ones.

        New answers hold what PreFilter and PreScore returned; their columns are still empty. Raises like `_learn`.
        """
        known: PluginResults | None = SIGNATURES.call(
            plugin.name, self._answers.get, (plugin.name, signature)
        )  # compares signatures, which runs code of plugins
        if known is not None:
            return known
        profile, nodes, answers = self._profile, self._nodes, PluginResults()
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
            answers.filter = FilterColumn(plugin, profile.traits[plugin.name], answers.state, nodes, profile.listener)
        if not skips_score and any(scoring.plugin is plugin for scoring in profile.score):
            answers.score = ScoreColumn(plugin, profile.traits[plugin.name], answers.state, nodes, profile.listener)
        self._answers[plugin.name, signature] = answers
        return answers


def _release(known: KnownClass) -> None:
    """The class is dropped: the classes that share its columns now bear a larger part of their size."""
    known.end_repeats()
    for answers in known.answers:
        answers.users -= 1


def _steps(
    profile: Profile, answers: Mapping[str, PluginResults], idle: Collection[str]
) -> tuple[ColumnFilters | FilterPlugin, ...]:
    """The filters in the profile's order: live ones, and stretches of columns between them.

    Example: columns A and B, live C, column D give (Stretch(A, B), C, Stretch(D)).
    """
    steps: list[ColumnFilters | FilterPlugin] = []
    columns: list[FilterColumn] = []
    for plugin in profile.filter:
        if plugin.name in idle:
            continue
        plugin_answers = answers.get(plugin.name)
        if plugin_answers is None:
            if columns:
                steps.append(ColumnFilters(tuple(columns)))
                columns.clear()
            steps.append(plugin)
        elif plugin_answers.filter is not None:
            columns.append(plugin_answers.filter)
    if columns:
        steps.append(ColumnFilters(tuple(columns)))
    return tuple(steps)


def _signers(profile: Profile) -> Sequence[Any]:
    """The plugins that judge or score, and whose answers can be kept in columns."""
    return [plugin for plugin in _judging(profile) if profile.traits[plugin.name].is_keepable]


def _judging(profile: Profile) -> Collection[Any]:
    """The plugins that judge or score."""
    points: Sequence[Sequence[Any]] = (
        profile.pre_filter,
        profile.filter,
        profile.pre_score,
        tuple(scoring.plugin for scoring in profile.score),
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
