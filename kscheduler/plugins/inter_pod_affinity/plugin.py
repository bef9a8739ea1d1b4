"""InterPodAffinity: pods that want to be near others, or far from them, by topology domain.

A domain is a value of a node label (a zone, a host name). Affinity works both ways: the pod's own terms select pods
that are on nodes, and the terms of pods on nodes select the pod. The counters know which pods are on which row; this
plugin sums them over domains and gives each row the verdict of its domain.

                        the pod's own terms              terms of pods on nodes
    Filter  required    affinity, anti-affinity          anti-affinity
    Score   preferred   affinity (+), anti-affinity (-)  preferred (+ and -), required affinity (hardPodAffinityWeight)

Terminating pods count: they still run. The API server has merged `matchLabelKeys` into the selectors.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import InterPodAffinityArgs
from kscheduler.framework.cluster.topology import CountColumn, TopologyCounters
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.hint_index import IndexedEvent
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.repeats import BucketJudge, Conditions, NotByBucketError
from kscheduler.framework.plugin import MAX_NODE_SCORE, SKIPPED, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.affinity_terms import NO_TERMS, AffinityTerms
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import SKIP, SUCCESS, Status
from kscheduler.plugins.inter_pod_affinity import hints
from kscheduler.plugins.inter_pod_affinity.buckets import AffinityBuckets
from kscheduler.plugins.inter_pod_affinity.details import not_near, repelled, too_near
from kscheduler.plugins.inter_pod_affinity.domains import (
    ByKey,
    DomainCounts,
    OwnDomains,
    by_key,
    counts_any,
    weights_by_key,
    with_moved,
    with_moved_rows,
)
from kscheduler.plugins.inter_pod_affinity.members import most_members


class _Required(msgspec.Struct, frozen=True):
    """What Filter reads: pods by domain."""

    repelling: ByKey
    """Pods whose required anti-affinity selects the pod."""
    avoided: ByKey
    """Pods that its required anti-affinity selects."""
    wanted: ByKey
    """Pods that satisfy all of its required affinity."""
    satisfies_itself: bool
    """Whether the pod itself satisfies it."""

    verdicts: "dict[PodInfo, _Verdict]" = {}
    """By pod that has been moved so far."""

    def detached(self) -> "_Required":
        """A copy that does not change with the counters."""
        repelling, avoided, wanted = (
            {key: counts.detached() for key, counts in by_key.items()}
            for by_key in (self.repelling, self.avoided, self.wanted)
        )
        return replace(self, repelling=repelling, avoided=avoided, wanted=wanted)

    def may_be_first(self, rows: Rows) -> Mask | None:
        """The rows on which the pod may start its group: it satisfies itself, and no pod that does is in any domain.

        bool [rows]; `None` is nowhere.
        """
        first: Mask | bool = self.satisfies_itself
        for counts in self.wanted.values():
            if first is not False:
                first = first & counts.none_anywhere(rows)
        if isinstance(first, bool):
            return np.ones(len(rows), dtype=np.bool_) if first else None
        return first if first.any() else None


class _Verdict(msgspec.Struct, frozen=True):
    """How another pod bears on the pod's required terms."""

    repels: tuple[str, ...]
    """Topology keys of the other pod's anti-affinity terms that select the pod."""
    avoided: tuple[str, ...]
    """Topology keys of the pod's anti-affinity terms that select the other pod."""
    is_wanted: bool
    """Whether the other pod satisfies all of the pod's required affinity."""

    def __bool__(self) -> bool:
        return bool(self.repels or self.avoided or self.is_wanted)


class _Preferred(msgspec.Struct, frozen=True):
    """What Score reads: points by domain."""

    points: tuple[DomainCounts, ...]


