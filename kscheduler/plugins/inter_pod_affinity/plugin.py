"""InterPodAffinity: pods that want to be near others, or far from them, by topology domain.

A domain is a value of a node label (a zone, a host name). It works both ways: the pod's own terms speak of pods that
are there, and the terms of pods that are there speak of it. The counters know which pods are on which row; here they
are summed over domains, and a domain's verdict is spread over its rows.

                        the pod's own terms              terms of pods on nodes
    Filter  required    affinity, anti-affinity          anti-affinity
    Score   preferred   affinity (+), anti-affinity (-)  preferred (+ and -), required affinity (hardPodAffinityWeight)

Terminating pods count: they are still there. The API server has merged `matchLabelKeys` into the selectors.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import InterPodAffinityArgs
from kscheduler.framework.cluster.topology import CountColumn, TopologyCounters
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, SKIPPED, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.affinity_terms import AffinityTerms
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.status import SKIP, SUCCESS, Status
from kscheduler.plugins.inter_pod_affinity import hints
from kscheduler.plugins.inter_pod_affinity.details import not_near, repelled, too_near
from kscheduler.plugins.inter_pod_affinity.domains import (
    ByKey,
    DomainCounts,
    by_key,
    counts_any,
    weights_by_key,
    with_moved,
    with_moved_rows,
)
from kscheduler.plugins.inter_pod_affinity.own_domains import OwnDomains


@dataclass(frozen=True, slots=True)
class _Required:
    """What Filter reads: pods by domain."""

    repelling: ByKey
    """Pods whose required anti-affinity selects the pod."""
    avoided: ByKey
    """Pods that its required anti-affinity selects."""
    wanted: ByKey
    """Pods that satisfy all of its required affinity."""
    satisfies_itself: bool
    """Whether it is itself such a pod."""

    verdicts: "dict[PodInfo, _Verdict]" = field(default_factory=dict)
    """About pods that were moved so far."""

    def may_be_first(self, rows: Rows) -> Mask | None:
        """Where it is the first of a group that wants to be together: nobody is there whom it could join.

        `None` is nowhere.
        """
        first: Mask | bool = self.satisfies_itself
        for one in self.wanted.values():
            if first is not False:
                first = first & one.nobody(rows)
        if isinstance(first, bool):
            return np.ones(len(rows), dtype=np.bool_) if first else None
        return first if first.any() else None


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What another pod means for the pod."""

    repels: tuple[str, ...]
    """Topology keys of the terms by which it keeps the pod away."""
    avoided: tuple[str, ...]
    """Those of the terms by which the pod keeps away from it."""
    is_wanted: bool

    def __bool__(self) -> bool:
        return bool(self.repels or self.avoided or self.is_wanted)


@dataclass(frozen=True, slots=True)
class _Preferred:
    """What Score reads: points by domain."""

    points: tuple[DomainCounts, ...]


