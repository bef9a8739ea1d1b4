"""Preemption as plugins see it: the instruction that PostFilter returns, disruption budgets, evictions under way.

Choosing victims is a function of the cluster view (a plugin does it in PostFilter); evicting them needs the API
server and takes time. So the plugin answers with a `Preemption`, the cycle's record carries it, and the attempt that
ran the cycle starts it; the preemptor stays out of the queue while it is under way. A cycle that only answers a
question (what-if, explain) reads the record and evicts no pod.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey, NodeRanks
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status

# Placements: the parts of the cluster that a pod group may be placed in as a whole.
#
# With a topology constraint there is one for each value of a label (a rack, a zone), without one a single placement of
# all nodes. A group is tried in each of them, and the placement with the most points is taken.


class GroupPlacement(msgspec.Struct, frozen=True, eq=False):
    """Nodes that a group may be placed on."""

    name: str
    """The value of the label; empty for all nodes."""
    rows: Rows
    """The nodes' rows: intp, ascending."""


class ProposedPlacement(msgspec.Struct, frozen=True, eq=False):
    """A placement that the group fits into, with the nodes that its members would get there."""

    placement: GroupPlacement
    assignments: Sequence[tuple[PodInfo, str]]
    """Members with the names of their nodes; members that have a node already are not among them."""


class PreemptingGroup(msgspec.Struct, frozen=True):
    """A pod group that preempts as a whole."""

    uid: str
    key: GroupKey
    nominations: tuple[tuple[PodInfo, str], ...]
    """The members that will have a node once the victims are gone, with this node."""
    members: tuple[PodInfo, ...]
    """All members without a node."""


class Preemption(msgspec.Struct, frozen=True):
    """An instruction to make room for a pod: evict these victims from this node. Or for a pod group: from any node."""

    preemptor: PodInfo
    """Of a group its first member."""
    node_name: str
    """Of a group "cluster"."""
    victims: tuple[PodInfo, ...]
    """Most important first; never empty (candidates on the way to it may be: `default_preemption.choice`)."""
    plugin: str
    """The plugin that decided it: `DefaultPreemption`."""
    outbid: tuple[PodInfo, ...] = ()
    """Pods of lower priority that are nominated to the node: they lose their nomination."""
    group: PreemptingGroup | None = None
    """`None`: the preemptor is a single pod."""
    broken_budgets: int = 0
    """The number of victims whose eviction violates a disruption budget."""
    disrupted_groups: int = 0
    """How many victims are pod groups, taken as a whole, or single members of one."""
    disrupted: Mapping[str, int] = {}
    """Of a group: how many of its victims go together, or by themselves, by kind: `pod`, `podgroup`,
    `compositepodgroup`."""

    @property
    def uid(self) -> str:
        """The preemptor's UID, of a pod or of a group."""
        return self.preemptor.uid if self.group is None else self.group.uid

    @property
    def text(self) -> str:
        """The preemptor's `namespace/name`."""
        return self.preemptor.key if self.group is None else self.group.key.text

    @property
    def kind(self) -> str:
        """As Events and metrics name it."""
        if self.group is None:
            return "pod"
        return self.group.key.entity

    @property
    def waiting(self) -> tuple[PodInfo, ...]:
        """The pods that wait for the room."""
        return (self.preemptor,) if self.group is None else self.group.members

    @property
    def nominations(self) -> tuple[tuple[PodInfo, str], ...]:
        """Pods and the node that each is promised."""
        return ((self.preemptor, self.node_name),) if self.group is None else self.group.nominations


class Candidate(msgspec.Struct, frozen=True):
    """A node where a preemption would make room."""

    node_name: str
    victims: tuple[PodInfo, ...]
    """Most important first; never empty."""
    broken_budgets: int
    """The number of victims whose eviction violates a disruption budget."""


