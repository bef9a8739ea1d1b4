"""How long a pod waits after a failed attempt (kube-scheduler 4.7).

    duration = initial * 2^(count - 1), at most the maximum
    count    = errors in a row if there are any, else rejections; no wait for 0
    expiry   = last attempt + duration, rounded down to the wall-clock second

With whole seconds, pods that failed together come back together and in order, instead of one by one.

Deliberately longer than in kube-scheduler, for failures that a second does not cure:

    the API server has definitely refused the Binding  10, 20, 40 ... 300 s    by refusals in a row
    deciding about the pod took too long and was ended 10, 20, 40 ... 300 s    by such attempts in a row
    an exception, five times in a row and more         10, 20, 40 ... 300 s    quarantine: one pod must not block others
    a plugin of a group's profile is quarantined       300 s                   (a pod is parked until a reload)

All start from the beginning when the pod's spec, labels or annotations change, or another configuration is taken over,
and end with any other outcome.
"""

import math
from typing import Final, Protocol

import msgspec

STRIKE_INITIAL_SECONDS: Final = 10.0
STRIKE_MAX_SECONDS: Final = 300.0
# Exceptions in a row before a pod is kept away longer: a few may have had another cause.
BUGS_UNTIL_QUARANTINE: Final = 5


class AttemptHistory(Protocol):
    """A pod with the history of its attempts, or a pod group."""

    @property
    def timestamp(self) -> float:
        """When the last attempt ended."""
        ...

    @property
    def unschedulable_count(self) -> int:
        """Rejections so far."""
        ...

    @property
    def consecutive_errors_count(self) -> int:
        """Errors in a row."""
        ...

    @property
    def refusals(self) -> int:
        """Refused Bindings in a row."""
        ...

    @property
    def overruns(self) -> int:
        """Decisions in a row that took too long."""
        ...

    @property
    def bugs(self) -> int:
        """Exceptions in a row."""
        ...


class BackoffPolicy(msgspec.Struct, frozen=True):
    """The two settings: `podInitialBackoffSeconds` and `podMaxBackoffSeconds`."""

    initial_seconds: float = 1.0
    max_seconds: float = 10.0

    def duration(self, queued: AttemptHistory, pods: int = 1) -> float:
        """Seconds to wait after the last attempt; the longest wait grows with the square root of the number of pods."""
        count = queued.consecutive_errors_count or queued.unschedulable_count
        usual = _doubled(self.initial_seconds, count, self.max_seconds * math.sqrt(pods))
        strikes = queued.refusals or queued.overruns or max(0, queued.bugs - BUGS_UNTIL_QUARANTINE + 1)
        return max(usual, _doubled(STRIKE_INITIAL_SECONDS, strikes, STRIKE_MAX_SECONDS))

    def expiration(self, queued: AttemptHistory, pods: int = 1) -> float:
        """The whole second at which the wait ends; 0 for a pod that need not wait. `pods`: of a group."""
        duration = self.duration(queued, pods)
        return math.floor(queued.timestamp + duration) if duration else 0.0


def expiration_without_hope(now: float) -> float:
    """The whole second at which the longest wait ends: for a group whose profile schedules nothing."""
    return math.floor(now + STRIKE_MAX_SECONDS)


def _doubled(initial: float, count: int, most: float) -> float:
    """`initial` for the first time, doubled each further time, at most `most`."""
    return float(min(initial * 2 ** min(count - 1, 62), most)) if count else 0.0


class BacksOff(Protocol):
    """A pod that waits for its next attempt, an equivalence group, or a group."""

    @property
    def backoff_expiration(self) -> float:
        """The whole second at which the wait ends; 0 means no wait."""
        ...


def is_backing_off(queued: BacksOff, now: float) -> bool:
    """Whether the wait is not over; the second in which it ends still counts as waiting."""
    return bool(queued.backoff_expiration) and queued.backoff_expiration >= math.floor(now)
