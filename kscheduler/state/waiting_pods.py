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


# Pods whose PreBind is running or done and whose Binding has not been sent: they can still be cancelled.
#
# PreBind may take minutes (volumes, devices), and preemption need not delete a pod that is not bound yet. So each of
# these pods can be cancelled with a cause, until the moment when its Binding is sent:
#
#     add --> running --mark_pre_bound--> sent       cancel() returns False: the API server decides now
#                |
#                +------- cancel -------> cancelled  mark_pre_bound() returns False: the Binding must not be sent


class PodInPreBind:
    """A pod in PreBind. The task that runs PreBind listens; a preemption cancels."""

    __slots__ = ("_listener", "_sent", "cause")

    def __init__(self) -> None:
        self.cause = ""
        """Why it was cancelled; empty if it was not."""
        self._sent = False
        self._listener: Callable[[], object] | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether its Binding must not be sent."""
        return bool(self.cause)

    def on_cancel(self, listener: Callable[[], object] | None) -> None:
        """Set the listener for a cancellation while PreBind runs; `None` removes it."""
        self._listener = listener

    def cancel(self, cause: str) -> bool:
        """Cancel it; returns whether that was still possible. The first cause counts."""
        if self._sent:
            return False
        if not self.cause:
            self.cause = cause
            if self._listener is not None:
                self._listener()
        return True

    def mark_pre_bound(self) -> bool:
        """Rule out cancellation, because the Binding is sent now. False if it was cancelled before."""
        if self.cause:
            return False
        self._sent = True
        return True


class PodsInPreBind:
    """All pods in PreBind, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBind] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, uid: str) -> PodInPreBind:
        """Record that a pod's PreBind begins."""
        self._pods[uid] = pod = PodInPreBind()
        return pod

    def remove(self, uid: str) -> None:
        """Remove a pod that is bound or has failed."""
        self._pods.pop(uid, None)

    def get(self, uid: str) -> PodInPreBind | None:
        """The pod with this UID, if it is in PreBind."""
        return self._pods.get(uid)
