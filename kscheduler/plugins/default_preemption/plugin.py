"""The plugin: which pods may preempt, which nodes are tried, and what is reported."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import DefaultPreemptionArgs
from kscheduler.framework.cluster.preemption import (
    Candidate,
    GroupTrial,
    PodGroupPostFilterResult,
    Preemption,
    PreemptionSearch,
    VictimReview,
    outbid_by,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, stable_hash
from kscheduler.framework.nodes.pod_columns import PodColumns
from kscheduler.framework.plugin import Plugin, PostFilterResult, Signature
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis, FitError, Rejection
from kscheduler.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.choice import Candidates, Shortlist, choose, not_eligible
from kscheduler.plugins.default_preemption.for_groups import GroupVictimSearch
from kscheduler.plugins.default_preemption.remembered import RememberedRows, RowMemory
from kscheduler.plugins.default_preemption.unit_search import GroupedRows, UnitRules, count_groups, search_units, worth
from kscheduler.plugins.default_preemption.victims import (
    NoneNeeded,
    Tried,
    VictimSearch,
    choose_listed,
    rejection,
    still_allowed,
)

NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")
NO_CANDIDATE: Final = unschedulable("no candidate node for preemption")
# Made once: PreEnqueue runs for each waiting preemptor with each victim that is deleted.
WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished", plugin="DefaultPreemption")
GROUP_WAITING: Final = unresolvable(
    "waiting for the preemption for this pod group to be finished", plugin="DefaultPreemption"
)
_SMALLEST_BATCH: Final = 32


class DefaultPreemption(Plugin):
    """Finds the node where evicting the least makes room for the pod."""

    name = "DefaultPreemption"
    depends_on = ()
    hints_by_spec = True
    judges_without_labels = True

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        self._args = args or DefaultPreemptionArgs()
        self._handle = handle
        self._units = UnitRules(handle.pod_groups, handle.behaviours.members_are_victims_by_themselves)
        self._pod_columns = PodColumns(partial(worth, self._units))
        self._budgets = BudgetRules(handle.budgets, handle.behaviours)
        self._reports = handle.behaviours.reports_of_preemption
        self._grouped = GroupedRows(handle.pod_groups)
        self._memory = RowMemory()
        self._share = 1.0
        """The share of candidates among the nodes tried last: it decides how many nodes the next search begins with."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A deleted pod may end a preemption; whether it helps the pod is decided by the plugin that rejected it."""
        return (ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _never),)

    def sign(self, pod: PodInfo) -> Signature:
        """The priority, which decides what the pod may evict, and its preemption policy."""
        return pod.priority, pod.pod.spec.preemption_policy

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """A preemptor waits until its victims terminate: before that it would count them, and choose other victims."""
        groups = self._handle.pod_groups
        key = groups.key_of(pod.pod)
        root = None if key is None else groups.root_of(key)
        group = None if root is None else groups.definition(root)
        if group is not None:
            uid = group.uid or group.key.text
            return GROUP_WAITING if self._handle.evictions.is_under_way(uid) else SUCCESS
        return WAITING if self._handle.evictions.is_under_way(pod.uid) else SUCCESS

    def keeps_any_out(self) -> bool:
        """Whether there are preemptors that may have to wait."""
        return self._handle.evictions.has_any()

    def may_let_in(self) -> Collection[str]:
        """Only preemptors whose last victim is being evicted; all others wait, whatever happens to other pods."""
        return self._handle.evictions.nearly_done()

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """Choose a node and the victims there whose eviction makes room. Only reports the choice: evicts nothing."""
        result = self._preempt(cycle, pod, nodes, diagnosis)
        status = result.status
        if not status.reasons:
            return result
        prefixed = Status(status.code, (f"preemption: {status.message}",), self.name, status.fault)
        return replace(result, status=prefixed)

    def pod_group_post_filter(self, trial: GroupTrial) -> PodGroupPostFilterResult:
        """Choose victims anywhere whose eviction makes room for the whole group. Only reports the choice."""
        result = GroupVictimSearch(
            trial, self._units, self._pod_columns, self._budgets, self._handle, self.name
        ).search()
        status = result.status
        prefixed = Status(status.code, (f"pod group preemption: {status.message}",), self.name, status.fault)
        return replace(result, status=prefixed)

    def _preempt(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        potential = _potential(nodes, diagnosis)
        refusal = not_eligible(pod, self._nominated_node(pod), nodes, potential, self._handle.evictions)
        if refusal:
            return PostFilterResult(unschedulable(refusal))
        review = cycle.find(VictimReview)
        none_needed = self._none_needed(is_reviewed=review is not None)
        search = VictimSearch(pod, nodes, cycle, cycle.read(DryRun), self._pod_columns, self._budgets, none_needed)
        known = None if self._nominated_node(pod) else self._memory.of(search)
        tried = self._try_out(search, potential, known)
        if not tried.found and not tried.reports_all:
            tried = self._try_out(search, potential, None)
        if not tried.found:
            return _no_candidate(nodes, tried)
        if review is not None and not review.failure.is_success:
            return PostFilterResult(review.failure)
        chosen = choose(tried.found, nodes, pod) if review is None else self._reviewed(review, tried, nodes, pod)
        if chosen is None:
            return PostFilterResult(NO_CANDIDATE)  # as upstream, an earlier nomination stays
        cycle.write(PreemptionSearch(lambda: _with_victims(tried.found, nodes), chosen))
        outbid = self._outbid(chosen.node_name, pod)
        preemption = Preemption(
            pod,
            chosen.node_name,
            chosen.victims,
            self.name,
            outbid,
            broken_budgets=chosen.broken_budgets,
            disrupted_groups=count_groups(self._units, chosen.victims),
        )
        return PostFilterResult(self._success(chosen), chosen.node_name, preemption)

    def _none_needed(self, *, is_reviewed: bool) -> NoneNeeded:
        if not self._handle.behaviours.needs_no_victims:
            return NoneNeeded.ERROR
        return NoneNeeded.CANDIDATE if is_reviewed else NoneNeeded.REJECTED

    def _success(self, chosen: Candidate) -> Status:
        if not self._reports:
            return SUCCESS
        found = f"found a potential placement for pod on node {chosen.node_name}"
        return Status(Code.SUCCESS, (f"{found}, preempting {len(chosen.victims)} victims",))

    @staticmethod
    def _reviewed(review: VictimReview, tried: Tried, nodes: NodeTable, pod: PodInfo) -> Candidate | None:
        found = _listed(tried.found, nodes)
        allowed, review.queries = still_allowed(review.reviewed, found, nodes)
        return choose_listed(allowed, nodes, pod) if allowed else None

    def _try_out(self, search: VictimSearch, potential: Rows, known: RememberedRows | None) -> Tried:
        """Try nodes in ring order until there are enough candidates and one of them breaks no budget.

        The pod's UID decides where the ring begins; upstream draws it at random. Nodes are in the order of the table.
        """
        tried = Tried()
        if not len(potential):
            return tried
        shortlist = Shortlist(self._number_of_candidates(len(potential)), self._share)
        begin = stable_hash(search.pod.uid) % len(potential)
        ring = np.concatenate([potential[begin:], potential[:begin]])
        at = candidates = 0
        while at < len(ring) and not shortlist.is_full:
            batch = ring[at : at + max(shortlist.likely_enough(at), _SMALLEST_BATCH)]
            at += len(batch)
            result = self._search(search, np.sort(batch), known)
            candidates += sum(map(len, result.found))
            tried.found += shortlist.take(batch, result.found)
            tried.rejections += result.rejections
            tried.errors += result.errors
            tried.reports_all &= result.reports_all
        self._share = candidates / at
        return tried

    def _search(self, search: VictimSearch, rows: Rows, known: RememberedRows | None) -> Tried:
        """Search on the rows (ascending); nodes with members of groups by themselves, and nothing is kept of these."""
        grouped = self._grouped.among(search.nodes, rows)
        if not len(grouped):
            return search.on(rows) if known is None else known.on(rows, search)
        tried = search_units(search, self._units, grouped)
        others = np.setdiff1d(rows, grouped, assume_unique=True)
        if len(others):
            result = search.on(others) if known is None else known.on(others, search)
            tried.found += result.found
            tried.rejections += result.rejections
            tried.errors += result.errors
            tried.reports_all = result.reports_all
        return tried

    def _number_of_candidates(self, nodes: int) -> int:
        by_share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(by_share, self._args.min_candidate_nodes_absolute), nodes)

    def _nominated_node(self, pod: PodInfo) -> str:
        """The node that the pod's last decision nominated: its status may not show that yet."""
        nominator = self._handle.nominator
        decided = nominator.nominated_node(pod) if nominator is not None else ""
        return decided or pod.pod.status.nominated_node_name

    def _outbid(self, node_name: str, pod: PodInfo) -> tuple[PodInfo, ...]:
        nominator = self._handle.nominator
        if nominator is None:
            return ()
        return outbid_by(pod, nominator.nominated_pods(node_name))


