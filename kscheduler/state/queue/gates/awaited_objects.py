"""The pods behind an *object gate*, filed by the object that each waits for (`framework.standing_gate.ObjectGate`).

An object that changes concerns the pods that wait for it; all others stay where they are. A pod whose object has
changed either may come in, or waits for another object, and is filed under that.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo


class ObjectGateCalls(NamedTuple):
    """The questions to an object gate. Neither raises: a gate that fails has its pods asked one by one."""

    awaited: Callable[[PodInfo], Collection[str] | None]
    """Keys of the objects of which one must change first; `None`: the pod may come in, for all that is known."""
    changed: Callable[[], Collection[str] | None]
    """Keys of the objects that have changed since the last call; `None`: perhaps all."""


class AwaitedObjects:
    """What the pods behind one gate wait for."""

    def __init__(self, gate: ObjectGateCalls) -> None:
        self._gate = gate
        self._pods: dict[str, QueuedPodInfo] = {}
        """Those that wait for something, by key."""
        self._objects: dict[str, frozenset[str]] = {}
        """What they wait for, by key of the pod."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Keys of the pods by key of the object, in the order in which they came."""
        self._may_come_in: dict[str, None] = {}
        """Keys of pods that wait for nothing known."""
        self._others: dict[str, QueuedPodInfo] = {}
        """Those that wait for other objects than before, and of which nobody has been told so yet."""

    def put(self, queued: QueuedPodInfo) -> None:
        """File a pod that the gate has rejected, or that has changed since, or whose objects have."""
        key, objects, before = queued.key, self._gate.awaited(queued.pod), self._objects.get(queued.key)
        is_to_be_told = key in self._others or key in self._may_come_in
        self.remove(key)
        if objects is None:
            self._may_come_in[key] = None
            return
        self._pods[key], self._objects[key] = queued, frozenset(objects)
        for name in self._objects[key]:
            self._waiting.setdefault(name, {})[key] = None
        if is_to_be_told or before not in (None, self._objects[key]):
            self._others[key] = queued

    def remove(self, key: str) -> None:
        """Forget a pod; nothing happens if it is not here."""
        self._may_come_in.pop(key, None)
        self._others.pop(key, None)
        self._pods.pop(key, None)
        for name in self._objects.pop(key, ()):
            waiting = self._waiting[name]
            del waiting[key]
            if not waiting:
                del self._waiting[name]

    def may_let_in(self) -> Collection[str]:
        """Keys of the pods that wait for nothing any more. Looks only at pods whose objects have changed."""
        for key in self._concerned():
            self.put(self._pods[key])
        return self._may_come_in.keys()

    def take_others(self) -> list[QueuedPodInfo]:
        """The pods that wait for other objects since the last call: the gate's answer for them may read otherwise."""
        others = [*self._others.values()]
        self._others.clear()
        return others

    def _concerned(self) -> list[str]:
        changed = self._gate.changed()
        if changed is None:
            return [*self._pods]
        return [*dict.fromkeys(key for name in changed for key in self._waiting.get(name, ()))]
