"""How long a pod waits after a failed attempt (kube-scheduler 4.7).

    duration = initial * 2^(count - 1), at most the maximum
    count    = errors in a row if there are any, else rejections; 0 waits not at all
    expiry   = last attempt + duration, down to the whole wall-clock second

Whole seconds make pods that failed together come back together, in one order, instead of trickling.
"""

import math
from dataclasses import dataclass

from kscheduler.framework.queued_pod import QueuedPodInfo


@dataclass(frozen=True, slots=True)
class BackoffPolicy:
    """The two settings: `podInitialBackoffSeconds` and `podMaxBackoffSeconds`."""

    initial_seconds: float = 1.0
    max_seconds: float = 10.0

    def duration(self, queued: QueuedPodInfo) -> float:
        """Seconds to wait after the pod's last attempt."""
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0:
            return 0.0
        doublings = min(count - 1, 62)
        return float(min(self.initial_seconds * 2**doublings, self.max_seconds))

    def expiration(self, queued: QueuedPodInfo) -> float:
        """The whole second at which the wait ends; 0 for a pod that need not wait."""
        duration = self.duration(queued)
        return math.floor(queued.timestamp + duration) if duration else 0.0


def is_backing_off(queued: QueuedPodInfo, now: float) -> bool:
    """Whether the wait is not over; the second of its end still counts as waiting."""
    return bool(queued.backoff_expiration) and queued.backoff_expiration >= math.floor(now)
