"""The scheduling cycle of a pod group: its members one after the other, each seeing those before it on their nodes.

    PlacementFeasible? -> for each member: PreFilter ... Score, assume, Reserve -> PlacementFeasible?
             |                                                                        |
             '-> Unschedulable: nobody is tried       Unschedulable: stop <-----------'

The members are assumed in the live cache, and all of it is undone in reverse before this returns: nothing awaits in
between, so nobody sees it. (A fork would have to copy the columns, the counters and what classes know.) Anyone who gets
a node is assumed once more by its ordinary attempt, in the same turn. A gang that has its minCount goes on with the
rest: a later member that fits nowhere does not fail the group. No member preempts by itself.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from kscheduler.api.core import Pod, PodSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.releases import Behaviours
from kscheduler.framework.binding_annotations import BindingAnnotations
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.pod_groups import (
    CycleOfGroup,
    GroupDefinition,
    GroupKey,
    NodeRanks,
    PlacementProgress,
)
from kscheduler.framework.cluster.preemption import GroupPlacement, Preemption
from kscheduler.framework.cluster.topology_request import TopologyRequest
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, error, unschedulable
from kscheduler.scheduling.cycle.reserve import annotate, run_reserve, run_unreserve
from kscheduler.scheduling.domains.fewest_domains import StepsLeft
from kscheduler.scheduling.failure import failure_of_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.attempt_calls import call_placement_feasible
from kscheduler.state.cache import Cache
from kscheduler.state.nominator import NominatedPods

# The nominations of members, while their group is being tried.
#
# kube-scheduler looks up what a nominated pod requests in its queue, and members that are being tried are not there: it
# finds a pod without requests, labels and priority. So members with a priority above 0 do not leave room for each other
# at all, and others leave room for one more pod, however small. That is sensible: a member goes to its own nominated
# node first, and the others may share out the rest in another way than the last attempt did.
#
# A member's own nomination is as it was; it is counted with its requests again as soon as the member is requeued.


def do_not_wait_for_each_other(nominator: NominatedPods, members: Iterable[PodInfo]) -> None:
    """Let the nominations of the members stand for pods without requests, until each is nominated again."""
    for member in members:
        node_name = nominator.nominated_node(member)
        if node_name:
            nominator.nominate(_without_requests(member.pod), node_name)


def _without_requests(pod: Pod) -> PodInfo:
    meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
    return PodInfo(Pod(metadata=meta, spec=PodSpec(scheduling_group=pod.spec.scheduling_group)))


GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"
_NONE_PLACED: Final = "no pods were schedulable"

# The ordinary cycle for one member, without PostFilter, over the cache as it is then: on these rows, or on all; as a
# part of this trial.
EvaluateMember = Callable[[PodInfo, Rows | None, CycleOfGroup], SchedulingRecord]


@dataclass(slots=True)
class MemberResult:
    """What became of one member in the group's cycle."""

    pod: PodInfo
    status: Status
    """Success, a rejection, or an Error; of a member that was not tried, the group's."""
    record: SchedulingRecord | None = None
    """`None`: the member was not tried."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected it."""
    nominated_node_name: str | None = None
    """As for `Failure`: empty clears the nomination, `None` leaves it."""

    @property
    def message(self) -> str:
        """Why the member has no node."""
        return self.status.message


@dataclass(slots=True)
class TriedPlacement:
    """A placement of the group, and how it went there."""

    placement: GroupPlacement
    status: Status
    """Success: it fits there. The others were rejected."""
    seconds: float
    """How long the trial took."""
    points: int | None = None
    """Of all plugins, weighted; `None` if it was not compared with others."""
    is_chosen: bool = False
    why: str = ""
    """Why it was tried, where the group asks for a topology."""


@dataclass(slots=True)
class GroupResult:
    """What became of the group: a success places the members that have a node, all else places nobody."""

    status: Status
    members: list[MemberResult] = field(default_factory=list)
    has_no_placements: bool = False
    """No plugin has generated any: the status says so, and members are told it as it is."""
    waits_for_preemption: bool = False
    """Room is being made: the members keep their nominations."""
    preemption: Preemption | None = None
    """The instruction to make it; `None` if that has begun already, or needs nobody's eviction."""
    deallocations: Sequence[Deallocation] = ()
    """Claims of members that give their devices back, because nodes cannot use them."""
    placements: Sequence[TriedPlacement] = ()
    """The placements that were tried, in this order; empty where groups are not tried in placements."""
    generated: int = 0
    """How many placements there were to be tried in. The search may end before the last."""
    group: GroupDefinition | None = None
    """Whose result it is; set when the cycle has ended."""
    tree: "Sequence[GroupResult]" = ()
    """Of a composite group: the results of all groups of its tree, its own first."""
    proposed: Sequence[MemberResult] = ()
    """Of a composite group: all members for which a node was found, also in groups that failed."""

    @property
    def parts(self) -> "Sequence[GroupResult]":
        """The results of all groups of pods: of a group of pods, this one."""
        return [each for each in self.tree if each.group is not None and not each.group.key.is_composite] or (self,)

    @property
    def whole(self) -> "Sequence[GroupResult]":
        """The results of all groups, composite or not."""
        return self.tree or (self,)

    @property
    def all_members(self) -> list[MemberResult]:
        """The members of all groups, in the order in which they were tried."""
        return [member for part in self.parts for member in part.members]

    def found_nodes(self) -> list[MemberResult]:
        """The members for which a node was found."""
        return [member for member in self.proposed or self.members if member.status.is_success]


