"""InterPodAffinity: pods that want to be near others, or far from them, by topology domain.

A domain is a value of a node label (a zone, a host name). It works both ways: the pod's own terms speak of pods that
are there, and the terms of pods that are there speak of it. The counters know which pods are on which row; here they
are summed over domains, and a domain's verdict is spread over its rows.

                        the pod's own terms              terms of pods on nodes
    Filter  required    affinity, anti-affinity          anti-affinity
    Score   preferred   affinity (+), anti-affinity (-)  preferred (+ and -), required affinity (hardPodAffinityWeight)

Terminating pods count: they are still there. The API server has merged `matchLabelKeys` into the selectors.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import InterPodAffinityArgs
from kscheduler.framework.affinity_terms import AffinityTerms, affinity_terms
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.label_column import Mask
from kscheduler.framework.moved_pods import MovedPods, RowCounts
from kscheduler.framework.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, PreFilterResult, Source
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.pod_match import PodMatch
from kscheduler.framework.resource_scoring import compact
from kscheduler.framework.status import SKIP, SUCCESS, Status
from kscheduler.framework.topology import CountColumn, TopologyCounters

_ALL: Final = slice(None)
_SKIPPED: Final = PreFilterResult(SKIP)


class _DomainCounts:
    """A number per domain of one topology key. Never changed: `moved` makes a new one."""

    __slots__ = ("_counts", "_moved", "_numbers")

    def __init__(self, numbers: NDArray[np.int32], counts: NDArray[np.int64], moved: RowCounts | None = None) -> None:
        self._numbers = numbers
        """Per row of the table the number of its domain; 0 where it has no such label, and so is in no domain."""
        self._counts = counts
        """Per domain; 0 for no domain."""
        self._moved = moved
        """What is to be added to its domain's count where a row is judged; `None` is nothing."""

    @classmethod
    def of(cls, nodes: NodeTable, key: str, counts: CountColumn) -> "_DomainCounts":
        """Sum over the live rows of each domain."""
        numbers, values = nodes.label_values(key, _ALL)
        live = compact(nodes.rows())
        sums = np.zeros(len(values), dtype=np.int64)
        np.add.at(sums, numbers[live], counts[live])
        sums[0] = 0
        return cls(numbers, sums)

    @property
    def is_empty(self) -> bool:
        """Whether nobody is counted anywhere."""
        return not self._counts.any()

    def at(self, rows: Rows) -> NDArray[np.int64]:
        """The counts of the rows' domains."""
        counts = self._counts.take(self._numbers[compact(rows)])
        return counts if self._moved is None else counts + self._moved[rows]

    def has_any_at(self, rows: Rows) -> Mask:
        """Whether somebody is counted in the rows' domains."""
        if self._moved is None:
            return (self._counts > 0).take(self._numbers[compact(rows)])
        found: Mask = self.at(rows) > 0
        return found

    def nobody(self, rows: Rows) -> Mask:
        """Whether nobody is counted anywhere, as each of the rows sees it."""
        if self._moved is None:
            return np.full(len(rows), self.is_empty)
        elsewhere = np.count_nonzero(self._counts) - (self._counts[self._numbers[rows]] != 0)
        found: Mask = (elsewhere == 0) & (self.at(rows) == 0)
        return found

    def lacking(self, rows: Rows) -> Mask:
        """The rows that have no such label."""
        lacking: Mask = self._numbers[compact(rows)] == 0
        return lacking

    def moved(self, row: int, by: int) -> "_DomainCounts":
        """With so many more in the row's domain."""
        number = self._numbers[row]
        if number == 0:
            return self
        counts = self._counts.copy()
        counts[number] += by
        return _DomainCounts(self._numbers, counts, self._moved)

    def moved_by_row(self, moved: MovedPods, weights: Sequence[int]) -> "_DomainCounts":
        """With pods moved on many rows, each row by itself."""
        after = moved.added_to(self._moved, weights, len(self._numbers))
        if after is self._moved or after is None:
            return self
        after[self._numbers == 0] = 0
        return _DomainCounts(self._numbers, self._counts, after)


_ByKey = Mapping[str, _DomainCounts]
"""By topology key."""


