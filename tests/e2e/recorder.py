"""Remembers every node that each pod was ever seen with, so that a pod bound twice cannot hide."""

import threading

from tests.controlplane.pod_watch import PodWatch
from tests.controlplane.process import NotReadyError
from tests.controlplane.rest import Api, Object
from tests.e2e.audit import name_of


class Recorder(PodWatch):
    """A watch on all pods from the start of a scenario to its end."""

    def __init__(self, api: Api) -> None:
        super().__init__(api, "recorder")
        self._changed = threading.Condition()
        self._nodes: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    def seen(self, pod: Object) -> None:
        """Notes the pod's node if it is not the one noted last."""
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName")
        with self._changed:
            self._names[uid] = name_of(pod)
            history = self._nodes.setdefault(uid, [])
            if node and history[-1:] != [node]:
                history.append(node)
            elif not node and history:
                history.append("")
            self._changed.notify_all()

    def deleted(self, pod: Object) -> None:
        """A deleted pod keeps its history."""
        self.seen(pod)

    def bound(self) -> int:
        """How many pods have been seen with a node."""
        return sum(1 for history in self._nodes.values() if history)

    def rebound(self) -> list[str]:
        """A line per pod whose node has changed or vanished."""
        with self._changed:
            moved = {uid: history for uid, history in self._nodes.items() if len(history) > 1}
            return [f"pod {self._names[uid]} was bound more than once: {history}" for uid, history in moved.items()]

    def wait_for_binds(self, count: int, seconds: float) -> None:
        """Returns at the moment when `count` pods have been seen with a node. Raises NotReadyError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.bound() >= count, seconds):
                raise NotReadyError(f"{self.bound()} of {count} binds within {seconds:.0f} s")