class InterPodAffinity(Plugin):
    """Turns down nodes in domains where required terms do not hold; scores by the domains' preferences."""

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
        """The counters. Without them nothing can be said, and silence would mean that every node fits."""
        if self._known_counters is None:
            raise LookupError("InterPodAffinity was built without topology counters")
        return self._known_counters

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Pods that are to be near come or get their labels; pods that are in the way go; nodes join other domains.

        A node that goes takes its pods out of its domain, and namespaces are asked for by their labels: upstream
        registers neither.
        """
        pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        nodes = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(ClusterEvent(Resource.POD, pods), self._after_pod_change),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, nodes), self._after_node_change),
            ClusterEventWithHint(ClusterEvent(Resource.NAMESPACE, ActionType.ALL), hints.after_namespace_change),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Its own terms. What the terms of others ask of it is in every class: its namespace and its labels."""
        return pod.affinity_terms

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Count by domain; skip where neither the pod nor one that is there requires anything."""
        terms = pod.affinity_terms
        held = self._counters.required_anti_affinity(pod)
        asks_nothing = not (terms.required_affinity or terms.required_anti_affinity)
        if asks_nothing and not held:
            return SKIPPED
        count = partial(by_key, nodes, self._counters, self._own_domains)
        repelling = count((one.topology_key, one.holders, 1) for one in held)
        if asks_nothing and all(one.is_empty for one in repelling.values()):
            return SKIPPED
        avoided, wanted = count(self._avoided(terms)), count(self._wanted(terms))
        cycle.write(_Required(repelling, avoided, wanted, hints.satisfies_itself(self._counters, pod)))
        return PreFilterResult(SUCCESS)

    def add_pod(self, cycle: CycleState, pod: PodInfo, added: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count one more pod on the row."""
        self._move(cycle, pod, added, nodes, row, 1)

    def remove_pod(self, cycle: CycleState, pod: PodInfo, removed: PodInfo, nodes: NodeTable, row: int) -> None:
        """Count one pod less on the row."""
        self._move(cycle, pod, removed, nodes, row, -1)

    def move_pods(self, cycle: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> None:
        """Count pods of many rows, each for its row alone."""
        state = cycle.read(_Required)
        verdicts = [self._verdict(state, pod, one) for one in moved.kinds]
        if any(verdicts):
            wanted = {key: [int(one.is_wanted) for one in verdicts] for key in state.wanted}
            cycle.write(
                replace(
                    state,
                    repelling=with_moved_rows(
                        state.repelling, nodes, moved, weights_by_key([one.repels for one in verdicts])
                    ),
                    avoided=with_moved_rows(
                        state.avoided, nodes, moved, weights_by_key([one.avoided for one in verdicts])
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
            own, its, selects = pod.affinity_terms, other.affinity_terms, self._counters.selects
            every = own.all_required_affinity
            verdict = state.verdicts[other] = _Verdict(
                tuple(one.topology_key for one in its.required_anti_affinity if selects(one.match, pod.pod, held=True)),
                tuple(one.topology_key for one in own.required_anti_affinity if selects(one.match, other.pod)),
                every is not None and selects(every, other.pod),
            )
        return verdict

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """First the pod's own affinity, then its anti-affinity, then that of the others."""
        del pod, nodes
        state = cycle.read(_Required)
        codes = np.zeros(len(rows), dtype=np.int64)
        for one in state.repelling.values():
            np.copyto(codes, self.REPELLED, where=one.has_any_at(rows))
        for one in state.avoided.values():
            np.copyto(codes, self.TOO_NEAR, where=one.has_any_at(rows))
        if state.wanted:
            may_be_first = state.may_be_first(rows)
            for one in state.wanted.values():
                is_away = ~one.has_any_at(rows)
                if may_be_first is not None:
                    is_away = np.where(may_be_first, one.lacking(rows), is_away)
                np.copyto(codes, self.NOT_NEAR, where=is_away)
        return codes

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Sum the preferences by domain; skip where there is none."""
        del rows
        terms = pod.affinity_terms
        has_own = bool(terms.preferred_affinity or terms.preferred_anti_affinity)
        if self._ignores_existing and not has_own:
            return SKIP
        around, preferences = (nodes, self._counters, self._own_domains), list(self._preferences(pod))
        if not any(counts_any(*around, key, counts) for key, counts, _ in preferences):
            return SKIP
        cycle.write(_Preferred(tuple(by_key(*around, preferences).values())))
        return SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The sum over the node's domains; may be negative."""
        del pod, nodes
        first, *others = cycle.read(_Preferred).points
        total = first.at(rows)
        for points in others:
            total = total + points.at(rows)
        return total if total.base is None else total.copy()  # a view would be the counters themselves

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """From the lowest (0) to the highest (100), in float64 and cut off, as in Go; all alike get 0."""
        del cycle, pod, rows
        lowest = int(scores.min())
        span = int(scores.max()) - lowest
        if span == 0:
            return np.zeros_like(scores)
        return (MAX_NODE_SCORE * ((scores - lowest) / span)).astype(np.int64)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which term, and whose pods."""
        codes = self.filter(cycle, pod, nodes, rows)
        if codes is None:
            return
        for code, told in ((self.NOT_NEAR, not_near), (self.TOO_NEAR, too_near), (self.REPELLED, repelled)):
            concerned = rows[codes == code]
            if len(concerned):
                yield from told(pod, self._counters, nodes, concerned)

    # --- what is asked of the counters --------------------------------------------------------------------------------

    def _avoided(self, terms: AffinityTerms) -> Iterator[tuple[str, CountColumn, int]]:
        for one in terms.required_anti_affinity:
            yield one.topology_key, self._counters.matching(one.match), 1

    def _wanted(self, terms: AffinityTerms) -> Iterator[tuple[str, CountColumn, int]]:
        """Once for each key: all terms together select the pods that count."""
        if terms.all_required_affinity is not None:
            counts = self._counters.matching(terms.all_required_affinity)
            for key in dict.fromkeys(term.topology_key for term in terms.required_affinity):
                yield key, counts, 1

    def _preferences(self, pod: PodInfo) -> Iterator[tuple[str, CountColumn, int]]:
        """Topology key, pods per row, and what each of them is worth."""
        terms, counters = pod.affinity_terms, self._counters
        for term in terms.preferred_affinity:
            yield term.topology_key, counters.matching(term.match), term.weight
        for term in terms.preferred_anti_affinity:
            yield term.topology_key, counters.matching(term.match), -term.weight
        if self._hard_weight > 0:
            for held in counters.required_affinity(pod):
                yield held.topology_key, held.holders, self._hard_weight
        for held in counters.preferred(pod):
            yield held.topology_key, held.holders, held.weight

    # --- hints --------------------------------------------------------------------------------------------------------

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        return hints.after_pod_change(self._counters, pod, old, new)

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        return hints.after_node_change(self._counters, pod, old, new)
