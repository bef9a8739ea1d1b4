"""Pod groups, as plugins and the queue see them: which group a pod is in, what the group asks for, who is in it.

A group is a *gang* (so many members at once, or none) or *basic* (its members one by one, but in one attempt). Where
groups are off, no pod is in any.

A *composite* group has groups in place of pods: a gang of groups (so many of them at once), or a basic one. Its tree
is tried as one, from its *root*, which has no parent; the *leaves* are the groups with pods. A group without a parent
is root and leaf at once. What the view tells of a composite group's members is told of all leaves below it.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.groups import DEEPEST_TREE, FARTHEST_LEVEL
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.topology_request import TopologyRequest
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo

# What plugins keep from one member of a pod group to the next, while the group is tried.


class NodeRanks(Protocol):
    """What members of a group cost on each node, while the group is tried without the pods that it may preempt."""

    def of(self, rows: Rows) -> Scores:
        """A rank per row (int64), the lowest is the best: a member goes to a node of the best rank that it fits on."""
        ...

    def take(self, row: int) -> Hashable:
        """A member goes there: what it costs is paid. Returns what `give_back` takes."""
        ...

    def give_back(self, taken: Hashable) -> None:
        """The member does not go there after all."""
        ...


@dataclass(slots=True)
class CycleOfGroup:
    """One trial of a group: all of its members have this value in their `CycleState`.

    The next trial of the same group, in another placement or at another time, has another one.
    """

    state: CycleState = field(default_factory=CycleState)
    """Values that are all members', by type."""
    ranks: NodeRanks | None = None
    """`None`: no node is better than another before it is scored."""


# The preemption policy of pods and groups that name none.
DEFAULT_POLICY: Final = "PreemptLowerPriority"


class GroupKey(NamedTuple):
    """Which group: the same name may be taken in several API groups."""

    api: str
    """The API group, such as scheduling.k8s.io."""
    namespace: str
    name: str
    is_composite: bool = False
    """A group of groups; it may have the same name as a group of pods."""

    @property
    def text(self) -> str:
        """`namespace/name`, for logs and messages."""
        return f"{self.namespace}/{self.name}"

    @property
    def entity(self) -> str:
        """As Events and metrics name it."""
        return "compositepodgroup" if self.is_composite else "podgroup"

    @property
    def typed(self) -> str:
        """`podgroup/namespace/name`, as messages of 1.38 name it."""
        return f"{self.entity}/{self.text}"

    @property
    def resource(self) -> str:
        """`podgroups.scheduling.k8s.io`, as kubectl takes it: the kind's name alone may mean that of another API."""
        return f"{'composite' if self.is_composite else ''}podgroups.{self.api}"


class GroupDefinition(msgspec.Struct, frozen=True):
    """What a group asks for, whichever API it is of."""

    key: GroupKey
    min_count: int | None = None
    """So many members at once, of a composite group so many groups; `None`: the group is basic."""
    priority: int | None = None
    """What each member's priority must be; `None`: members agree among themselves."""
    is_taken_whole: bool = False
    """Preemption takes all of its members or none (`disruptionMode: all`)."""
    is_taken_singly: bool = False
    """The group itself says that preemption may take single members (`disruptionMode: single`)."""
    workload: str = ""
    """The Workload that it was made for; empty: none."""
    preemption_policy: str = ""
    """Of the group itself, where its members' policies do not count; empty: it names none."""
    topology_key: str = ""
    """A label of nodes: all members must go to nodes with one value of it; empty: anywhere."""
    topology: TopologyRequest | None = None
    """What its object asks for beyond Kubernetes' own constraint: levels, slices, spare nodes."""
    uid: str = ""
    generation: int = 0
    conditions: tuple[Condition, ...] = ()
    """What has been reported of it; groups of other APIs than Kubernetes' own have none here."""
    parent: GroupKey | None = None
    """The composite group that it is in."""
    created: str = ""
    """When it was created, as the API server writes it: groups of one parent are tried in this order, then by name."""

    @property
    def least(self) -> int:
        """How many members (of a composite group: groups) must be placed before any pod is bound."""
        return 1 if self.min_count is None else self.min_count


