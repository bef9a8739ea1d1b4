"""Pods that Permit plugins hold back, each with a verdict to come.

A waiting pod holds no worker: its node is reserved, and a task of its own awaits the verdict. The first rejection wins;
otherwise the last plugin's permission lets it go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kscheduler.config.durations import format_duration, seconds
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error, unschedulable


@dataclass(slots=True)
class HeldPod:
    """One pod that waits. Implements `framework.handle.WaitingPod`."""

    pod: PodInfo
    node_name: str
    deadlines: dict[str, float]
    """By plugin, in the clock's monotonic seconds: when it is turned down for want of an answer."""
    timeouts: Mapping[str, float]
    """By plugin: how long it was willing to wait."""
    verdict: Status | None = None
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    @property
    def pending_plugins(self) -> frozenset[str]:
        """The plugins that have not let it through yet."""
        return frozenset(self.deadlines)

    def allow(self, plugin: str) -> None:
        """One plugin lets it through; with the last one it goes."""
        self.deadlines.pop(plugin, None)
        if not self.deadlines:
            self._decide(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """It fails, with this message, and waits for an event. Whether that came before any other verdict."""
        return self._decide(unschedulable(str(message), plugin=plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """It gives its place to another pod and is tried again after its back-off. Whether there was no verdict yet."""
        return self._decide(error(str(message), plugin=plugin))

    def expire(self, now: float) -> None:
        """Turn it down if a plugin's time is over."""
        for plugin, deadline in self.deadlines.items():
            if deadline <= now:
                after = format_duration(seconds(self.timeouts[plugin]))
                self.reject(plugin, f"rejected due to timeout after waiting {after} at plugin {plugin}")
                return

    def next_deadline(self) -> float:
        """When `expire` has something to do."""
        return min(self.deadlines.values())

    def on_verdict(self, listener: Callable[[], None]) -> None:
        """Be told when the verdict is known (at once, if it is)."""
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
    """All pods that wait. Implements `framework.handle.WaitingPods`."""

    def __init__(self) -> None:
        self._pods: dict[str, HeldPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def hold(self, held: HeldPod) -> None:
        """A pod begins to wait."""
        self._pods[held.pod.uid] = held

    def release(self, uid: str) -> None:
        """A pod no longer waits."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> HeldPod | None:
        """One of them."""
        return self._pods.get(uid)

    def find(self, key: str) -> HeldPod | None:
        """The one of this `namespace/name`."""
        return next((held for held in self._pods.values() if held.pod.key == key), None)

    def reject(self, uid: str) -> bool:
        """One of them is removed: it fails with the message `removed`. Whether it waited for a verdict."""
        held = self._pods.get(uid)
        return held is not None and held.reject("", "removed")

    def all(self) -> tuple[HeldPod, ...]:
        """Every one, in the order they began to wait."""
        return tuple(self._pods.values())
