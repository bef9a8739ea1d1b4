"""A pod in the scheduling queue, and the history of its attempts."""

from dataclasses import dataclass

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo


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
    refusals: int = 0
    """Attempts in a row that ended with the API server's certain no; backs off longer with it."""
    bugs: int = 0
    """Attempts in a row that ended in an exception of a plugin or of the scheduler."""
    last_error: str = ""
    """What the last attempt failed with, if it was an error: the same one is logged once."""
    initial_attempt_timestamp: float | None = None
    """When it first entered the active queue; latency is measured from here."""
    backoff_expiration: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    """Who turned it down in its last attempt."""
    pending_plugins: frozenset[str] = frozenset()
    """Those among them that wait for something outside the cluster."""
    gating_plugin: str = ""
    """Who keeps it out of the queue altogether (PreEnqueue)."""
    gate_failed: bool = False
    """It is kept out because a PreEnqueue plugin failed: no event need come, so the plugin is asked at each flush."""
    was_flushed: bool = False
    """Moved by the safety net, not by an event: a hint was missing."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.pod.key

    def forgive(self, old: Pod, new: Pod) -> bool:
        """Count refusals and bugs from zero if its owner has changed the pod; whether that shortens its wait."""
        if not (self.refusals or self.bugs) or not _is_edited(old, new):
            return False
        self.refusals = self.bugs = 0
        return True


def priority_order(queued: QueuedPodInfo) -> tuple[int, float]:
    """The order of PrioritySort: highest priority first, then the earliest timestamp (refreshed by every attempt)."""
    return -queued.pod.priority, queued.timestamp


def _is_edited(old: Pod, new: Pod) -> bool:
    """Whether anything differs that an admission webhook or a plugin would look at; a status is not."""
    before, after = old.metadata, new.metadata
    return before.labels != after.labels or before.annotations != after.annotations or old.spec != new.spec