class PlacementProgress(msgspec.Struct, frozen=True):
    """How far an attempt to place a group has come."""

    remaining: int
    """Members that have not been tried yet; of a composite group, groups."""
    scheduled: int
    """Members that have a node, in this attempt or before it; of a composite group, groups that were placed in it."""
    unschedulable: int = 0
    """Members that were tried in vain; of a composite group, groups."""

    def after(self, *, is_scheduled: bool) -> "PlacementProgress":
        """The progress after one more was tried."""
        return PlacementProgress(
            self.remaining - 1, self.scheduled + is_scheduled, self.unschedulable + (not is_scheduled)
        )


class PodGroupView(Protocol):
    """All groups and their members: `state.pod_groups`."""

    @property
    def is_followed(self) -> bool:
        """Whether any pod can be in a group."""
        ...

    @property
    def version(self) -> int:
        """Grows with each change of groups or members."""
        ...

    @property
    def levels(self) -> int:
        """How many levels of a tree are followed."""
        ...

    def key_of(self, pod: Pod) -> GroupKey | None:
        """The group that the pod names, known or not; `None`: it is in no group."""
        ...

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        """What the group asks for; `None`: the watch has not shown it."""
        ...

    def absence(self, key: GroupKey) -> str:
        """How a group is missing that the watch has not shown, as the end of a sentence about it."""
        ...

    def root_of(self, key: GroupKey) -> GroupKey | None:
        """The group at the top of the tree; `None`: the watch has not shown all groups up to it, there is a circle, or
        the tree is too deep.
        """
        ...

    def ancestry(self, key: GroupKey) -> Iterator[GroupDefinition]:
        """The group and those above it, as far as they are known; at most so many as there are `levels`."""
        ...

    def children(self, key: GroupKey) -> Sequence[GroupDefinition]:
        """The groups of a composite group, in the order in which they are tried."""
        ...

    def leaves(self, key: GroupKey) -> Sequence[GroupKey]:
        """The groups of pods below a group, in the order in which they are tried; of a group of pods, itself."""
        ...

    def count_all(self, key: GroupKey) -> int:
        """The number of members that the scheduler knows, in any state."""
        ...

    def count_scheduled(self, key: GroupKey) -> int:
        """The number of members that count on a node: bound, or assumed to be."""
        ...

    def scheduled_uids(self, key: GroupKey) -> Collection[str]:
        """UIDs of the members that count on a node."""
        ...

    def scheduled(self, key: GroupKey) -> Collection[PodInfo]:
        """The members that count on a node."""
        ...

    def assignments(self, key: GroupKey) -> Collection[tuple[PodInfo, str]]:
        """The members that count on a node, with its name: an assumed pod does not say it by itself."""
        ...

    def unscheduled_keys(self, key: GroupKey, most: int | None = None) -> Collection[str]:
        """Keys (`namespace/name`) of the members without a node, the last ones first; at most so many."""
        ...


class _NoPodGroups:
    is_followed = False
    version = 0
    levels = 0

    def key_of(self, pod: Pod) -> GroupKey | None:
        del pod
        return None

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        del key
        return None

    def absence(self, key: GroupKey) -> str:
        del key
        return ""

    def root_of(self, key: GroupKey) -> GroupKey | None:
        del key
        return None

    def ancestry(self, key: GroupKey) -> Iterator[GroupDefinition]:
        del key
        return iter(())

    def children(self, key: GroupKey) -> Sequence[GroupDefinition]:
        del key
        return ()

    def leaves(self, key: GroupKey) -> Sequence[GroupKey]:
        del key
        return ()

    def count_all(self, key: GroupKey) -> int:
        del key
        return 0

    def count_scheduled(self, key: GroupKey) -> int:
        del key
        return 0

    def scheduled_uids(self, key: GroupKey) -> Collection[str]:
        del key
        return ()

    def scheduled(self, key: GroupKey) -> Collection[PodInfo]:
        del key
        return ()

    def assignments(self, key: GroupKey) -> Collection[tuple[PodInfo, str]]:
        del key
        return ()

    def unscheduled_keys(self, key: GroupKey, most: int | None = None) -> Collection[str]:
        del key, most
        return ()


# Groups are off: no pod is in any.
NO_POD_GROUPS: PodGroupView = _NoPodGroups()


