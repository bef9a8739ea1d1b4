"""The plugin: who may preempt, which nodes are tried out, and what is said of it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from kscheduler.api.meta import KubeObject
from kscheduler.config.plugin_args import DefaultPreemptionArgs
from kscheduler.framework.cluster.preemption import Candidate, Evictions, Preemption, PreemptionSearch
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, stable_hash
from kscheduler.framework.nodes.occupants import OccupantColumns
from kscheduler.framework.plugin import Plugin, PostFilterResult, Signature
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis, FitError, Rejection
from kscheduler.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.choice import Candidates, choose
from kscheduler.plugins.default_preemption.remembered import RememberedRows, RowMemory
from kscheduler.plugins.default_preemption.shortlist import Shortlist
from kscheduler.plugins.default_preemption.victims import Tried, VictimSearch, rejection

NOT_HELPFUL: Final = unresolvable("Preemption is not helpful for scheduling")
WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished", plugin="DefaultPreemption")
"""Asked of each waiting preemptor with each victim that goes."""
_SMALLEST_BATCH: Final = 32


class DefaultPreemption(Plugin):
    """Finds the node where evicting the least makes room for the pod."""

    name = "DefaultPreemption"
    depends_on = ()

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        self._args = args or DefaultPreemptionArgs()
        self._handle = handle
        self._occupants = OccupantColumns()
        self._budgets = BudgetRules(handle.budgets)
        self._memory = RowMemory()
        self._share = 1.0
        """How many of the nodes that were tried out last were candidates: how many to begin the next search with."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A pod that goes may end a preemption, but whether it helps is for the plugin to say that lacked the room."""
        return (ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _never),)

    def sign(self, pod: PodInfo) -> Signature:
        """Whom it may evict, and whether it may at all."""
        return pod.priority, pod.pod.spec.preemption_policy

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """A preemptor waits until its victims are on their way: it would find them still there, and choose others."""
        return WAITING if self._handle.evictions.is_under_way(pod.uid) else SUCCESS

    def may_let_in(self) -> Collection[str]:
        """Only preemptors whose last victim's turn has come: all others wait, whatever happens to other pods."""
        return self._handle.evictions.nearly_done()

    def post_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        """Choose a node, and the victims there whose going makes room; say so, and touch nobody."""
        result = self._preempt(cycle, pod, nodes, diagnosis)
        status = result.status
        if not status.reasons:
            return result
        told = Status(status.code, (f"preemption: {status.message}",), self.name, status.fault)
        return replace(result, status=told)

    def _preempt(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, diagnosis: Diagnosis) -> PostFilterResult:
        potential = _potential(nodes, diagnosis)
        refusal = _not_eligible(pod, self._nominated_node(pod), nodes, potential, self._handle.evictions)
        if refusal:
            return PostFilterResult(unschedulable(refusal))
        search = VictimSearch(pod, nodes, cycle, cycle.read(DryRun), self._occupants, self._budgets)
        known = None if self._nominated_node(pod) else self._memory.of(search)
        tried = self._try_out(search, potential, known)
        if not tried.found and not tried.tells_all:
            tried = self._try_out(search, potential, None)
        if not tried.found:
            return _no_candidate(nodes, tried)
        chosen = choose(tried.found, nodes, pod)
        cycle.write(PreemptionSearch(lambda: _told(tried.found, nodes), chosen))
        outbid = self._outbid(chosen.node_name, pod)
        preemption = Preemption(pod, chosen.node_name, chosen.victims, self.name, outbid)
        return PostFilterResult(SUCCESS, chosen.node_name, preemption)

    def _try_out(self, search: VictimSearch, potential: Rows, known: RememberedRows | None) -> Tried:
        """Try nodes out in ring order, until there are enough candidates and one of them breaks no budget.

        The ring begins at a place that the pod's UID decides: upstream draws it by chance. The nodes' order is that of
        the table.
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
            rows = np.sort(batch)
            one = search.on(rows) if known is None else known.on(rows, search)
            candidates += sum(map(len, one.found))
            tried.found += shortlist.take(batch, one.found)
            tried.rejections += one.rejections
            tried.errors += one.errors
            tried.tells_all &= one.tells_all
        self._share = candidates / at
        return tried

    def _number_of_candidates(self, nodes: int) -> int:
        by_share = nodes * self._args.min_candidate_nodes_percentage // 100
        return min(max(by_share, self._args.min_candidate_nodes_absolute), nodes)

    def _nominated_node(self, pod: PodInfo) -> str:
        """Where it is expected since its last decision: its status may not tell of that yet."""
        nominator = self._handle.nominator
        decided = nominator.nominated_node(pod) if nominator is not None else ""
        return decided or pod.pod.status.nominated_node_name

    def _outbid(self, node_name: str, pod: PodInfo) -> tuple[PodInfo, ...]:
        nominator = self._handle.nominator
        if nominator is None:
            return ()
        return tuple(one for one in nominator.nominated_pods(node_name) if one.priority < pod.priority)


def _never(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    del pod, old, new
    return QueueingHint.SKIP


def _potential(nodes: NodeTable, diagnosis: Diagnosis) -> Rows:
    """The rows that were turned down for something that preemption might lift."""
    if diagnosis.pre_filter.is_rejected:
        is_hopeless = diagnosis.pre_filter.code is not Code.UNSCHEDULABLE
        return nodes.rows()[:0] if is_hopeless else nodes.rows()
    rows = [_liftable(one) for one in diagnosis.rejections]
    if len(rows) == 1:
        return rows[0]
    is_potential = np.zeros(nodes.capacity, dtype=np.bool_)
    for some in rows:
        is_potential[some] = True
    return np.flatnonzero(is_potential)


def _liftable(rejected: Rejection) -> Rows:
    is_liftable = rejected.codes > 0
    return rejected.rows if is_liftable.all() else rejected.rows.take(np.flatnonzero(is_liftable))


def _not_eligible(pod: PodInfo, nominated: str, nodes: NodeTable, potential: Rows, evictions: Evictions) -> str:
    """Why the pod may not preempt; empty where it may.

    A second preemptor may be promised a node beside the first: its decision leaves the first one its room. Until its
    victims go, the first one finds both them and the second one in its way, and would take other victims elsewhere.
    """
    if pod.pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    row = nodes.row_of(nominated) if nominated else -1
    if row < 0 or row not in potential:  # its earlier nomination is of no use, so it may try again
        return ""
    there = nodes.info(row).pods.values()
    if any(one.priority < pod.priority and _goes_for_a_preemptor(one) for one in there):
        return "not eligible due to a terminating pod on the nominated node."
    if evictions.is_clearing(nominated, pod):
        return "not eligible due to a pod on the nominated node that is about to be preempted."
    return ""


def _goes_for_a_preemptor(pod: PodInfo) -> bool:
    if not pod.is_terminating:
        return False
    target = next((one for one in pod.pod.status.conditions if one.type == "DisruptionTarget"), None)
    return target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"


def _no_candidate(nodes: NodeTable, tried: Tried) -> PostFilterResult:
    """Nobody's going would help: the nomination, if there is one, is taken back. After errors alone nothing is."""
    if tried.errors:
        return PostFilterResult(error(_aggregate(tried.errors)))
    told = [one.rows for one in tried.rejections]
    untold = np.setdiff1d(nodes.rows(), np.concatenate(told)) if told else nodes.rows()
    rejections = [*tried.rejections, rejection(untold, NOT_HELPFUL)] if len(untold) else tried.rejections
    message = FitError(len(nodes), Diagnosis(rejections=rejections)).message
    return PostFilterResult(unschedulable(message), "")


def _aggregate(errors: Sequence[str]) -> str:
    """As Go's API machinery words several errors."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _told(found: Sequence[Candidates], nodes: NodeTable) -> tuple[Candidate, ...]:
    return tuple(one.at(place, nodes) for one in found for place in range(len(one)))
