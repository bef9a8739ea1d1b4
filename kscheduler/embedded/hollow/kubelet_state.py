"""The state of all hollow kubelets and their next tasks, without I/O and time.

    a pod with our node in spec.nodeName ──fits──> RUN ──report──> Running ──seconds──> Succeeded
                                         └─does not──> REJECT ──report──> Failed (OutOfcpu, NodePorts ...)
    a pod with a deletionTimestamp ──> REMOVE (its room is free when it is gone from the API)
    a pod that runs and was called unready while its node was away ──> READY

A kubelet's own sums (`NodeCapacity`) decide, so a scheduler that overcommits a node is detected. A pod whose node is
unknown is ignored until its node appears. A pod that is already running when first seen is accepted without a check.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from kscheduler.api.core import Node, Pod
from kscheduler.embedded.hollow.node_capacity import NodeCapacity, Refusal, refusal


class Deed(Enum):
    """An action of a kubelet on a pod."""

    RUN = "run"
    REJECT = "reject"
    FINISH = "finish"
    REMOVE = "remove"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Task:
    """An action, with the pod as it was seen."""

    deed: Deed
    pod: Pod
    refusal: Refusal | None = None
    """For REJECT."""


def every_node(_: Node) -> bool:
    """All nodes are hollow."""
    return True


class KubeletState:
    """The hollow nodes, with their free room and their pods."""

    def __init__(self, is_hollow: Callable[[Node], bool] = every_node) -> None:
        """`is_hollow` selects the nodes to simulate; others have real kubelets."""
        self._is_hollow = is_hollow
        self._capacities: dict[str, NodeCapacity] = {}
        self._place_of: dict[str, str] = {}
        self._refused: set[str] = set()
        self._leaving: set[str] = set()

    def node_names(self) -> list[str]:
        """The names of the hollow nodes."""
        return list(self._capacities)

    def node(self, name: str) -> Node | None:
        """A hollow node."""
        room = self._capacities.get(name)
        return room.node if room is not None else None

    def holds(self, uid: str) -> bool:
        """Whether the pod runs on one of the nodes."""
        return uid in self._place_of

    def __len__(self) -> int:
        return len(self._place_of)

    def set_node(self, node: Node) -> bool:
        """Add or update a node; whether it is new, so that the pods that name it must be seen again."""
        name = node.metadata.name
        if not self._is_hollow(node):
            self.remove_node(name)
            return False
        room = self._capacities.get(name)
        if room is None:
            self._capacities[name] = NodeCapacity(node)
            return True
        room.set_node(node)
        return False

    def remove_node(self, name: str) -> None:
        """Remove a deleted node; its pods are left to the garbage collector."""
        room = self._capacities.pop(name, None)
        for uid in room.uids() if room is not None else ():
            del self._place_of[uid]

    def see_all(self, pods: Collection[Pod]) -> list[Task]:
        """Handle several pods: running pods take their room before other pods are checked."""
        running_first = sorted(pods, key=lambda pod: pod.status.phase != "Running")
        return [task for pod in running_first if (task := self.see(pod)) is not None]

    def see(self, pod: Pod) -> Task | None:
        """Handle a new or changed pod; returns the task for it, if any."""
        name, uid = pod.spec.node_name, pod.metadata.uid
        if not name or pod.is_terminal:
            return None
        room = self._capacities.get(name)
        if room is None:
            return None
        if pod.metadata.deletion_timestamp is not None:
            return self._leave(pod)
        if uid in self._place_of:
            return Task(Deed.READY, pod) if _is_wrongly_unready(pod, room.node) else None
        if uid in self._refused:
            return None
        if pod.status.phase == "Running":
            self._admit(pod, room)
            return None
        return self.judge(pod)

    def judge(self, pod: Pod) -> Task | None:
        """Admit a pod or find the reason to reject it; `None` if its node is gone."""
        room = self._capacities.get(pod.spec.node_name)
        if room is None:
            return None
        refused = refusal(pod, room)
        if refused is not None:
            self._refused.add(pod.metadata.uid)
            return Task(Deed.REJECT, pod, refused)
        self._refused.discard(pod.metadata.uid)
        self._admit(pod, room)
        return Task(Deed.RUN, pod)

    def forget(self, pod: Pod) -> None:
        """Free the room of a pod that has ended or is gone."""
        uid = pod.metadata.uid
        self._leaving.discard(uid)
        self._refused.discard(uid)
        self._release(uid)

    def keep_only(self, name: str, uids: Collection[str]) -> None:
        """Free the room of pods on a node that the API server no longer has, since the watch may be late."""
        room = self._capacities.get(name)
        for uid in room.uids().difference(uids) if room is not None else ():
            self._release(uid)

    def _leave(self, pod: Pod) -> Task | None:
        if pod.metadata.uid in self._leaving:
            return None
        self._leaving.add(pod.metadata.uid)
        return Task(Deed.REMOVE, pod)

    def _admit(self, pod: Pod, room: NodeCapacity) -> None:
        room.add(pod)
        self._place_of[pod.metadata.uid] = room.node.metadata.name

    def _release(self, uid: str) -> None:
        name = self._place_of.pop(uid, None)
        room = self._capacities.get(name) if name is not None else None
        if room is not None:
            room.remove(uid)


def _is_wrongly_unready(pod: Pod, node: Node) -> bool:
    """Whether the pod's Ready condition is False although its node is back; only its kubelet corrects that."""
    if pod.status.phase != "Running":
        return False
    ready = {condition.type: condition.status for condition in pod.status.conditions}.get("Ready")
    return ready == "False" and any(
        condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions
    )
