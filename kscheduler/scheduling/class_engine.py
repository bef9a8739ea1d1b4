"""The class engine: what was worked out for one pod is kept for all that its plugins judge alike.

    pod --signatures--> KnownClass --refresh: rows that changed since--> alive rows, sums of points --> the cycle

A class is the tuple of what the plugins with columns sign of a pod; plugins that do not sign, or depend on other rows,
take no part in it and are asked in each cycle. Two classes that a plugin signs alike share its column. Nominated pods
are unknown here: rows that carry them are judged again for the pod, on forks (`nominations`). Whatever is not a plain
success (a PreFilter that rejects or narrows, an exception, points out of bounds) leaves the pod to the cycle without
columns, so that there is one place where such things are told.

Memory is bounded: the classes not asked about for longest go first.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_table import NodeTable
from kscheduler.framework.plugin import UNSIGNABLE, FilterPlugin, Plugin, ScorePlugin
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.scheduling.class_columns import FilterColumn, ScoreColumn, Tally, UnkeepableError, is_keepable
from kscheduler.scheduling.known_class import KnownClass, Stretch
from kscheduler.scheduling.pod_templates import PodTemplates
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache

BUDGET_BYTES: Final = 256 * 2**20
"""For the classes of one profile; at 5,000 nodes room for some two thousand, at 100,000 for a hundred."""


class ClassEngine:
    """The classes of one profile over one cache."""

    def __init__(
        self, profile: Profile, view: Cache, *, tells_all: bool = False, budget_bytes: int = BUDGET_BYTES
    ) -> None:
        """`tells_all`: records of pods that found a node hold rejections and each plugin's points, too."""
        self._profile = profile
        self._nodes = view.nodes
        self._tells_all = tells_all
        self._budget_bytes = budget_bytes
        signers = _signers(profile)
        self._by_spec = [plugin for plugin in signers if plugin.reads_spec_only]
        self._others = [plugin for plugin in signers if not plugin.reads_spec_only]
        self._signed = [plugin.name for plugin in (*self._by_spec, *self._others)]
        self._templates = PodTemplates()
        self._classes: dict[Hashable, KnownClass] = {}
        self._bytes = 0
        self._columns: WeakValueDictionary[Hashable, FilterColumn | ScoreColumn] = WeakValueDictionary()
        self._shape = self._shape_of(self._nodes)

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def bytes(self) -> int:
        """What the classes take at most."""
        return self._bytes

    def known(self, pod: PodInfo, tally: Tally) -> KnownClass | None:
        """What is known of the pod's class, as of now; `None` where the pod is to be judged by itself."""
        if self._shape != self._shape_of(self._nodes):
            self._forget_all()
        try:
            name = self._signatures(pod)
            if any(signature is UNSIGNABLE for signature in name):
                return None
            known = self._classes.pop(name, None)
            if known is None:
                known = self._learn(pod, dict(zip(self._signed, name, strict=True)), tally)
            else:
                self._bytes -= self._size_of(known)
            known.refresh(pod, self._nodes, tally)
        except Exception:  # noqa: BLE001  a plugin call: the cycle without columns tells what there is to tell
            return None
        self._keep(name, known)
        return known

    def _signatures(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """What the plugins sign, in the order of `_signed`."""
        template = self._templates.of(pod)
        signatures = template.signatures if template is not None else ()
        if not signatures:
            signatures = tuple(plugin.sign(pod) for plugin in self._by_spec)
            if template is not None:
                template.signatures = signatures
        return signatures if not self._others else (*signatures, *(_signature(one, pod) for one in self._others))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def _keep(self, name: Hashable, known: KnownClass) -> None:
        size = self._size_of(known)
        while self._classes and self._bytes + size > self._budget_bytes:
            oldest = self._classes.pop(next(iter(self._classes)))
            self._bytes -= self._size_of(oldest)
        self._classes[name] = known
        self._bytes += size

    def _size_of(self, known: KnownClass) -> int:
        return known.bytes_per_row * self._nodes.capacity

    def _forget_all(self) -> None:
        self._classes.clear()
        self._columns.clear()
        self._bytes = 0
        self._shape = self._shape_of(self._nodes)

    @staticmethod
    def _shape_of(nodes: NodeTable) -> tuple[int, int]:
        """Columns have the table's capacity, and what a plugin says may hang on which resources there are."""
        return nodes.capacity, len(nodes.resources)

    # --- learning -----------------------------------------------------------------------------------------------------

    def _learn(self, pod: PodInfo, signatures: dict[str, Hashable], tally: Tally) -> KnownClass:
        """A class that was not known. Raises what plugins raise, and `UnkeepableError`."""
        profile, nodes, state = self._profile, self._nodes, CycleState()
        kept = signatures.keys()
        skipped: set[str] = set()
        for plugin in profile.pre_filter:
            if plugin.name in kept:
                result = plugin.pre_filter(state, pod, nodes)
                if result.node_names is not None:
                    raise UnkeepableError(plugin.name)
                _note_skip(plugin.name, result.status, skipped)
                tally.evaluated("PreFilter", plugin.name, nodes=0 if result.status.is_skip else 1)
        unscored: set[str] = set()
        for scorer in profile.pre_score:
            if scorer.name in kept:
                status = scorer.pre_score(state, pod, nodes, nodes.rows())
                _note_skip(scorer.name, status, unscored)
                tally.evaluated("PreScore", scorer.name, nodes=0 if status.is_skip else 1)
        scores = tuple(
            (self._score_column(one.plugin, signatures[one.plugin.name]), one.weight)
            for one in profile.score
            if one.plugin.name in kept and one.plugin.name not in unscored
        )
        steps = self._steps(signatures, skipped)
        return KnownClass(
            state=state,
            skipped=frozenset(skipped),
            live_pre_filter=tuple(one for one in profile.pre_filter if one.name not in kept),
            live_pre_score=tuple(one for one in profile.pre_score if one.name not in kept),
            live_score=tuple(one for one in profile.score if one.plugin.name not in kept),
            steps=steps,
            filters=tuple(column for step in steps if isinstance(step, Stretch) for column in step.columns),
            scores=scores,
            tells_all=self._tells_all,
        )

    def _steps(self, signatures: dict[str, Hashable], skipped: set[str]) -> tuple[Stretch | FilterPlugin, ...]:
        steps: list[Stretch | FilterPlugin] = []
        columns: list[FilterColumn] = []
        for plugin in self._profile.filter:
            if plugin.name not in signatures:
                if columns:
                    steps.append(Stretch(tuple(columns)))
                    columns.clear()
                steps.append(plugin)
            elif plugin.name not in skipped:
                columns.append(self._filter_column(plugin, signatures[plugin.name]))
        if columns:
            steps.append(Stretch(tuple(columns)))
        return tuple(steps)

    def _filter_column(self, plugin: FilterPlugin, signature: Hashable) -> FilterColumn:
        key = "Filter", plugin.name, signature
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = FilterColumn(plugin, self._nodes)
        return cast("FilterColumn", column)

    def _score_column(self, plugin: ScorePlugin, signature: Hashable) -> ScoreColumn:
        key = "Score", plugin.name, signature
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = ScoreColumn(plugin, self._nodes)
        return cast("ScoreColumn", column)


def _signers(profile: Profile) -> Sequence[Any]:
    """The plugins that judge or score and whose answers can be kept."""
    points: Sequence[Sequence[Any]] = (
        profile.pre_filter,
        profile.filter,
        profile.pre_score,
        tuple(one.plugin for one in profile.score),
    )
    found: dict[str, Plugin] = {plugin.name: plugin for point in points for plugin in point}
    return [plugin for plugin in found.values() if is_keepable(plugin)]


def _signature(plugin: Any, pod: PodInfo) -> Hashable:
    signature: Hashable = plugin.sign(pod)
    return signature if signature is UNSIGNABLE else (signature, pod.namespace, frozenset(pod.labels.items()))


def _note_skip(plugin: str, status: Status, skipped: set[str]) -> None:
    if status.is_skip:
        skipped.add(plugin)
    elif not status.is_success:
        raise UnkeepableError(plugin)
