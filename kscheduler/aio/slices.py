"""Splits long work into short slices, so that watches, binds and probes get their turn on the event loop."""

import asyncio
import time


class Slicer:
    """Says when a slice of work is used up; `await turn()` then lets the event loop run once.

    It measures real time on purpose: a virtual clock stands still while the loop is blocked for real.
    """

    __slots__ = ("_ends_at", "_seconds")

    def __init__(self, seconds: float = 0.005) -> None:
        self._seconds = seconds
        self._ends_at = time.perf_counter() + seconds

    def begin(self) -> None:
        """Begin a new slice: the work has just waited for something."""
        self._ends_at = time.perf_counter() + self._seconds

    def used_up(self) -> bool:
        """Whether the slice is over."""
        return time.perf_counter() >= self._ends_at

    async def turn(self) -> None:
        """Let others run, then begin a new slice."""
        await asyncio.sleep(0)
        self.begin()
