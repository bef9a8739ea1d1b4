"""How long to search for changes that would help a pod.

A search tries every change that may help, and what there is to try is the pod's own words: a pod with 3,000 labels in
its nodeSelector has 3,000 labels to drop, and 3,000 to write otherwise. So a search has two bounds:

    number   a pod of more entries than a decision is made for at once (`pod_weight.COSTLY`) gets no search at all:
             each trial of it costs about as much as the decision, and nobody reads a list of a thousand changes
    time     any other has some seconds of processor time; what was found until then is what there is

Both are reported for that pod only: its verdict is given as ever, and so are the changes for all others. Of many
searches for one answer each has its part of the time (`SharedTime`), whatever those before it have taken.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import Final

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import largest_parts

# For one pod or one group, where it alone is asked about: less than half of what a question of the service may take
# (`service.asking.query_errors.CopyLimits`), of which the rest is for the decision and for a machine that is busy.
SEARCH_SECONDS: Final = 4.0
# For all reasons of pending pods together, likewise.
MANY_SEARCHES_SECONDS: Final = 4.0


class SearchOverError(Exception):
    """The time of the search is up."""


class SearchTime:
    """The processor time of this thread that a search may take."""

    __slots__ = ("_clock", "_until", "left_off", "seconds")

    def __init__(self, seconds: float = SEARCH_SECONDS, clock: Callable[[], float] = thread_time) -> None:
        self.seconds, self._clock = seconds, clock
        self._until = clock() + seconds
        self.left_off = ""
        """Why changes may be missing, for the reader of the answer; empty: all were tried."""

    @property
    def is_up(self) -> bool:
        """Whether nothing more should be tried."""
        return self._clock() > self._until

    def check(self) -> None:
        """Called before each trial, where nothing is changed. Raises `SearchOverError`."""
        if self.is_up:
            raise SearchOverError

    def refuses(self, pod: PodInfo) -> bool:
        """Whether there is too much to try before anything is tried."""
        if pod.is_costly:
            self.left_off = f"{largest_parts(pod.pod)}: too much to look for changes that would help"
        return pod.is_costly

    @contextmanager
    def ending(self, pod: PodInfo) -> Iterator[None]:
        """Ends the body where the time is up."""
        try:
            yield
        except SearchOverError:
            shown = f"{self.seconds:.1f}".removesuffix(".0")
            why = f"was ended after {shown} s of processor time ({largest_parts(pod.pod)})"
            self.left_off = f"the search for changes that would help {why}: there may be others"


class SharedTime:
    """The time of several searches: each has at least its even part, and what those before it have left."""

    def __init__(self, searches: int, seconds: float = MANY_SEARCHES_SECONDS) -> None:
        self._searches, self._until = searches, thread_time() + seconds

    def part(self) -> SearchTime:
        """For the next search."""
        left, searches = self._until - thread_time(), max(self._searches, 1)
        self._searches -= 1
        return SearchTime(left / searches)