@dataclass(frozen=True, slots=True)
class _Required:
    """What Filter reads: pods by domain."""

    repelling: _ByKey
    """Pods whose required anti-affinity selects the pod."""
    avoided: _ByKey
    """Pods that its required anti-affinity selects."""
    wanted: _ByKey
    """Pods that satisfy all of its required affinity."""
    satisfies_itself: bool
    """Whether it is itself such a pod."""

    verdicts: "dict[PodInfo, _Verdict]" = field(default_factory=dict)
    """About pods that were moved so far."""

    def may_be_first(self, rows: Rows) -> Mask:
        """Where it is the first of a group that wants to be together: nobody is there whom it could join."""
        first = np.full(len(rows), self.satisfies_itself)
        for one in self.wanted.values():
            first &= one.nobody(rows)
        return first


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

    points: tuple[_DomainCounts, ...]


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
            ClusterEventWithHint(ClusterEvent(Resource.NAMESPACE, ActionType.ALL), _after_namespace_change),
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
            return _SKIPPED
        repelling = _by_key(nodes, _summed((one.topology_key, one.holders) for one in held))
        if asks_nothing and all(one.is_empty for one in repelling.values()):
            return _SKIPPED
        avoided, wanted = _by_key(nodes, self._avoided(terms)), _by_key(nodes, self._wanted(terms))
        cycle.write(_Required(repelling, avoided, wanted, self._satisfies_itself(pod)))
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
                    repelling=_moved_by_row(state.repelling, nodes, moved, _weights([one.repels for one in verdicts])),
                    avoided=_moved_by_row(state.avoided, nodes, moved, _weights([one.avoided for one in verdicts])),
                    wanted=_moved_by_row(state.wanted, nodes, moved, wanted),
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
                    repelling=_moved(state.repelling, nodes, verdict.repels, row, by),
                    avoided=_moved(state.avoided, nodes, verdict.avoided, row, by),
                    wanted=_moved(state.wanted, nodes, wanted, row, by),
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
            is_first_anywhere = bool(may_be_first.any())
            for one in state.wanted.values():
                is_away = ~one.has_any_at(rows)
                if is_first_anywhere:
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
        amounts: dict[str, NDArray[np.int64]] = {}
        is_any = False
        for key, counts, weight in self._preferences(pod):
            is_any = is_any or _counts_any(nodes, key, counts)
            worth = counts * weight
            amounts[key] = amounts[key] + worth if key in amounts else worth
        if not is_any:
            return SKIP
        cycle.write(_Preferred(tuple(_by_key(nodes, amounts).values())))
        return SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The sum over the node's domains; may be negative."""
        del pod, nodes
        total = np.zeros(len(rows), dtype=np.int64)
        for points in cycle.read(_Preferred).points:
            total += points.at(rows)
        return total

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """From the lowest (0) to the highest (100), in float64 and cut off, as in Go; all alike get 0."""
        del cycle, pod, rows
        lowest = int(scores.min())
        span = int(scores.max()) - lowest
        if span == 0:
            return np.zeros_like(scores)
        return (MAX_NODE_SCORE * ((scores - lowest) / span)).astype(np.int64)

    # --- what is asked of the counters --------------------------------------------------------------------------------

    def _avoided(self, terms: AffinityTerms) -> dict[str, CountColumn]:
        return _summed((one.topology_key, self._counters.matching(one.match)) for one in terms.required_anti_affinity)

    def _wanted(self, terms: AffinityTerms) -> dict[str, CountColumn]:
        if terms.all_required_affinity is None:
            return {}
        counts = self._counters.matching(terms.all_required_affinity)
        return {term.topology_key: counts for term in terms.required_affinity}

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

    def _satisfies_itself(self, pod: PodInfo) -> bool:
        wanted = pod.affinity_terms.all_required_affinity
        return wanted is not None and self._counters.selects(wanted, pod.pod)

    # --- hints --------------------------------------------------------------------------------------------------------

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """Whether a pod came near, went out of the way, or changed its labels so that it did."""
        changed = [one for one in (old, new) if isinstance(one, Pod)]
        if isinstance(old, Pod) and isinstance(new, Pod) and new.metadata.uid == pod.pod.metadata.uid:
            return QueueingHint.QUEUE  # others may be averse to the labels it had
        if any(not (one.spec.node_name or one.status.nominated_node_name) for one in changed):
            return QueueingHint.SKIP  # it is nowhere, so it is neither near nor in the way
        before = old if isinstance(old, Pod) else None
        after = new if isinstance(new, Pod) else None
        helps = self._came_near(pod, before, after) or self._went_away(pod, before, after)
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _came_near(self, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
        """One that is wanted: it satisfies all required affinity terms now, and did not before."""
        wanted = pod.affinity_terms.all_required_affinity
        if wanted is None or after is None or not self._counters.selects(wanted, after):
            return False
        return before is None or not self._counters.selects(wanted, before)

    def _went_away(self, pod: PodInfo, before: Pod | None, after: Pod | None) -> bool:
        """One that was in the way of *any* anti-affinity term, the pod's or its own (Q14: upstream asks for all)."""
        if before is None:
            return False
        if after is None:
            repelled = affinity_terms(before).required_anti_affinity
            if any(self._counters.selects(term.match, pod.pod, held=True) for term in repelled):
                return True
        avoided = [term.match for term in pod.affinity_terms.required_anti_affinity]
        return any(self._selects_no_longer(match, before, after) for match in (*avoided, *self._own_group(pod)))

    def _selects_no_longer(self, match: PodMatch, before: Pod, after: Pod | None) -> bool:
        counters = self._counters
        return counters.selects(match, before) and not (after is not None and counters.selects(match, after))

    def _own_group(self, pod: PodInfo) -> Iterable[PodMatch]:
        """Whom a pod that satisfies itself wants to join: once nobody of them is left, it may be the first anywhere."""
        wanted = pod.affinity_terms.all_required_affinity
        return (wanted,) if wanted is not None and self._satisfies_itself(pod) else ()

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """Whether a node came or joined a domain that affinity may ask for, or left one where somebody is in the way.

        Upstream forgets pods that only the anti-affinity of others keeps away: a new node must wake them too. Nor does
        it know that the first of a group may go anywhere once those it wanted to join are in no domain any more.
        """
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        terms, labels = pod.affinity_terms, new.metadata.labels
        wanted = {term.topology_key for term in terms.required_affinity}
        if not isinstance(old, Node):
            helps = not wanted or bool(terms.required_anti_affinity) or any(key in labels for key in wanted)
            return QueueingHint.QUEUE if helps else QueueingHint.SKIP
        before = old.metadata.labels
        avoided = {term.topology_key for term in terms.required_anti_affinity}
        avoided |= {term.topology_key for term in self._counters.required_anti_affinity(pod)}
        avoided |= wanted if self._satisfies_itself(pod) else set()
        joins = any(key in labels and before.get(key) != labels[key] for key in wanted)
        leaves = any(key in before and labels.get(key) != before[key] for key in avoided)
        return QueueingHint.QUEUE if joins or leaves else QueueingHint.SKIP


def _after_namespace_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """The pod's own namespace, which others may ask for, or any where the pod asks for namespaces by their labels."""
    names = {one.metadata.name for one in (old, new) if one is not None}
    terms = pod.affinity_terms
    required = (*terms.required_affinity, *terms.required_anti_affinity)
    asks = any(term.match.namespace_selector is not None for term in required)
    return QueueingHint.QUEUE if asks or pod.namespace in names else QueueingHint.SKIP


def _summed(counted: Iterable[tuple[str, CountColumn]]) -> dict[str, CountColumn]:
    """One column for each topology key."""
    summed: dict[str, CountColumn] = {}
    for key, counts in counted:
        summed[key] = summed[key] + counts if key in summed else counts
    return summed


def _by_key(nodes: NodeTable, counted: Mapping[str, CountColumn]) -> dict[str, _DomainCounts]:
    return {key: _DomainCounts.of(nodes, key, counts) for key, counts in counted.items()}


def _moved(by_key: _ByKey, nodes: NodeTable, keys: Iterable[str], row: int, by: int) -> _ByKey:
    """With so many more in the row's domains by these keys."""
    more = dict(by_key)
    for key in keys:
        before = more.get(key) or _DomainCounts.of(nodes, key, np.zeros(nodes.capacity, dtype=np.int64))
        more[key] = before.moved(row, by)
    return more


def _weights(keys_of: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """By topology key how often it is among the keys of each kind."""
    return {key: [its.count(key) for its in keys_of] for key in {key for its in keys_of for key in its}}


def _moved_by_row(by_key: _ByKey, nodes: NodeTable, moved: MovedPods, weights: Mapping[str, Sequence[int]]) -> _ByKey:
    """With pods moved on many rows, each as often as its kind weighs by the key."""
    more = dict(by_key)
    for key, its in weights.items():
        before = more.get(key) or _DomainCounts.of(nodes, key, np.zeros(nodes.capacity, dtype=np.int64))
        more[key] = before.moved_by_row(moved, its)
    return more


def _counts_any(nodes: NodeTable, key: str, counts: CountColumn) -> bool:
    """Whether somebody is counted on a row that has the label; what they are worth may still cancel out."""
    numbers, _ = nodes.label_values(key, _ALL)
    live = compact(nodes.rows())
    return bool(((counts[live] > 0) & (numbers[live] != 0)).any())
