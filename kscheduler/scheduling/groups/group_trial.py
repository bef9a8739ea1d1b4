"""A group's trial on the live cache: pods are lifted off their nodes, the group is placed, pods are put back.

    take_out   the pods count nowhere
    place      the group's cycle; members that have a node keep the CycleState of their own cycle
    put_back   the pods count again, in these states, too; then each member in turn on its node: Filter, assume,
               Reserve
    end        whatever is still out is put back, each node's pods in their old order

Nothing awaits between the beginning and `end`, so nobody else sees any of it (as in `group_cycle`). A fork would have
to copy the columns, the counters and what classes know. The states were made with the members before them in place
and no later ones, as in kube-scheduler.

A pod put back far from all members cannot matter if filters look only at the row that they judge: then nobody is
asked. That is what makes a search in a large cluster cheap. It is so for pods without volumes and devices, as long as
no plugin counts pods beyond the row. Limit: taking out and putting back costs about 25 us per pod of lower priority
in the whole cluster.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from kscheduler.framework.cluster.pod_groups import CycleOfGroup, GroupDefinition, NodeRanks
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.plugin import Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unschedulable
from kscheduler.scheduling.cycle.reserve import run_reserve, run_unreserve
from kscheduler.scheduling.cycle.schedule import dry_run_of
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

_DOES_NOT_FIT = unschedulable()
_OF_ROWS = frozenset((Source.AMOUNTS, Source.ROW, Source.IMAGES))


class _Assigned(msgspec.Struct, frozen=True):
    """A member with its node."""

    pod: PodInfo
    node_name: str
    state: CycleState
    filters: DryRun


class LiveGroupTrial:
    """Implements `framework.cluster.preemption.GroupTrial`. Call `end` in any case."""

    def __init__(
        self, inputs: GroupInputs, place: Callable[[GroupInputs], GroupResult], before: GroupResult | None = None
    ) -> None:
        """`before`: what has become of the group without a trial. `place` runs the group's cycle. `inputs.judge` must
        call all plugins, rather than look up a class's answers:
        the state that they write is used after the cycle.
        """
        self._inputs = inputs
        self._cache: Cache = inputs.cache
        self._place = place
        tried = [] if before is None else before.all_members
        self._states = {each.pod.uid: each.record.state for each in tried if each.record is not None}
        self._out: dict[str, Callable[[], None]] = {}
        """By UID of a pod that is out: puts it back."""
        self._orders: dict[str, tuple[str, ...]] = {}
        """By node the UIDs of its pods before the trial."""
        self._assigned: list[_Assigned] = []
        self._looks_at_rows_only = False

    @property
    def group(self) -> GroupDefinition:
        """What the group asks for."""
        return self._inputs.group

    @property
    def members(self) -> Sequence[PodInfo]:
        """The members that have no node."""
        return self._inputs.members

    def state_of(self, member: PodInfo) -> CycleState | None:
        """What plugins have left in the member's own cycle, before this; `None`: it was not tried."""
        return self._states.get(member.uid)

    @property
    def nodes(self) -> NodeTable:
        """The nodes with their pods; who is taken out is not there."""
        return self._cache.nodes

    def take_out(self, pods: Collection[PodInfo]) -> None:
        """These pods count nowhere from now on."""
        for pod in pods:
            node_name = self._cache.node_of(pod.uid)
            info = self._cache.node_info(node_name)
            if info is not None and node_name not in self._orders:
                self._orders[node_name] = tuple(info.pods)
            self._out[pod.uid] = self._cache.lift_pod(pod.uid)

    @property
    def uses_ranks(self) -> bool:
        """Whether `place` makes use of ranks."""
        return self._inputs.profile.ranks_nodes

    def place(self, ranks: NodeRanks | None = None) -> Status:
        """Run the group's cycle over the view as it is."""
        used = ranks if self.uses_ranks else None
        result = self._place(self._inputs.judged_by(self._judge, used))
        if result.status.is_success:
            self._assigned = [
                _Assigned(
                    member.pod,
                    member.record.node_name,
                    member.record.state.copy(),
                    dry_run_of(self._inputs.profile, member.record, self._cache),
                )
                for member in result.found_nodes()
                if member.record is not None
            ]
            self._looks_at_rows_only = self._all_look_at_rows_only()
        return result.status

    def assignments(self) -> Sequence[tuple[PodInfo, str]]:
        """The members that have a node, in the order in which they were tried."""
        return [(assigned.pod, assigned.node_name) for assigned in self._assigned]

    def put_back(self, pods: Collection[PodInfo]) -> Status:
        """Put the pods back, or take them out again where the members do not fit beside them."""
        for pod in pods:
            self._out.pop(pod.uid)()
            status = self._count(pod, 1)
            if not status.is_success:
                return status
        nodes = {self._cache.node_of(pod.uid) for pod in pods}
        concerned = [each for each in self._assigned if not self._looks_at_rows_only or each.node_name in nodes]
        if self._all_fit(concerned):
            return SUCCESS
        for pod in pods:
            node_name = self._cache.node_of(pod.uid)
            self._out[pod.uid] = self._cache.lift_pod(pod.uid)
            status = self._count(pod, -1, node_name)
            if not status.is_success:
                return status
        return _DOES_NOT_FIT

    def end(self) -> None:
        """Everything as before."""
        while self._out:
            self._out.popitem()[1]()
        for node_name, uids in self._orders.items():
            self._cache.restore_order(node_name, uids)
        self._orders.clear()

    def _judge(self, pod: PodInfo, rows: Rows | None, trial: CycleOfGroup) -> SchedulingRecord:
        """The member's cycle; what it has found stays as it is while pods come and go."""
        record = self._inputs.judge(pod, rows, trial)
        record.state.detach()
        return record

    # --- judging ------------------------------------------------------------------------------------------------------

    def _count(self, pod: PodInfo, by: int, node_name: str = "") -> Status:
        """Count the pod in the members' states, or stop counting it: it was on that node."""
        nodes = self._cache.nodes
        row = nodes.row_of(node_name or self._cache.node_of(pod.uid))
        for assigned in self._assigned if row >= 0 else ():
            if assigned.filters.counts_pods:
                count = assigned.filters.add_pod if by > 0 else assigned.filters.remove_pod
                status = count(assigned.state, pod, nodes, row)
                if not status.is_success:
                    return status
        return SUCCESS

    def _all_fit(self, concerned: Sequence[_Assigned]) -> bool:
        """Whether the members fit on their nodes one after the other; afterwards they are off these nodes again."""
        placed: list[_Assigned] = []
        try:
            for assigned in concerned:
                if not self._fits(assigned):
                    return False
                self._cache.assume_pod(assigned.pod, assigned.node_name)
                placed.append(assigned)
                run_reserve(self._inputs.profile, assigned.state, assigned.pod, assigned.node_name)
            return True
        finally:
            for assigned in reversed(placed):
                run_unreserve(self._inputs.profile, assigned.state, assigned.pod, assigned.node_name)
                self._cache.forget_pod(assigned.pod.uid)

    def _fits(self, assigned: _Assigned) -> bool:
        rows = np.array([self._cache.nodes.row_of(assigned.node_name)], dtype=np.intp)
        return len(assigned.filters.passing(self._cache.nodes, assigned.state, rows).rows) > 0

    def _all_look_at_rows_only(self) -> bool:
        """Whether a member's fit depends on the pods of its own node alone."""
        profile, devices = self._inputs.profile, self._cache.devices
        traits = [profile.traits[plugin.name] for plugin in profile.filter]
        if not all(each.is_in_tree or each.depends_on <= _OF_ROWS for each in traits):
            return False
        return not any(
            each.filters.counts_pods
            or each.pod.pod.spec.volumes
            or each.pod.pod.spec.resource_claims
            or devices.serve(each.pod)
            for each in self._assigned
        )
