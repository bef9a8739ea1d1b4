"""Making room for a pod group that was not placed, as plugins see it: the trial, and the instruction they return."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status


class GroupTrial(Protocol):
    """A group that was rejected, and a view of the cluster in which pods may be taken away.

    All changes are undone when the plugins have answered. Nothing is evicted, and nobody else sees the view.
    """

    @property
    def group(self) -> GroupDefinition:
        """What the group asks for."""
        ...

    @property
    def members(self) -> Sequence[PodInfo]:
        """The members that have no node."""
        ...

    def state_of(self, member: PodInfo) -> CycleState | None:
        """What plugins have left in the member's own cycle, before this; `None`: it was not tried."""
        ...

    @property
    def nodes(self) -> NodeTable:
        """The nodes with their pods; who is taken out is not there."""
        ...

    def take_out(self, pods: Collection[PodInfo]) -> None:
        """These pods, each on a node, count nowhere from now on."""
        ...

    def place(self) -> Status:
        """Run the group's cycle once more, over the view as it is. Success: `assignments` has nodes for members."""
        ...

    def assignments(self) -> Sequence[tuple[PodInfo, str]]:
        """The members that `place` found a node for, in the order in which they were tried."""
        ...

    def put_back(self, pods: Collection[PodInfo]) -> Status:
        """Put pods back that were taken out. If the assigned members do not fit beside them any more, on the nodes of
        their assignments, the pods are taken out again: Unschedulable. An Error leaves them where they are.
        """
        ...


@dataclass(frozen=True, slots=True)
class PodGroupPostFilterResult:
    """What a plugin has found for a group that was rejected."""

    status: Status
    """Success: room is being made. UnschedulableAndUnresolvable: no other plugin is called."""
    nominations: Mapping[str, str] = field(default_factory=dict)
    """With Success: by UID of a member its node from now on; empty takes a nomination back."""
    preemption: Preemption | None = None
    """With Success: the victims to evict; the attempt starts it."""
    deallocations: Sequence[Deallocation] = ()
    """Whatever the status: claims of members that give their devices back; the attempt starts it."""
