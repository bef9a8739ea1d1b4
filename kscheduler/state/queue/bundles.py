"""Pods that are alike, kept and moved as one.

The problem: a hundred thousand pods that fit nowhere would be asked one by one about every event, moved one by one and
judged one by one. The idea: a *class* (see `scheduling.classes.signatures`) is a set of pods that every plugin judges
alike, so what one of them learns holds for all. Its pods that were turned down by a whole cycle are a bundle: an event
asks the hints of one of them, the bundle moves as one element of its queue, and when one member is tried and turned
down, the others are turned down with it. A class has one bundle at most, wherever it is.

What the members have in common (who turned them down, since when, until when they back off) stands on the bundle; a
member gets its copy when it is looked at or leaves. Limits: attempts are a member's own, and so is the time by which it
is ordered among the others: who was tried goes to the end.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any, ClassVar, cast

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.state.queue.heap import KeyedHeap


class Bundle:
    """The waiting pods of one class; never empty while somebody knows it."""

    __slots__ = (
        "_members",
        "backoff_expiration",
        "key",
        "pending_plugins",
        "place",
        "timestamp",
        "told",
        "unschedulable_plugins",
        "was_flushed",
    )

    gating_plugin: ClassVar[str] = ""
    """A gated pod waits by itself."""

    def __init__(self, key: Hashable, order: Callable[[QueuedPodInfo], Any]) -> None:
        self._members: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self.key = key
        """The class."""
        self.place = ""
        self.timestamp = 0.0
        """When the class was judged last."""
        self.backoff_expiration = 0.0
        """That of the member that was judged last."""
        self.unschedulable_plugins: frozenset[str] = frozenset()
        self.pending_plugins: frozenset[str] = frozenset()
        self.was_flushed = False
        self.told: object = None
        """What the outside was last told of the class; for whoever tells it."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (self._informed(member) for member in self._members)

    def keys(self) -> Collection[str]:
        """The members' keys (`namespace/name`), live."""
        return cast("Collection[str]", self._members.keys())

    @property
    def best(self) -> QueuedPodInfo:
        """The member whose turn it is. It stands for all of them."""
        best = self._members.peek()
        assert best is not None  # noqa: S101  a bundle without members is forgotten
        return best

    @property
    def pod(self) -> PodInfo:
        """The pod that hints and PreEnqueue plugins are asked about."""
        return self.best.pod

    @property
    def rejectors(self) -> frozenset[str]:
        """Everybody who turned the class down."""
        return self.unschedulable_plugins | self.pending_plugins

    def judged(self, member: QueuedPodInfo) -> None:
        """A pod of the class was just turned down: so are all of them."""
        self.timestamp = member.timestamp
        self.backoff_expiration = member.backoff_expiration
        self.unschedulable_plugins = member.unschedulable_plugins
        self.pending_plugins = member.pending_plugins
        self.was_flushed = False

    def push(self, member: QueuedPodInfo) -> None:
        """One more, or one whose object is new."""
        self._members.push(member.key, member)

    def take(self, key: Hashable) -> QueuedPodInfo:
        """Take a member out, with its copy of what they have in common."""
        member = self._members.remove(key)
        assert member is not None  # noqa: S101  the caller found it here
        return self._informed(member)

    def get(self, key: Hashable) -> QueuedPodInfo:
        """A member, with its copy of what they have in common."""
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
"""What a queue holds: a pod by itself, or a bundle."""


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
        """How many more pods than elements the bundles there are."""
        return sum(len(bundle) - 1 for bundle in self._of_class.values() if bundle.place == place)

    def join(self, name: Hashable, member: QueuedPodInfo) -> Bundle:
        """Put a pod that was just turned down into the bundle of its class; its verdict is everybody's."""
        bundle = self._of_class.get(name)
        if bundle is None:
            bundle = self._of_class[name] = Bundle(name, self._order)
        else:
            member.pod = member.pod.bare()  # hints ask one pod of the class; what the others worked out only weighs
        bundle.judged(member)
        bundle.push(member)
        self._of_pod[member.key] = bundle
        return bundle

    def leave(self, bundle: Bundle, key: str) -> QueuedPodInfo:
        """Take a pod out. An empty bundle is forgotten; the caller takes it out of its queue."""
        member = bundle.take(key)
        del self._of_pod[member.key]
        if not bundle:
            del self._of_class[bundle.key]
        return member

    def dissolve(self, bundle: Bundle) -> list[QueuedPodInfo]:
        """Each for himself again."""
        del self._of_class[bundle.key]
        members = list(bundle)
        for member in members:
            del self._of_pod[member.key]
        return members