@dataclass(slots=True)
class TopologyFindings:
    """What is kept while a group, or a tree of groups, is tried in many places."""

    asked: dict[GroupKey, TopologyRequest | None] = field(default_factory=dict)
    """What each group asks for, once it was worked out."""
    steps: StepsLeft = field(default_factory=StepsLeft)
    """For all searches for the fewest domains."""


@dataclass(slots=True)
class GroupInputs:
    """What a group's cycle works on."""

    group: GroupDefinition
    members: Sequence[PodInfo]
    """Those to be tried, in this order; of a composite group, those of all groups below it."""
    profile: Profile
    cache: Cache
    judge: EvaluateMember
    children: "Sequence[GroupInputs]" = ()
    """Of a composite group: its groups, in the order in which they are tried."""
    ranks: NodeRanks | None = None
    """While the group is tried without the pods that it may preempt."""
    findings: "TopologyFindings | None" = None
    """What the attempt has found out about topologies, for all groups of a tree; `None`: nobody has asked."""

    @property
    def behaviours(self) -> Behaviours:
        """Of the version of Kubernetes that is followed."""
        return self.profile.behaviours

    def judged_by(self, judge: EvaluateMember, ranks: NodeRanks | None = None) -> "GroupInputs":
        """The same with another judge, for the groups below, too."""
        children = [child.judged_by(judge, ranks) for child in self.children]
        return replace(self, judge=judge, children=children, ranks=ranks)


def try_members(
    inputs: GroupInputs, rows: Rows | None = None, rows_of: Mapping[str, Rows] | None = None
) -> GroupResult:
    """Try the members on these rows (intp, ascending), or on all; the cache is as before when this returns.

    `rows_of`: by UID of members that have rows of their own, these. The trial may end before the last member: the
    result has those that were tried. Nominations of members are not as before: `do_not_wait_for_each_other`.
    """
    do_not_wait_for_each_other(inputs.cache.nominator, inputs.members)
    tentative = TentativePlacements(inputs)
    try:
        return _try_members(inputs, tentative, rows, rows_of)
    finally:
        tentative.undo()


def completed(inputs: GroupInputs, result: GroupResult) -> GroupResult:
    """The result for all members: who was not tried has the group's status. No group is placed without anybody."""
    if result.status.is_success and not any(member.status.is_success for member in result.members):
        result.status = none_placed(inputs)
    return with_untried(inputs, result)


def none_placed(inputs: GroupInputs) -> Status:
    """The status of a group that might be placed, but without any member."""
    return unschedulable(_NONE_PLACED if inputs.behaviours.members_inherit_rejections else GROUP_UNSCHEDULABLE)


def with_untried(inputs: GroupInputs, result: GroupResult) -> GroupResult:
    """The result with the members that were not tried: they have the group's status, or are told of it."""
    untried, status = inputs.members[len(result.members) :], result.status
    result.group = inputs.group
    if untried and inputs.behaviours.members_inherit_rejections:
        status = told_of_group(result)
    plugins = rejecting_plugin(status) if inputs.behaviours.members_inherit_rejections else frozenset[str]()
    result.members += [MemberResult(pod, status, plugins=plugins) for pod in untried]
    return result


def told_of_group(result: GroupResult) -> Status:
    """What a member of a group that has failed is told, if it has no reason of its own (1.38)."""
    status = result.status
    parent = f'parent pod group "{result.group.key.name}"' if result.group is not None else "parent pod group"
    if status.code is Code.ERROR:
        return error(f"{parent} encountered an error", fault=status.fault)
    return status if result.has_no_placements else unschedulable(f"{parent} is unschedulable", plugin=status.plugin)


def rejecting_plugin(status: Status) -> frozenset[str]:
    """The plugin behind a rejection, if any."""
    return frozenset((status.plugin,)) - {""} if status.is_rejected else frozenset()


