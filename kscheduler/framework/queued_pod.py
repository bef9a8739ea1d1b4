"""A pod in the scheduling queue, with the history of its attempts."""

from dataclasses import dataclass

from kscheduler.framework.pod_info import PodInfo


@dataclass(slots=True)
class QueuedPodInfo:
    """kube-scheduler's QueuedPodInfo. Times are wall-clock seconds."""

    pod: PodInfo
    timestamp: float = 0.0
    """When it was last (re-)added to the queue; equal priorities go by this."""
    attempts: int = 0
    unschedulable_count: int = 0
    """Attempts that ended in a rejection; backs off with it."""
    consecutive_errors_count: int = 0
    """Attempts in a row that ended in an error; backs off with it, when not 0."""
    initial_attempt_timestamp: float | None = None
    """When it first entered the active queue; latency is measured from here."""
    backoff_expiration: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    """Who turned it down in its last attempt."""
    pending_plugins: frozenset[str] = frozenset()
    """Those among them that wait for something outside the cluster."""
    gating_plugin: str = ""
    """Who keeps it out of the queue altogether (PreEnqueue)."""
    was_flushed: bool = False
    """Moved by the safety net, not by an event: a hint was missing."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod.key
