"""Equivalence groups: like pods that are kept and moved as one element.

The problem: for a hundred thousand pods that fit on no node, hints, moves and cycles would run pod by pod. The idea: a
*class* (see `scheduling.classes.signatures`) is a set of pods that every plugin treats alike, so a verdict for one of
them holds for all. The pods of a class that a whole cycle has rejected form an equivalence group: an event calls the
hints for a single pod, the equivalence group moves as one element of its queue, and when a member is tried and
rejected, the others are rejected with it. A class has at most one equivalence group, wherever it is.

The common state of the members (rejecting plugins, time of the verdict, end of the backoff) is kept on the equivalence
group; a member gets a copy when it is read or leaves. Limits: each member has its own number of attempts, and its own
time for the order within the equivalence group: a member that was tried goes to the end.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, ClassVar, cast

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.heap import KeyedHeap


class EquivalenceGroup:
    """The waiting pods of a class; never empty while it is in a queue."""

    __slots__ = (
        "_members",
        "backoff_expiration",
        "key",
        "pending_plugins",
        "place",
        "reported",
        "timestamp",
        "unschedulable_plugins",
        "was_flushed",
    )

    gating_plugin: ClassVar[str] = ""
    """A gated pod waits by itself."""
    is_costly: ClassVar[bool] = False
    """A costly pod has no class."""

    def __init__(self, key: Hashable, order: Callable[[QueuedPodInfo], Any]) -> None:
        self._members: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self.key = key
        """The class."""
        self.place = ""
        self.timestamp = 0.0
        """When the class was last rejected."""
        self.backoff_expiration = 0.0
        """That of the member that was tried last."""
        self.unschedulable_plugins: frozenset[str] = frozenset()
        self.pending_plugins: frozenset[str] = frozenset()
        self.was_flushed = False
        self.reported: object = None
        """What was last reported about the class; kept here for the reporter."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (self._informed(member) for member in self._members)

    def in_order(self) -> list[QueuedPodInfo]:
        """The members as they would be tried."""
        return [self._informed(member) for member in self._members.in_order()]

    def keys(self) -> Collection[str]:
        """The members' keys (`namespace/name`), live."""
        return cast("Collection[str]", self._members.keys())

    @property
    def best(self) -> QueuedPodInfo:
        """The member to be tried next. It represents all members."""
        best = self._members.peek()
        assert best is not None  # noqa: S101  an equivalence group without members is dropped
        return best

    @property
    def pod(self) -> PodInfo:
        """The pod for which hints and PreEnqueue plugins are called."""
        return self.best.pod

    @property
    def rejectors(self) -> frozenset[str]:
        """All plugins that rejected the class."""
        return self.unschedulable_plugins | self.pending_plugins

    def judged(self, member: QueuedPodInfo) -> None:
        """Take over the verdict of a member that was just rejected: it holds for all."""
        self.timestamp = member.timestamp
        self.backoff_expiration = member.backoff_expiration
        self.unschedulable_plugins = member.unschedulable_plugins
        self.pending_plugins = member.pending_plugins
        self.was_flushed = False

    def push(self, member: QueuedPodInfo) -> None:
        """Add a member, or replace it."""
        self._members.push(member.key, member)

    def take(self, key: Hashable) -> QueuedPodInfo:
        """Remove a member; it gets a copy of the common state."""
        member = self._members.remove(key)
        assert member is not None  # noqa: S101  the caller found it here
        return self._informed(member)

    def get(self, key: Hashable) -> QueuedPodInfo:
        """A member, with a copy of the common state."""
        member = self._members.get(key)
        assert member is not None  # noqa: S101  the caller found it here
        return self._informed(member)

    def _informed(self, member: QueuedPodInfo) -> QueuedPodInfo:
        member.unschedulable_plugins = self.unschedulable_plugins
        member.pending_plugins = self.pending_plugins
        member.backoff_expiration = self.backoff_expiration
        member.was_flushed = self.was_flushed
        return member


# An element of a queue: a single pod, or an equivalence group.
Element = QueuedPodInfo | EquivalenceGroup


class EquivalenceGroups:
    """All equivalence groups, by class and by member."""

    def __init__(self, order: Callable[[QueuedPodInfo], Any]) -> None:
        self._order = order
        self._of_class: dict[Hashable, EquivalenceGroup] = {}
        self.by_pod: dict[str, EquivalenceGroup] = {}

    def of_pod(self, key: str) -> EquivalenceGroup | None:
        """The equivalence group that a pod is in."""
        return self.by_pod.get(key)

    def of_class(self, name: Hashable) -> EquivalenceGroup | None:
        """The equivalence group of a class."""
        return self._of_class.get(name)

    def surplus(self, place: str) -> int:
        """By how much the number of pods exceeds the number of equivalence groups at a place."""
        return sum(
            len(equivalence_group) - 1
            for equivalence_group in self._of_class.values()
            if equivalence_group.place == place
        )

    def join(self, name: Hashable, member: QueuedPodInfo) -> EquivalenceGroup:
        """Put a pod that was just rejected into the equivalence group of its class; its verdict holds for all
        members.
        """
        equivalence_group = self._of_class.get(name)
        if equivalence_group is None:
            equivalence_group = self._of_class[name] = EquivalenceGroup(name, self._order)
        else:
            member.pod = member.pod.bare()  # hints read a single pod of the class: other derived values waste memory
        equivalence_group.judged(member)
        equivalence_group.push(member)
        self.by_pod[member.key] = equivalence_group
        return equivalence_group

    def leave(self, equivalence_group: EquivalenceGroup, key: str) -> QueuedPodInfo:
        """Remove a pod. An empty equivalence group is dropped here; the caller removes it from its queue."""
        member = equivalence_group.take(key)
        del self.by_pod[member.key]
        if not equivalence_group:
            del self._of_class[equivalence_group.key]
        return member

    def dissolve(self, equivalence_group: EquivalenceGroup) -> list[QueuedPodInfo]:
        """Drop an equivalence group; returns its members, which are single elements again."""
        del self._of_class[equivalence_group.key]
        members = list(equivalence_group)
        for member in members:
            del self.by_pod[member.key]
        return members
