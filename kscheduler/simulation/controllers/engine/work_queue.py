"""The objects to reconcile, now and later; without I/O and clock.

An object is queued once, however many events concern it. After a refused plan it comes back with a growing delay, as
with kube-controller-manager's rate limiter: 10 ms doubled with each failure, 60 s at most.
"""

import heapq
from datetime import datetime, timedelta

from kscheduler.simulation.objects.store import Key

Item = tuple[str, Key]
"""(name of the controller, key of the object)."""

_FIRST_RETRY_SECONDS = 0.01
_LAST_RETRY_SECONDS = 60.0
_DOUBLINGS = 16


class WorkQueue:
    """Items in the order of their first event."""

    def __init__(self) -> None:
        self._ready: dict[Item, None] = {}
        self._later: list[tuple[datetime, Item]] = []
        self._due: dict[Item, datetime] = {}
        self._failures: dict[Item, int] = {}

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, item: Item) -> None:
        """Queue an item; it keeps its place if it is queued already."""
        self._ready[item] = None

    def add_after(self, item: Item, moment: datetime) -> None:
        """Queue an item at `moment`; of several moments the earliest counts."""
        known = self._due.get(item)
        if known is None or moment < known:
            self._due[item] = moment
            heapq.heappush(self._later, (moment, item))

    def pop(self) -> Item | None:
        """The next item."""
        if not self._ready:
            return None
        item = next(iter(self._ready))
        del self._ready[item]
        return item

    def failed(self, item: Item, now: datetime) -> None:
        """The item's plan was refused: queue it again with a delay."""
        count = self._failures[item] = self._failures.get(item, 0) + 1
        delay = min(_FIRST_RETRY_SECONDS * 2.0 ** min(count - 1, _DOUBLINGS), _LAST_RETRY_SECONDS)
        self.add_after(item, now + timedelta(seconds=delay))

    def succeeded(self, item: Item) -> None:
        """The item's plan was executed: forget its failures."""
        self._failures.pop(item, None)

    def wake(self, now: datetime) -> None:
        """Queue the items that are due."""
        while self._later and self._later[0][0] <= now:
            moment, item = heapq.heappop(self._later)
            if self._due.get(item) == moment:
                del self._due[item]
                self._ready[item] = None

    def next_due(self) -> datetime | None:
        """When the next item is due; None means never."""
        while self._later and self._due.get(self._later[0][1]) != self._later[0][0]:
            heapq.heappop(self._later)
        return self._later[0][0] if self._later else None
