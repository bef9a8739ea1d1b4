"""Bundles: like pods that are kept and moved as one element.

The problem: for a hundred thousand pods that fit on no node, hints, moves and cycles would run pod by pod. The idea: a
*class* (see `scheduling.classes.signatures`) is a set of pods that every plugin treats alike, so a verdict for one of
them holds for all. The pods of a class that a whole cycle has rejected form a bundle: an event calls the hints for a
single pod, the bundle moves as one element of its queue, and when a member is tried and rejected, the others are
rejected with it. A class has at most one bundle, wherever it is.

The common state of the members (rejecting plugins, time of the verdict, end of the back-off) is kept on the bundle; a
member gets a copy when it is read or leaves. Limits: each member has its own number of attempts, and its own time for
the order within the bundle: a member that was tried goes to the end.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, ClassVar, cast

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.heap import KeyedHeap


class Bundle:
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
        assert best is not None  # noqa: S101  a bundle without members is dropped
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


Element = QueuedPodInfo | Bundle
"""An element of a queue: a single pod, or a bundle."""


class Bundles:
    """All bundles, by class and by member."""

    def __init__(self, order: Callable[[QueuedPodInfo], Any]) -> None:
        self._order = order
        self._of_class: dict[Hashable, Bundle] = {}
        self._of_pod: dict[str, Bundle] = {}

    def of_pod(self, key: str) -> Bundle | None:
        """The bundle that a pod is in."""
        return self._of_pod.get(key)

    def of_class(self, name: Hashable) -> Bundle | None:
        """The bundle of a class."""
        return self._of_class.get(name)

    def surplus(self, place: str) -> int:
        """By how much the number of pods exceeds the number of bundles at a place."""
        return sum(len(bundle) - 1 for bundle in self._of_class.values() if bundle.place == place)

    def join(self, name: Hashable, member: QueuedPodInfo) -> Bundle:
        """Put a pod that was just rejected into the bundle of its class; its verdict holds for all members."""
        bundle = self._of_class.get(name)
        if bundle is None:
            bundle = self._of_class[name] = Bundle(name, self._order)
        else:
            member.pod = member.pod.bare()  # hints read a single pod of the class: other derived values waste memory
        bundle.judged(member)
        bundle.push(member)
        self._of_pod[member.key] = bundle
        return bundle

    def leave(self, bundle: Bundle, key: str) -> QueuedPodInfo:
        """Remove a pod. An empty bundle is dropped here; the caller removes it from its queue."""
        member = bundle.take(key)
        del self._of_pod[member.key]
        if not bundle:
            del self._of_class[bundle.key]
        return member

    def dissolve(self, bundle: Bundle) -> list[QueuedPodInfo]:
        """Drop a bundle; returns its members, which are single elements again."""
        del self._of_class[bundle.key]
        members = list(bundle)
        for member in members:
            del self._of_pod[member.key]
        return members
