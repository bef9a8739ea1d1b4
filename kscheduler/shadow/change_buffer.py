"""Changes on their way from the watches to the shadow's view, kept back for a moment and put in order.

Watches of different kinds are separate streams, so a node's change and a pod's may arrive in another order than they
were written. And bindings that were decided earlier may be written later. So a change waits for `settle_seconds`: by
then what was written before it has arrived, and what follows it closely can be looked at (`ahead`) while it is judged.
The order is that of resource versions, which one etcd gives to all kinds that a scheduler reads. A version that is no
number, or that is missing (an object that is gone from a new list), counts as the newest.
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject

# Beyond that, the oldest is played without waiting: memory stays bounded, some differences lack their order.
MAX_CHANGES: Final = 50_000
_COMPACTED_AT: Final = 4_096


@dataclass(frozen=True, slots=True, eq=False)
class BufferedChange:
    """An object that has appeared, changed or gone."""

    version: int
    """The resource version of the write."""
    number: int
    """In the order of arrival."""
    kind: Kind
    old: KubeObject | None
    new: KubeObject | None
    arrived: float
    """Monotonic seconds."""

    @property
    def key(self) -> str:
        """Of the object."""
        found = self.new if self.new is not None else self.old
        return "" if found is None else found.key


class ChangeBuffer:
    """Changes in order, the oldest first."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle = settle_seconds
        self._changes: list[BufferedChange] = []
        self._first = 0
        """Those before it are played."""
        self._newest = 0
        self._count = 0

    def __len__(self) -> int:
        return len(self._changes) - self._first

    def add(
        self, kind: Kind, old: KubeObject | None, new: KubeObject | None, version: str, now: float
    ) -> BufferedChange:
        """A change has arrived."""
        number = int(version) if version.isdecimal() else self._newest
        self._newest = max(self._newest, number)
        self._count += 1
        change = BufferedChange(number, self._count, kind, old, new, now)
        insort(self._changes, change, lo=self._first, key=_place)
        return change

    def next_in(self, now: float) -> float | None:
        """Seconds until the oldest may be played, 0 if it may; `None`: there is none."""
        if not len(self):
            return None
        if len(self) > MAX_CHANGES:
            return 0.0
        return max(0.0, self._changes[self._first].arrived + self._settle - now)

    def pop(self) -> BufferedChange:
        """The oldest. Raises `IndexError` if there is none."""
        change = self._changes[self._first]
        self._first += 1
        if self._first >= _COMPACTED_AT and self._first * 2 >= len(self._changes):
            del self._changes[: self._first]
            self._first = 0
        return change

    def ahead(self, most: int) -> Iterator[BufferedChange]:
        """Those that come next, at most so many."""
        return islice(self._changes, self._first, self._first + most)

    def behind_seconds(self, now: float) -> float:
        """By how much the oldest is overdue: the time that is lost beyond `settle_seconds`."""
        return max(0.0, now - self._changes[self._first].arrived - self._settle) if len(self) else 0.0


def _place(change: BufferedChange) -> tuple[int, int]:
    return change.version, change.number