def has_quorum(groups: PodGroupView, definition: GroupDefinition, count: Callable[[GroupKey], int]) -> bool:
    """Whether enough members are there: of a composite group, enough groups that have a quorum themselves.

    `count` says how many members of a group of pods count.
    """
    if not definition.key.is_composite:
        return count(definition.key) >= definition.least
    children, missing = groups.children(definition.key), definition.least
    # Groups are placed in their order, so the last ones are the last to be ready: a gang of all is decided by those.
    in_order = children if missing * 2 <= len(children) else reversed(children)
    for looked_at, child in enumerate(in_order):
        if not 0 < missing <= len(children) - looked_at:
            break
        missing -= has_quorum(groups, child, count)
    return missing <= 0


# Why pods wait for groups that are not whole: the one sentence that logs, answers and pages all give.
#
# kube-scheduler says nothing of such pods in conditions and Events, and so do we; `explain` tells it.

NOT_THERE: Final = "which does not exist"
NOT_SERVED: Final = "a kind that the API server does not serve"
_MAX_NAMED: Final = 2

# How a group is missing, as the end of the sentence: it does not exist, or its kind is not served; what is known in its
# place.
Absence = Callable[[GroupKey], str]


def _not_there(_: GroupKey) -> str:
    return NOT_THERE


def why_incomplete(
    definition: Callable[[GroupKey], GroupDefinition | None],
    key: GroupKey,
    absence: Absence = _not_there,
    levels: int = DEEPEST_TREE,
) -> str:
    """Why the members of a group have no whole tree; empty: they have one.

    `definition`: what a group asks for; `None` for one that the watch has not shown. `levels`: how many are followed.
    """
    way = [key]
    while len(way) <= FARTHEST_LEVEL:  # further up, no text would be read
        found = definition(way[-1])
        if len(way) <= levels and found is None:
            return _missing(way, absence)
        if found is None or found.parent is None:
            break
        if found.parent in way:
            return _circle([*way[way.index(found.parent) :], found.parent])
        way.append(found.parent)
    most = "four" if levels == DEEPEST_TREE else str(levels)
    return f"trees deeper than {most} levels are not followed: {_arrows(way)}" if len(way) > levels else ""


def unreadable(error: str) -> str:
    """How a group is missing whose object exists but could not be decoded."""
    return f"which exists, but cannot be read: {error}"


def why_missing(known: Mapping[str, str]) -> Absence:
    """How a group is missing; empty: nothing is known.

    `known`: by resource of all groups of a kind (`podgroups.scheduling.k8s.io`), or of one (with ` default/train`).
    """

    def why(key: GroupKey) -> str:
        return (known.get(key.resource) or known.get(f"{key.resource} {key.text}", "")) if known else ""

    return why


def absence_of(key: GroupKey, namesakes: Iterable[GroupKey], why: str = "") -> str:
    """How the group is missing: `why`, if that is known. `namesakes`: known groups of its name, of other APIs or
    namespaces.
    """
    if why:
        return why
    own = [other for other in namesakes if other.is_composite == key.is_composite and other != key]
    # A pod names a group of its own namespace: one of the same namespace, in another API, is the likelier mistake.
    own.sort(key=lambda other: (other.namespace != key.namespace, other))
    if not own:
        return NOT_THERE
    more = f" and {len(own) - _MAX_NAMED} more" if len(own) > _MAX_NAMED else ""
    there = ", ".join(f"{other.text} ({other.resource})" for other in own[:_MAX_NAMED])
    return f"{NOT_THERE}; of this name there {'is' if len(own) == 1 else 'are'} {there}{more}"


def _missing(way: Sequence[GroupKey], absence: Absence) -> str:
    *below, missing = way
    kind = "CompositePodGroup" if missing.is_composite else "PodGroup"
    child = f"; parent of {below[-1].text}" if below else ""
    return f"waits for {kind} {missing.text} ({missing.resource}{child}), {absence(missing)}"


def _circle(way: Sequence[GroupKey]) -> str:
    if len(way) == 2:
        return f"its CompositePodGroup {way[0].text} names itself as parent"
    return f"its groups name each other as parents: {_arrows(way)}"


def _arrows(way: Sequence[GroupKey]) -> str:
    return " -> ".join(key.text for key in way)