def _never(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    del pod, old, new
    return QueueingHint.SKIP


def _potential(nodes: NodeTable, diagnosis: Diagnosis) -> Rows:
    """The rows whose rejection preemption might resolve, ascending."""
    if diagnosis.pre_filter.is_rejected:
        is_hopeless = diagnosis.pre_filter.code is not Code.UNSCHEDULABLE
        return nodes.rows()[:0] if is_hopeless else nodes.rows()
    rows = [_resolvable(rejected) for rejected in diagnosis.rejections]
    if len(rows) == 1:
        return rows[0]
    is_potential = np.zeros(nodes.capacity, dtype=np.bool_)
    for part in rows:
        is_potential[part] = True
    return is_potential.nonzero()[0]


def _resolvable(rejected: Rejection) -> Rows:
    is_resolvable = rejected.codes > 0
    return rejected.rows if is_resolvable.all() else rejected.rows.take(is_resolvable.nonzero()[0])


def _no_candidate(nodes: NodeTable, tried: Tried) -> PostFilterResult:
    """No eviction would help, so a nomination is taken back ("" as the node). After errors it stays as it is."""
    if tried.errors:
        return PostFilterResult(error(_aggregate(tried.errors)))
    others = nodes.rows()
    if tried.rejections:  # a mask, because sorting ten thousand rows costs more than all else of a hopeless pod
        is_other = np.zeros(nodes.capacity, dtype=np.bool_)
        is_other[others] = True
        for part in tried.rejections:
            is_other[part.rows] = False
        others = is_other.nonzero()[0]
    rejections = [*tried.rejections, rejection(others, NOT_HELPFUL)] if len(others) else tried.rejections
    message = FitError(len(nodes), Diagnosis(rejections=rejections)).message
    return PostFilterResult(unschedulable(message), "")


def _aggregate(errors: Sequence[str]) -> str:
    """The text that Go's API machinery gives to several errors."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _with_victims(found: Sequence[Candidates], nodes: NodeTable) -> tuple[Candidate, ...]:
    return tuple(each for each in _listed(found, nodes) if each.victims)


def _listed(found: Sequence[Candidates], nodes: NodeTable) -> tuple[Candidate, ...]:
    return tuple(part.at(place, nodes) for part in found for place in range(len(part)))
