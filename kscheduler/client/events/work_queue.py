"""client-go's work queue counts (arrivals, retries, waiting, working) for a queue of our own."""

from bisect import bisect_left
from itertools import accumulate, count, repeat
from operator import mul

import msgspec

# Upper bounds of workqueue_queue_duration_seconds and workqueue_work_duration_seconds: 10 ns to 10 s.
#
# Multiplied step by step as Prometheus' Go library does, so that each bound prints the same.
SECONDS_BUCKETS = tuple(accumulate(repeat(10, 9), mul, initial=10e-9))


class WorkQueueStatistics(msgspec.Struct, frozen=True):
    """A snapshot."""

    name: str
    depth: int
    adds: int
    retries: int
    waited: tuple[list[int], float]
    """Items by bucket of `SECONDS_BUCKETS` (not cumulative, the last without a bound), and the sum of seconds."""
    worked: tuple[list[int], float]
    unfinished_seconds: float
    """Seconds of all work in progress, added up."""
    longest_seconds: float
    """Seconds of the oldest work in progress."""


class WorkQueueCounts:
    """The counts of one queue, reported by the queue's owner. Times are monotonic seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.adds = self.retries = 0
        self._waited, self._waited_sum = [0] * (len(SECONDS_BUCKETS) + 1), 0.0
        self._worked, self._worked_sum = [0] * (len(SECONDS_BUCKETS) + 1), 0.0
        self._running: dict[int, float] = {}
        self._numbers = count()

    def begin(self, waited_seconds: float, now: float) -> int:
        """An item leaves the queue; returns a number for `end`."""
        waited_seconds = max(waited_seconds, 0.0)
        self._waited[bisect_left(SECONDS_BUCKETS, waited_seconds)] += 1
        self._waited_sum += waited_seconds
        number = next(self._numbers)
        self._running[number] = now
        return number

    def end(self, number: int, now: float) -> None:
        """The item has been handled."""
        seconds = now - self._running.pop(number)
        self._worked[bisect_left(SECONDS_BUCKETS, seconds)] += 1
        self._worked_sum += seconds

    def statistics(self, depth: int, now: float) -> WorkQueueStatistics:
        """A snapshot; `depth` is the number of waiting items."""
        since = [now - began for began in self._running.values()]
        return WorkQueueStatistics(
            self.name,
            depth,
            self.adds,
            self.retries,
            (self._waited.copy(), self._waited_sum),
            (self._worked.copy(), self._worked_sum),
            sum(since),
            max(since, default=0.0),
        )