class InterPodAffinity(Plugin):
    """Rejects nodes in domains where required terms do not hold; scores by the preferred terms."""

    name = "InterPodAffinity"
    depends_on = (Source.ROW, Source.TOPOLOGY_COUNTERS, Source.NAMESPACES)
    NOT_NEAR = -1
    TOO_NEAR = 1
    REPELLED = 2
    reasons: ClassVar = {
        NOT_NEAR: "node(s) didn't match pod affinity rules",
        TOO_NEAR: "node(s) didn't match pod anti-affinity rules",
        REPELLED: "node(s) didn't satisfy existing pods anti-affinity rules",
    }

    def __init__(self, args: InterPodAffinityArgs | None, handle: Handle) -> None:
        args = args if args is not None else InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignores_existing = args.ignore_preferred_terms_of_existing_pods
        self._known_counters = handle.counters
        self._own_domains = OwnDomains()

    @property
    def _counters(self) -> TopologyCounters:
        """The counters. Raises `LookupError` without them: to skip would mean that every node fits."""
        if self._known_counters is None:
            raise LookupError("InterPodAffinity was built without topology counters")
        return self._known_counters

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A pod comes that affinity wants, a pod leaves that anti-affinity avoids, or a node changes its domain.

        A deleted node takes its pods out of its domain, and terms may select namespaces by labels: upstream registers
        neither event.
        """
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
        return (
            IndexedEvent(ClusterEvent(Resource.POD, pods), self._after_pod_change, hints.POD_CHANGES),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, nodes), self._after_node_change),
            ClusterEventWithHint(ClusterEvent(Resource.NAMESPACE, ActionType.ALL), hints.after_namespace_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's own terms. What other pods' terms select it by, its namespace and labels, is in every signature."""
        return pod.affinity_terms

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Count by domain; skip where neither the pod nor a pod on a node requires anything of the other."""
        terms = pod.affinity_terms
        held = self._counters.required_anti_affinity(pod)
        requires_nothing = not (terms.required_affinity or terms.required_anti_affinity)
        if requires_nothing and not held:
            return SKIPPED
        count = partial(by_key, nodes, self._counters, self._own_domains)
        repelling = count((group.topology_key, group.holders, group.times) for group in held)
        if requires_nothing and all(counts.is_empty for counts in repelling.values()):
            return SKIPPED
        avoided, wanted = count(self._avoided(terms)), count(self._wanted(terms))
        cycle.write(_Required(repelling, avoided, wanted, hints.satisfies_itself(self._counters, pod)))
        return PreFilterResult(SUCCESS)

    def skips_while(self, pod: PodInfo) -> Conditions | None:
        """As long as no term comes or goes, a pod without terms that no term selects is skipped."""
        counters = self._counters
        if pod.affinity_terms is not NO_TERMS:
            return None
        held = counters.required_anti_affinity(pod) or counters.required_affinity(pod) or counters.preferred(pod)
        return None if held else Conditions((counters.term_changes,), counters.labels_of_terms(pod.pod.metadata.labels))

    def labels_read(self, pod: PodInfo) -> frozenset[str]:
        """Those that a term of a pod on a node names, and those that decide whether the pod satisfies itself."""
        wanted = pod.affinity_terms.all_required_affinity
        held = self._counters.labels_of_terms(pod.labels)
        return held if wanted is None else held | wanted.label_keys

    def by_bucket(self, pod: PodInfo, nodes: NodeTable) -> BucketJudge | None:
        """The judge of pods like this one; `None` where rows must be judged one by one."""
        if type(self) is not InterPodAffinity:
            return None
        try:
            return AffinityBuckets(self, self._counters, self._own_domains, pod, nodes)
        except NotByBucketError:
            return None

    def counted(self, pod: PodInfo) -> Iterator[tuple[str, CountColumn, int, int]]:
        """Each column that is read for the pod: topology key, pods per row, the bit of its meaning, points per pod."""
        terms = pod.affinity_terms
        for held in self._counters.required_anti_affinity(pod):
            yield held.topology_key, held.holders, 1, 0
        for key, column, _ in self._avoided(terms):
            yield key, column, 2, 0
        for key, column, _ in self._wanted(terms):
            yield key, column, 4, 0
        for key, column, weight in self._preferences(pod):
            yield key, column, 0, weight

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count one more pod on the row."""
        self._move(cycle, pod, added, nodes, row, 1)

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count one pod less on the row."""
        self._move(cycle, pod, removed, nodes, row, -1)

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Count the moved pods of many rows; each row sees only its own moves."""
        state = cycle.read(_Required)
        verdicts = [self._verdict(state, pod, kind) for kind in moved.kinds]
        if any(verdicts):
            wanted = {key: [int(verdict.is_wanted) for verdict in verdicts] for key in state.wanted}
            cycle.write(
                replace(
                    state,
                    repelling=with_moved_rows(
                        state.repelling, nodes, moved, weights_by_key([verdict.repels for verdict in verdicts])
                    ),
                    avoided=with_moved_rows(
                        state.avoided, nodes, moved, weights_by_key([verdict.avoided for verdict in verdicts])
                    ),
                    wanted=with_moved_rows(state.wanted, nodes, moved, wanted),
                )
            )

    def _move(self, cycle: CycleState, pod: PodInfo, other: PodInfo, nodes: NodeTable, row: int, by: int) -> None:
        state = cycle.read(_Required)
        verdict = self._verdict(state, pod, other)
        if verdict:
            wanted = state.wanted if verdict.is_wanted else ()
            cycle.write(
                replace(
                    state,
                    repelling=with_moved(state.repelling, nodes, verdict.repels, row, by),
                    avoided=with_moved(state.avoided, nodes, verdict.avoided, row, by),
                    wanted=with_moved(state.wanted, nodes, wanted, row, by),
                )
            )

    def _verdict(self, state: _Required, pod: PodInfo, other: PodInfo) -> _Verdict:
        verdict = state.verdicts.get(other)
        if verdict is None:
            own, others, selects = pod.affinity_terms, other.affinity_terms, self._counters.selects
            affinity = own.all_required_affinity
            verdict = state.verdicts[other] = _Verdict(
                tuple(
                    term.topology_key
                    for term in others.required_anti_affinity
                    if selects(term.match, pod.pod, held=True)
                ),
                tuple(term.topology_key for term in own.required_anti_affinity if selects(term.match, other.pod)),
                affinity is not None and selects(affinity, other.pod),
            )
        return verdict

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """int64 [rows]. Where several rules fail, the code is that of the last one written: affinity comes before the
        pod's own anti-affinity, and that before the anti-affinity of other pods.
        """
        del pod, nodes
        state = cycle.read(_Required)
        codes = np.zeros(len(rows), dtype=np.int64)
        for counts in state.repelling.values():
            np.copyto(codes, self.REPELLED, where=counts.has_any_at(rows))
        for counts in state.avoided.values():
            np.copyto(codes, self.TOO_NEAR, where=counts.has_any_at(rows))
        if state.wanted:
            may_be_first = state.may_be_first(rows)
            for counts in state.wanted.values():
                is_away = ~counts.has_any_at(rows)
                if may_be_first is not None:
                    is_away = np.where(may_be_first, counts.lacking(rows), is_away)
                np.copyto(codes, self.NOT_NEAR, where=is_away)
        return codes

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Sum the preferences by domain; skip where no preference concerns a pod on a node."""
        del rows
        terms = pod.affinity_terms
        has_own = bool(terms.preferred_affinity or terms.preferred_anti_affinity)
        if self._ignores_existing and not has_own:
            return SKIP
        sources, preferences = (nodes, self._counters, self._own_domains), list(self._preferences(pod))
        if not any(counts_any(*sources, key, counts) for key, counts, _ in preferences):
            return SKIP
        cycle.write(_Preferred(tuple(by_key(*sources, preferences).values())))
        return SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The sum of the points of the node's domains, int64 [rows]; may be negative."""
        del pod, nodes
        first, *others = cycle.read(_Preferred).points
        total = first.at(rows)
        for points in others:
            total = total + points.at(rows)
        return (
            total if total.base is None else total.copy()
        )  # callers may write to scores, and a numpy view is the counters' own memory

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0 (lowest) to 100 (highest), int64 [rows]; float64 truncated, as in Go. Equal scores all become 0."""
        del cycle, pod, rows
        lowest = int(scores.min())
        span = int(scores.max()) - lowest
        if span == 0:
            return np.zeros_like(scores)
        return (MAX_NODE_SCORE * ((scores - lowest) / span)).astype(np.int64)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which term fails, and which pods it selects."""
        codes = self.filter(cycle, pod, nodes, rows)
        if codes is None:
            return
        for code, explain in ((self.NOT_NEAR, not_near), (self.TOO_NEAR, too_near), (self.REPELLED, repelled)):
            affected = rows[codes == code]
            if len(affected):
                yield from explain(pod, self._counters, nodes, affected)

    def most_members(self, pods: Sequence[PodInfo], nodes: NodeTable, rows: Rows) -> NDArray[np.int64] | None:
        """Of pods whose anti-affinity selects them all, one in each domain, and so on each node that is in one."""
        return most_members(self._counters, pods, nodes, rows)

    # --- what is read of the counters ---------------------------------------------------------------------------------

    def _avoided(self, terms: AffinityTerms) -> Iterator[tuple[str, CountColumn, int]]:
        for term in terms.required_anti_affinity:
            yield term.topology_key, self._counters.matching(term.match), 1

    def _wanted(self, terms: AffinityTerms) -> Iterator[tuple[str, CountColumn, int]]:
        """Each key once: a pod counts if all terms select it."""
        if terms.all_required_affinity is not None:
            counts = self._counters.matching(terms.all_required_affinity)
            for key in dict.fromkeys(term.topology_key for term in terms.required_affinity):
                yield key, counts, 1

    def _preferences(self, pod: PodInfo) -> Iterator[tuple[str, CountColumn, int]]:
        """Topology key, pods per row, and points per pod."""
        terms, counters = pod.affinity_terms, self._counters
        for term in terms.preferred_affinity:
            yield term.topology_key, counters.matching(term.match), term.weight
        for term in terms.preferred_anti_affinity:
            yield term.topology_key, counters.matching(term.match), -term.weight
        if self._hard_weight > 0:
            for held in counters.required_affinity(pod):
                yield held.topology_key, held.holders, self._hard_weight * held.times
        for held in counters.preferred(pod):
            yield held.topology_key, held.holders, held.weight * held.times

    # --- hints --------------------------------------------------------------------------------------------------------

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        return hints.after_pod_change(self._counters, pod, old, new)

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        return hints.after_node_change(self._counters, pod, old, new)
