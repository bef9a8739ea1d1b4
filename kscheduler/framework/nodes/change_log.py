"""Which rows have changed since somebody looked: a list of row numbers, appended to with each change.

Whoever keeps something per row remembers a position in the log, and works out anew only the rows that stand behind it.
Limit: the log forgets its older half when it is full; who comes too late must look at every row.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_LONGEST: Final = 65_536
_SHORTEST: Final = 16

_NONE: Final[NDArray[np.intp]] = np.zeros(0, dtype=np.intp)


class ChangeLog:
    """Changed rows, in order of the changes."""

    __slots__ = ("_forgotten", "_kept", "_last", "_longest", "_rows")

    def __init__(self, longest: int = _LONGEST) -> None:
        self._rows: NDArray[np.intp] = np.zeros(min(_SHORTEST, longest), dtype=np.intp)
        self._kept = 0
        self._forgotten = 0
        self._longest = longest
        self._last: tuple[int, int, NDArray[np.intp]] = -1, -1, _NONE
        """The last answer: from where, to where, and which rows. Those who ask together ask the same."""

    def lengthen(self, longest: int) -> None:
        """There is more that can change: keep so many changes."""
        self._longest = max(self._longest, longest)

    @property
    def position(self) -> int:
        """How many changes there have been."""
        return self._forgotten + self._kept

    def append(self, row: int) -> None:
        """A row has changed."""
        if self._kept == len(self._rows):
            self._make_room()
        self._rows[self._kept] = row
        self._kept += 1

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The rows changed after that position, ascending, each once; `None` where the log does not reach so far.

        Shared: do not write.
        """
        start = position - self._forgotten
        if start < 0:
            return None
        if self._last[0] != position or self._last[1] != self.position:
            self._last = position, self.position, _distinct(self._rows[start : self._kept])
        return self._last[2]

    def few_since(self, position: int, most: int) -> list[int] | None:
        """As `since`, as plain numbers; `None` also where there have been more than so many changes."""
        start = position - self._forgotten
        count = self._kept - start
        if start < 0 or count > most:
            return None
        if count == 1:  # between two pods of one class
            return [self._rows.item(start)]
        return sorted(set(self._rows[start : self._kept].tolist()))

    def _make_room(self) -> None:
        if len(self._rows) * 2 <= self._longest:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            return
        kept = self._kept // 2
        self._rows[:kept] = self._rows[self._kept - kept : self._kept].copy()
        self._forgotten += self._kept - kept
        self._kept = kept


def _distinct(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    rows = rows.copy()
    if len(rows) < 2:
        return rows
    rows.sort()
    is_first = rows[1:] != rows[:-1]
    return rows if np.count_nonzero(is_first) == len(is_first) else rows[np.concatenate([[True], is_first])]