class TentativePlacements:
    """Members that are assumed for as long as the cycle runs."""

    def __init__(self, inputs: GroupInputs) -> None:
        self._inputs = inputs
        self._records: list[tuple[SchedulingRecord, Hashable]] = []

    def place(self, record: SchedulingRecord) -> Status:
        """Count the member on its node, and reserve what it needs there. Undone at once if that fails."""
        inputs = self._inputs
        inputs.cache.assume_pod(record.pod, record.node_name)
        taken = None if inputs.ranks is None else inputs.ranks.take(inputs.cache.nodes.row_of(record.node_name))
        self._records.append((record, taken))
        status = run_reserve(inputs.profile, record.state, record.pod, record.node_name)
        if not status.is_success:
            self._undo_last()
        elif BindingAnnotations in record.state.values:
            annotate(inputs.cache, record.state, record.pod)
        return status

    def __len__(self) -> int:
        return len(self._records)

    def undo(self, until: int = 0) -> None:
        """All of it, in reverse, or until so many are left."""
        while len(self._records) > until:
            self._undo_last()

    def _undo_last(self) -> None:
        record, taken = self._records.pop()
        if self._inputs.ranks is not None:
            self._inputs.ranks.give_back(taken)
        try:
            run_unreserve(self._inputs.profile, record.state, record.pod, record.node_name)
        finally:
            self._inputs.cache.forget_pod(record.pod.uid)


def _try_members(
    inputs: GroupInputs, tentative: TentativePlacements, rows: Rows | None, rows_of: Mapping[str, Rows] | None
) -> GroupResult:
    scheduled, remaining = inputs.cache.pod_groups.count_scheduled(inputs.group.key), len(inputs.members)
    progress = PlacementProgress(remaining, scheduled)
    status = feasible(inputs, progress)
    if status.code is Code.UNSCHEDULABLE:
        return GroupResult(as_unschedulable(inputs, status))
    if status.code is Code.ERROR:
        return GroupResult(error(f"failed to evaluate placement feasibility: {status.message}", fault=status.fault))
    result, trial = GroupResult(status), CycleOfGroup(ranks=inputs.ranks)
    for pod in inputs.members:
        within = rows if rows_of is None else rows_of.get(pod.uid, rows)
        member = _try_member(inputs, tentative, trial, pod, within)
        result.members.append(member)
        if not (member.status.is_success or member.status.is_rejected):
            text = f"failed to schedule other pod from a pod group: {member.status.message}"
            result.status = error(text, fault=member.status.fault)
            return result
        progress = progress.after(is_scheduled=member.status.is_success)
        result.status = feasible(inputs, progress)
        if result.status.code is Code.ERROR:
            text = f"failed to evaluate placement feasibility: {result.status.message}"
            result.status = error(text, fault=result.status.fault)
            return result
        if result.status.code is Code.UNSCHEDULABLE:
            return result
    if result.status.code is Code.WAIT:
        result.status = as_unschedulable(inputs, result.status)
    return result


def as_unschedulable(inputs: GroupInputs, status: Status) -> Status:
    """The group is rejected for these reasons."""
    if inputs.behaviours.members_inherit_rejections:
        return replace(status, code=Code.UNSCHEDULABLE)
    return unschedulable(GROUP_UNSCHEDULABLE, *status.reasons)


def feasible(inputs: GroupInputs, progress: PlacementProgress) -> Status:
    """What the plugins say of the progress: the first that rejects the group decides, else the last that waits."""
    status = SUCCESS
    for plugin in inputs.profile.placement_feasible:
        said = call_placement_feasible(plugin, inputs.profile.listener, inputs.group, progress)
        if not (said.is_success or said.code is Code.WAIT):
            return said
        status = status if said.is_success else said
    return status


def _try_member(
    inputs: GroupInputs, tentative: TentativePlacements, trial: CycleOfGroup, pod: PodInfo, rows: Rows | None
) -> MemberResult:
    record = inputs.judge(pod, rows, trial)
    if record.status.is_success:
        status = tentative.place(record)
        if status.is_success:
            return MemberResult(pod, SUCCESS, record)
        return _rejected_by_reserve(record, status)
    if record.status.code is Code.ERROR or not record.num_all_nodes:
        return MemberResult(pod, record.status, record, nominated_node_name="")
    return MemberResult(pod, unschedulable(record.message), record, record.diagnosis.plugins)


def _rejected_by_reserve(record: SchedulingRecord, status: Status) -> MemberResult:
    failure = failure_of_status(status)
    if status.is_rejected:
        status = replace(status, reasons=(failure.message,))
    plugins = failure.plugins | failure.pending
    return MemberResult(record.pod, status, record, plugins, nominated_node_name="")
