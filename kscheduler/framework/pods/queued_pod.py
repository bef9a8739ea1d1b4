"""A pod in the scheduling queue, and the history of its attempts."""

from dataclasses import dataclass, field

from kscheduler.api.core import Pod
from kscheduler.framework.decision_time import DECISION_ENDED
from kscheduler.framework.pods.pod_info import PodInfo


@dataclass(slots=True)
class QueuedPodInfo:
    """kube-scheduler's QueuedPodInfo. Times are wall-clock seconds."""

    pod: PodInfo
    """The pod as the watch last showed it."""
    timestamp: float = 0.0
    """When it was last (re-)added to the queue; orders pods of equal priority."""
    attempts: int = 0
    """How many times it has been tried."""
    unschedulable_count: int = 0
    """Attempts that ended in a rejection; lengthens the backoff."""
    consecutive_errors_count: int = 0
    """Attempts in a row that ended in an error; if not 0, it determines the backoff."""
    refusals: int = 0
    """Attempts in a row that the API server has definitely refused; leads to a longer backoff."""
    bugs: int = 0
    """Attempts in a row that ended in an exception of a plugin or of the scheduler."""
    last_error: str = ""
    """The error of the last attempt, if it was one; the same error is logged only once."""
    initial_attempt_timestamp: float | None = None
    """When it first entered the active queue; latency is measured from here."""
    backoff_expiration: float = 0.0
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that rejected it in its last attempt."""
    pending_plugins: frozenset[str] = frozenset()
    """The rejecting plugins that wait for something outside the cluster."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that keeps it out of the queue."""
    gate_failed: bool = False
    """It is kept out because a PreEnqueue plugin failed. No event may follow, so the plugin is called at each flush."""
    was_flushed: bool = False
    """It was moved by the safety net and not by an event: a hint is missing."""
    flushed_at: float = 0.0
    """When the safety net last looked at it, where that is remembered."""
    overruns: int = 0
    """Attempts in a row in which deciding took too long and was ended; leads to a longer backoff."""
    held_until: float = 0.0
    """Where its last attempt failed only because a plugin was not called for it: when it is called again."""
    gate_reasons: tuple[str, ...] = ()
    """Why the gating plugin keeps it out, as PreEnqueue has answered last; no condition tells it."""
    reported_gates: frozenset[str] = frozenset()
    """What keeps it out, as far as a log line has told it."""

    _key: str = field(default="", init=False, repr=False, compare=False)
    """Worked out at its first use."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        if not self._key:
            self._key = self.pod.pod.key
        return self._key

    @property
    def is_costly(self) -> bool:
        """Whether deciding about it may take long: it has very many entries, or has already taken too long."""
        return self.overruns > 0 or self.pod.is_costly

    def forgive(self, old: Pod, new: Pod) -> bool:
        """Reset refusals, bugs, overruns and holds if its owner has changed the pod; whether that shortens its wait."""
        if not (self.refusals or self.bugs or self.overruns or self.held_until) or not is_edited(old, new):
            return False
        self.refusals = self.bugs = self.overruns = 0
        self.held_until = 0.0
        return True

    def recall(self) -> None:
        """What the pod's condition tells of a decision that was ended still applies.

        A leader that has just been elected sees its pods like this: one that held up the last leader is tried last, and
        with little time.
        """
        for each in self.pod.pod.status.conditions:
            if each.type == "PodScheduled" and each.status == "False" and each.message.startswith(DECISION_ENDED):
                self.overruns = 1


def priority_order(queued: QueuedPodInfo) -> tuple[int, float]:
    """The order of PrioritySort: highest priority first, then the earliest timestamp (refreshed by every attempt)."""
    return -queued.pod.priority, queued.timestamp


def is_edited(old: Pod, new: Pod) -> bool:
    """Whether anything differs that an admission webhook or a plugin reads; the status does not count."""
    before, after = old.metadata, new.metadata
    return before.labels != after.labels or before.annotations != after.annotations or old.spec != new.spec