class PreemptionSearch(msgspec.Struct, frozen=True):
    """The result of a search for victims; the plugin writes it to the CycleState for explanations of the decision."""

    candidates: Callable[[], tuple[Candidate, ...]]
    """Computes all tried nodes where preemption would help, in the order of the table."""
    chosen: Candidate


def outbid_by(preemptor: PodInfo, nominated: Iterable[PodInfo]) -> tuple[PodInfo, ...]:
    """Of the pods that are nominated to a node: those that lose their nomination to the preemptor."""
    return tuple(other for other in nominated if other.priority < preemptor.priority)


class ReviewedCandidate(msgspec.Struct, frozen=True):
    """A candidate that was shown to a reviewer."""

    proposed: frozenset[str]
    """UIDs of the victims that were shown: if the node's candidate has others now, the review is worth nothing."""
    allowed: Candidate | None
    """What the reviewer made of it, perhaps with other victims; `None`: rejected."""


@dataclass(slots=True)
class VictimReview:
    """Somebody must review the candidates before one of them is chosen (extenders). In the CycleState of a pod that
    this concerns, before PostFilter.

    The review takes time, and a cycle never waits. So the plugin chooses among the candidates that were reviewed as
    they are now. If there is none, it writes what must be reviewed next to `queries`, and chooses nothing.
    """

    reviewed: Mapping[str, ReviewedCandidate]
    """By node; empty before the first review."""
    failure: Status = SUCCESS
    """An Error if the reviewer failed: then nobody is preempted."""
    queries: tuple[Candidate, ...] = ()


class Evictions(Protocol):
    """The preemptions under way, for plugins."""

    def is_under_way(self, uid: str) -> bool:
        """Whether the pod with this UID must wait because victims of its preemption are still being evicted."""
        ...

    def has_any(self) -> bool:
        """Whether any preemption is under way, or not seen to its end."""
        ...

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Whether another preemption on the node has victims that are not evicted yet, and the pod fits beside them.

        The waiting pod is tried again if that preemption ends and the victims stay.
        """
        ...

    def nearly_done(self) -> Collection[str]:
        """Keys (`namespace/name`) of preemptors whose wait may be over now.

        All other waiting preemptors would get the same result again, so asking for them is useless.
        """
        ...


class _NoEvictions:
    """No preemption is ever under way."""

    def is_under_way(self, uid: str) -> bool:
        """Never."""
        del uid
        return False

    def has_any(self) -> bool:
        """Never."""
        return False

    def is_clearing(self, node_name: str, waiting: PodInfo) -> bool:
        """Never."""
        del node_name, waiting
        return False

    def nearly_done(self) -> Collection[str]:
        """Empty: no pod waits."""
        return ()


# For callers that never evict: what-if, explain, tests.
NO_EVICTIONS: Final[Evictions] = _NoEvictions()


class DisruptionBudgets(Protocol):
    """PodDisruptionBudgets by namespace."""

    def of_namespace(self, namespace: str) -> Sequence[PodDisruptionBudget]:
        """All budgets of a namespace, in the order of their names."""
        ...

    def listed(self) -> Sequence[PodDisruptionBudget]:
        """The budgets of all namespaces; a changed budget is another object."""
        ...


# Making room for a pod group that was not placed, as plugins see it: the trial, and the instruction they return.


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

    @property
    def uses_ranks(self) -> bool:
        """Whether `place` makes use of ranks: the followed version of Kubernetes and the profile say so."""
        ...

    def place(self, ranks: NodeRanks | None = None) -> Status:
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


class PodGroupPostFilterResult(msgspec.Struct, frozen=True):
    """What a plugin has found for a group that was rejected."""

    status: Status
    """Success: room is being made. UnschedulableAndUnresolvable: no other plugin is called."""
    nominations: Mapping[str, str] = {}
    """With Success: by UID of a member its node from now on; empty takes a nomination back."""
    preemption: Preemption | None = None
    """With Success: the victims to evict; the attempt starts it."""
    deallocations: Sequence[Deallocation] = ()
    """Whatever the status: claims of members that give their devices back; the attempt starts it."""
