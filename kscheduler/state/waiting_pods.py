"""Pods that Permit plugins hold back until there is a verdict.

A waiting pod occupies no worker: its node is reserved, and its own task awaits the verdict. The first rejection wins;
otherwise the pod goes on when the last plugin allows it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kscheduler.config.durations import format_duration, seconds
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error, unschedulable


@dataclass(slots=True)
class PodAtPermit:
    """A waiting pod. Implements `framework.handle.WaitingPod`."""

    pod: PodInfo
    node_name: str
    deadlines: dict[str, float]
    """By plugin, in the clock's monotonic seconds: when the pod is rejected if the plugin has not answered."""
    timeouts: Mapping[str, float]
    """By plugin: the timeout in seconds."""
    since: float = 0.0
    """When it began to wait, in the clock's monotonic seconds."""
    verdict: Status | None = None
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that have not let it through yet."""
        return frozenset(self.deadlines)

    def allow(self, plugin: str) -> None:
        """Record that a plugin lets the pod through; after the last plugin the pod goes on."""
        self.deadlines.pop(plugin, None)
        if not self.deadlines:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Fail the pod with this message; it then waits for an event. False if the pod already has a verdict."""
        return self._decide(unschedulable(str(message), plugin=plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Fail the pod; it is tried again after its backoff. False if the pod already has a verdict."""
        return self._decide(error(str(message), plugin=plugin))

    def settle(self, verdict: Status) -> bool:
        """Fail the pod with this rejection or error. False if the pod already has a verdict."""
        return self._decide(verdict)

    def expire(self, now: float) -> None:
        """Reject the pod if a plugin's deadline has passed."""
        for plugin, deadline in self.deadlines.items():
            if deadline <= now:
                after = format_duration(seconds(self.timeouts[plugin]))
                self.reject(plugin, f"rejected due to timeout after waiting {after} at plugin {plugin}")
                return

    def next_deadline(self) -> float:
        """When `expire` has something to do."""
        return min(self.deadlines.values())

    def on_verdict(self, listener: Callable[[], None]) -> None:
        """Call the listener when the verdict is known (at once, if it already is)."""
        self._listeners.append(listener)
        if self.verdict is not None:
            listener()

    def _decide(self, verdict: Status) -> bool:
        if self.verdict is not None:
            return False
        self.verdict = verdict
        for listener in self._listeners:
            listener()
        return True


class WaitingPodTable:
    """All waiting pods. Implements `framework.handle.WaitingPods`."""

    def __init__(self) -> None:
        self._pods: dict[str, PodAtPermit] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def hold(self, held: PodAtPermit) -> None:
        """Add a pod that begins to wait."""
        self._pods[held.pod.uid] = held

    def release(self, uid: str) -> None:
        """Remove a pod that no longer waits."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> PodAtPermit | None:
        """The waiting pod with this UID, if there is one."""
        return self._pods.get(uid)

    def find(self, key: str) -> PodAtPermit | None:
        """The waiting pod with this `namespace/name`, if there is one."""
        return next((held for held in self._pods.values() if held.pod.key == key), None)

    def reject(self, uid: str) -> bool:
        """Fail a deleted pod with the message `removed`. Returns whether it was waiting for a verdict."""
        held = self._pods.get(uid)
        return held is not None and held.reject("", "removed")

    def all(self) -> tuple[PodAtPermit, ...]:
        """All waiting pods, in the order in which they began to wait."""
        return tuple(self._pods.values())
