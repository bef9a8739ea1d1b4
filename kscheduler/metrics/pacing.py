"""Makes a thread that computes in Python give way to the event loop.

The problem: a thread that computes keeps the interpreter lock for the switch interval, 5 ms, each time the loop wants
to go on; while ten thousand lines are rendered every turn of the loop is 5 ms late, and some are 20. The idea: the
thread sleeps for a moment after each millisecond of work, and the loop finds the lock free. Measured by
`benchmarks/exposition.py`. Limit: with a loop that never rests, each pause lasts until the loop's own 5 ms are over, so
that a rendering of 70 ms takes half a second; a scraper waits ten.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_WORK_SECONDS = 0.001
_PAUSE_SECONDS = 0.00005
"""Long enough that a waiting loop wakes up and takes the lock; a pause of 0 is over before that."""
_STEP = 16


class Pace:
    """Tells one piece of work in one thread when to pause."""

    def __init__(self) -> None:
        self._pause_at = time.perf_counter() + _WORK_SECONDS

    def step(self) -> None:
        """Pause if it is time; call it every few microseconds of work."""
        if time.perf_counter() >= self._pause_at:
            time.sleep(_PAUSE_SECONDS)
            self._pause_at = time.perf_counter() + _WORK_SECONDS


class PacedList(list[T]):
    """A list that pauses while it is iterated over: prometheus-client's encoders go over a family's samples."""

    def __init__(self, items: Iterable[T], pace: Pace) -> None:
        super().__init__(items)
        self._pace = pace

    def __iter__(self) -> Iterator[T]:
        for number, item in enumerate(super().__iter__()):
            if number % _STEP == 0:
                self._pace.step()
            yield item
