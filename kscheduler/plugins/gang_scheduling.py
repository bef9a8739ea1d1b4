"""GangScheduling: the members of a gang are placed together, or none of them.

    PreEnqueue          a member waits until its group is known, and has as many members as it needs at least; in a
                        composite group, until as many groups of the tree have as it needs at least
    PlacementFeasible   while the group is tried: enough members have a node, may still get one, or never will
    Permit              a member that has a node waits until enough of the others have one, too: up to 1.37

The attempt itself is all or nothing already; Permit holds back members that come one by one afterwards, and those whose
group has grown meanwhile. From 1.38 on nobody waits there.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.cluster.pod_groups import (
    GroupDefinition,
    GroupKey,
    PlacementProgress,
    has_quorum,
    why_incomplete,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods_to_activate import activate_later
from kscheduler.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable

# How long a member waits for the others.
PERMIT_SECONDS: Final = 300.0
# So many of the waiting members are woken by each one that is held: any of them wakes the whole group.
_WOKEN: Final = 8
_TOO_FEW: Final = unresolvable(
    "waiting for minCount pods from a gang to appear in scheduling queue", plugin="GangScheduling"
)
_HELD: Final = PermitResult(
    Status(Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",), "GangScheduling"), PERMIT_SECONDS
)
_LET_GO: Final = PermitResult(SUCCESS)


def gang_scheduling(args: PluginArgs, handle: Handle) -> "GangScheduling":
    """The plugin as the followed version has it."""
    return (WaitingGangScheduling if handle.behaviours.gangs_wait_at_permit else GangScheduling)(args, handle)


class GangScheduling(Plugin):
    """Holds members of gangs back until there are enough of them."""

    name = "GangScheduling"
    depends_on = ()
    judges_without_labels = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._groups = handle.pod_groups
        self._tells_of_quorums = handle.behaviours.tells_of_quorums
        self._known: tuple[tuple[GroupKey, int] | None, Status] = None, SUCCESS
        """For which tree PreEnqueue was asked last, at which version of the groups, and the answer."""

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Another member, with a node or without, or the group itself may complete a gang; a lower minCount, too."""
        return (
            ClusterEventWithHint(ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.ADD), self._after_pod),
            ClusterEventWithHint(ClusterEvent(Resource.ASSIGNED_POD, ActionType.ADD), self._after_pod),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The group that the pod is in."""
        return self._groups.key_of(pod.pod)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Whether the gang has enough members, in any state."""
        key = self._groups.key_of(pod.pod)
        if key is None:
            return SUCCESS
        if self._tells_of_quorums:
            return self._whole_tree(key)
        group = self._groups.definition(key)
        if group is None:
            text = f'waiting for pods\'s pod group "{key.name}" to appear in scheduling queue'
            return unresolvable(text, plugin=self.name)
        if group.parent is not None:
            return self._whole_tree(key)
        if group.min_count is not None and self._groups.count_all(key) < group.min_count:
            return _TOO_FEW
        return SUCCESS

    def _whole_tree(self, key: GroupKey) -> Status:
        """Whether the tree has its quorum, with members in any state."""
        root = self._root(key)
        if root is None and self._tells_of_quorums:
            missing = "or one of its composite pod group ancestors has not been created yet"
            return unresolvable(f'pod group "{key.name}" {missing}', plugin=self.name)
        if root is None:
            text = f"failed to build hierarchy snapshot: {self._why_incomplete(key)}"
            return unresolvable(text, plugin=self.name)
        # The members of a tree are asked about one after the other, and nothing changes in between.
        current = root.key, self._groups.version
        if self._known[0] != current:
            is_there = has_quorum(self._groups, root, self._groups.count_all)
            lacks = _waits_for(root) if self._tells_of_quorums else _without_quorum(root)
            self._known = current, SUCCESS if is_there else unresolvable(lacks, plugin=self.name)
        return self._known[1]

    def _why_incomplete(self, key: GroupKey) -> str:
        return why_incomplete(self._groups.definition, key, levels=self._groups.levels)

    def _root(self, key: GroupKey) -> GroupDefinition | None:
        root = self._groups.root_of(key)
        return None if root is None else self._groups.definition(root)

    def placement_feasible(self, group: GroupDefinition, progress: PlacementProgress) -> Status:
        """Success: enough members have a node. Wait: not yet. Unschedulable: there are not enough left."""
        scheduled, remaining = progress.scheduled, progress.remaining
        if scheduled >= group.least:
            return SUCCESS
        if self._tells_of_quorums:
            least = f"scheduling policy's minimum threshold ({group.least})"
            counts = f"{scheduled} scheduled, {progress.unschedulable} unschedulable, {remaining} not-evaluated"
        else:
            least, counts = f"minCount ({group.least})", f"{scheduled} scheduled, {remaining} remaining"
        if remaining + scheduled < group.least:
            return unschedulable(f"{least} cannot be satisfied: {counts}", plugin=self.name)
        return Status(Code.WAIT, (f"{least} is not yet satisfied: {counts}",), self.name)

    def _after_pod(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        added = new if isinstance(new, Pod) else old
        key = self._groups.key_of(pod.pod)
        other = self._groups.key_of(added) if isinstance(added, Pod) else None
        is_same = key is not None and other is not None and (key == other or self._are_of_one_tree(key, other))
        return QueueingHint.QUEUE if is_same else QueueingHint.SKIP

    def _are_of_one_tree(self, key: GroupKey, other: GroupKey) -> bool:
        root = self._groups.root_of(key)
        return root is not None and root == self._groups.root_of(other)


class WaitingGangScheduling(GangScheduling):
    """The same with Permit."""

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._waiting = handle.waiting_pods

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        """Wait until enough members have a node; the member that completes the gang releases all."""
        del node_name
        key = self._groups.key_of(pod.pod)
        if key is None:
            return _LET_GO
        group = self._groups.definition(key)
        if group is None:
            return PermitResult(error(f'failed to get podGroup {key.text}: podgroup "{key.name}" not found'))
        if group.parent is not None:
            return self._permit_in_tree(cycle, key)
        if group.min_count is None:
            return _LET_GO
        if self._groups.count_scheduled(key) < group.min_count:
            activate_later(cycle, *self._groups.unscheduled_keys(key, _WOKEN))
            return _HELD
        if group.min_count > 1:
            self._let_all_go(key)
        return _LET_GO

    def _permit_in_tree(self, cycle: CycleState, key: GroupKey) -> PermitResult:
        """The same for a tree: enough groups of it must have enough members with a node."""
        root = self._root(key)
        if root is None:
            text = self._why_incomplete(key)
            return PermitResult(error(f"failed to build hierarchy snapshot: {text}"))
        if not has_quorum(self._groups, root, self._groups.count_scheduled):
            activate_later(cycle, *self._groups.unscheduled_keys(root.key, _WOKEN))
            return PermitResult(Status(Code.WAIT, (_without_quorum(root),), self.name), PERMIT_SECONDS)
        self._let_all_go(root.key)
        return _LET_GO

    def _let_all_go(self, key: GroupKey) -> None:
        for uid in tuple(self._groups.scheduled_uids(key)):
            held = self._waiting.get(uid)
            if held is not None:
                held.allow(self.name)


def _waits_for(root: GroupDefinition) -> str:
    """What the tree lacks, as 1.38 tells it."""
    if root.min_count is None:
        return f"waiting for {root.key.typed} tree to have at least one ready child group"
    return f"waiting for {root.key.typed} to meet its quorum"


def _without_quorum(root: GroupDefinition) -> str:
    return f'waiting for composite pod group "{root.key.name}" tree to meet quorum'
