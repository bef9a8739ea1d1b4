"""Searches that take longer than a cycle may hold the event loop.

A cycle never awaits. A plugin whose Filter must search for longer than its budget leaves the rest of the search here
and ends the cycle with a `StatusError`. The caller then runs the rest in slices, beside other pods, and decides
again: the plugin finds what was worked out meanwhile. Where there is no budget (`explain`, dry runs), Filter searches
to its end.
"""

import time
from collections.abc import Callable
from typing import Protocol


class UnfinishedSearch(Protocol):
    """What is still to be searched before the pod can be decided about."""

    def run(self, seconds: float) -> bool:
        """Search for at most so long, from where it was left. Returns whether all is done."""
        ...


class SearchTimeBudget:
    """How long the searches of one cycle may take; a value of its `CycleState`."""

    __slots__ = ("_ends_at", "_now", "_seconds", "rest")

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        """`now`: monotonic seconds. In virtual time no search is long, so a simulation decides in one order always."""
        self._seconds = seconds
        self._now = now
        self._ends_at: float | None = None
        self.rest: UnfinishedSearch | None = None
        """What a plugin has left; `None`: the cycle's decision holds."""

    @property
    def has_begun(self) -> bool:
        """Whether there was anything to search."""
        return self._ends_at is not None

    @property
    def is_over(self) -> bool:
        """Whether the time is used up; it begins with the first question."""
        now = self._now()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        return now >= self._ends_at
