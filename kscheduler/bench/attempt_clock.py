"""Virtual time that passes by what was done, not by how long the machine took for it.

Counts of calls must be the same on a slow machine. With real time a slow machine gives the event loop more turns per
pod, flushes backoffs more often, and ends searches that a fast one finishes. Here an attempt takes a fixed time, and so
does a turn of the event loop while no pod is ready.
"""

import heapq
from typing import Final

from kscheduler.aio.clock import VirtualClock

# About what an attempt takes in real time: the event loop gets a turn after forty of them.
ATTEMPT_SECONDS: Final = 125e-6
IDLE_SECONDS: Final = 1e-3


class AttemptClock(VirtualClock):
    """A virtual clock that the player moves."""

    def passes(self, seconds: float) -> None:
        """Move time forward, and wake the sleepers whose time has come: they run in the event loop's next turn."""
        self._now += seconds
        while (deadline := self._next_deadline()) is not None and deadline <= self._now:
            _, _, future = heapq.heappop(self._sleepers)
            future.set_result(None)
