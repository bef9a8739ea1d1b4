"""What a played change did to the view, so that it can be taken back for a trial, and what bindings ahead would do.

Each method changes the cache and returns what undoes it, or `None` where there is nothing to change. A trial ends
before anybody awaits.
"""

from dataclasses import dataclass

from kscheduler.api.core import Node, Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.shadow.change_buffer import BufferedChange
from kscheduler.state.cache import Cache, Undo

# Where a pod stood in the other's queue: its priority below zero, and its number in the order of arrival.
Rank = tuple[int, int]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """Something that cannot be taken back: no view before it is tried."""

    change: BufferedChange

    @property
    def text(self) -> str:
        """For the order that is told."""
        return f"change of {self.change.kind.plural} {self.change.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """Undo it in the view. `absent`: UIDs of pods that the trial keeps off their nodes."""
        del cache, absent
        return None


@dataclass(frozen=True, slots=True, eq=False)
class BoundPod(Move):
    """A pod got its node."""

    pod: Pod
    """Before it had one."""
    node_name: str
    rank: Rank | None
    """`None`: unknown, as it was there before the shadow, or had been rejected before."""

    @property
    def uid(self) -> str:
        """Of the pod."""
        return PodInfo(self.pod).uid

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """The pod does not count yet."""
        uid = self.uid
        absent.add(uid)
        return cache.lift_pod_in_order(uid) if cache.node_of(uid) else None

    def bring_forward(self, cache: Cache) -> Undo | None:
        """The pod counts already, as after the decision."""
        info = PodInfo(self.pod)
        if cache.node_of(info.uid) or not cache.has_node(self.node_name):
            return None
        nomination = cache.nominator.nomination(info.uid)
        cache.assume_pod(info, self.node_name)

        def undo() -> None:
            cache.forget_pod(info.uid)
            if nomination is not None:
                cache.nominator.nominate(nomination[1], nomination[0])

        return undo


@dataclass(frozen=True, slots=True, eq=False)
class Arrival(Move):
    """A pod that the other scheduler did not decide has come to a node: of a third scheduler, from an old-style
    DaemonSet.
    """

    pod: Pod

    @property
    def text(self) -> str:
        """For the order that is told."""
        return f"arrival of {self.pod.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """The pod does not count yet."""
        uid = PodInfo(self.pod).uid
        absent.add(uid)
        return cache.lift_pod_in_order(uid) if cache.node_of(uid) else None


@dataclass(frozen=True, slots=True, eq=False)
class Removal(Move):
    """A pod that counted on a node is gone, or has ended."""

    pod: PodInfo
    node_name: str

    @property
    def text(self) -> str:
        """For the order that is told."""
        return f"end of {self.pod.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """The pod counts still."""
        if self.pod.uid in absent or cache.node_of(self.pod.uid):
            return None
        cache.assume_pod(self.pod, self.node_name)
        # Removed, not forgotten: an update of it that is taken back, too, confirms it.

        def take_back() -> None:
            cache.remove_pod(self.pod.uid)

        return take_back


@dataclass(frozen=True, slots=True, eq=False)
class PodUpdate(Move):
    """A pod on a node has other labels, requests, or is being deleted."""

    old: Pod
    new: Pod

    @property
    def text(self) -> str:
        """For the order that is told."""
        return f"update of {self.new.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """The version before."""
        uid = PodInfo(self.new).uid
        counted = cache.pod_of(uid)
        if uid in absent or counted is None:
            return None
        newest = counted.pod
        cache.update_pod(self.old)
        return lambda: cache.update_pod(newest)


@dataclass(frozen=True, slots=True, eq=False)
class NodeMove(Move):
    """A node has come (`old` is `None`), gone (`new` is `None`) or changed."""

    old: Node | None
    new: Node | None

    @property
    def text(self) -> str:
        """For the order that is told."""
        verb = "arrival" if self.old is None else "removal" if self.new is None else "update"
        return f"{verb} of node {self.change.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """The node as it was before."""
        del absent
        old, new = self.old, self.new
        if old is None:
            cache.remove_node(new.metadata.name) if new is not None else None
        else:
            cache.add_node(old)
        if new is None:
            return lambda: cache.remove_node(old.metadata.name) if old is not None else None
        return lambda: cache.add_node(new)


@dataclass(frozen=True, slots=True, eq=False)
class Nomination(Move):
    """A pending pod is expected on another node than before."""

    old: Pod
    new: Pod

    @property
    def text(self) -> str:
        """For the order that is told."""
        return f"nomination of {self.new.key}"

    def take_back(self, cache: Cache, absent: set[str]) -> Undo | None:
        """As its status said before."""
        del absent
        info = PodInfo(self.new)
        if cache.node_of(info.uid):
            return None
        now = cache.nominator.nominated_node(info)
        cache.nominator.nominate(PodInfo(self.old), self.old.status.nominated_node_name)
        return lambda: cache.nominator.nominate(info, now)
