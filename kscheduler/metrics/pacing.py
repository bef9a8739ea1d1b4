"""Makes a computing thread give way to the event loop.

The problem: a computing thread keeps the interpreter lock for the switch interval of 5 ms each time the loop wants to
go on; while ten thousand lines are rendered every turn of the loop is 5 ms late, and some are 20. The idea: the thread
sleeps briefly after each millisecond of work, so that the loop finds the lock free. Measured by
`benchmarks/exposition.py`. Limit: if the loop never rests, each pause lasts for the loop's own 5 ms, so a rendering of
70 ms takes half a second; a scraper's timeout is ten seconds.
"""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

_WORK_SECONDS = 0.001
_PAUSE_SECONDS = 0.00005
"""Long enough for a waiting loop to wake up and take the lock; a pause of 0 is too short."""
_STEP = 16


class Pace:
    """Pauses a piece of work in a thread."""

    def __init__(self) -> None:
        self._pause_at = time.perf_counter() + _WORK_SECONDS

    def step(self) -> None:
        """Pause if it is time; to be called every few microseconds of work."""
        if time.perf_counter() >= self._pause_at:
            time.sleep(_PAUSE_SECONDS)
            self._pause_at = time.perf_counter() + _WORK_SECONDS


class PacedList(list[T]):
    """A list that pauses while it is iterated, as prometheus-client's encoders do with a family's samples."""

    def __init__(self, items: Iterable[T], pace: Pace) -> None:
        super().__init__(items)
        self._pace = pace

    def __iter__(self) -> Iterator[T]:
        for number, item in enumerate(super().__iter__()):
            if number % _STEP == 0:
                self._pace.step()
            yield item
