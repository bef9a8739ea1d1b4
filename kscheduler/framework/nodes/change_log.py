"""A log of changed rows: a list of row numbers, appended to with each change.

A reader that keeps values per row remembers its position in the log, and recomputes only the rows after it. Limit: the
log drops its older half when it is full; a reader whose position was dropped must look at every row.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_LONGEST: Final = 65_536
_SHORTEST: Final = 16

_NONE: Final[NDArray[np.intp]] = np.zeros(0, dtype=np.intp)


class ChangeLog:
    """Changed rows, in the order of the changes."""

    __slots__ = ("_kept", "_last", "_length", "_longest", "_rows", "position")

    def __init__(self, longest: int = _LONGEST) -> None:
        self._rows: NDArray[np.intp] = np.zeros(min(_SHORTEST, longest), dtype=np.intp)
        self._length = len(self._rows)
        self._kept = 0
        self.position = 0
        """The number of changes so far. Read at each use of each column, so it is no property."""
        self._longest = longest
        self._last: tuple[int, int, NDArray[np.intp]] = -1, -1, _NONE
        """The last result of `since`: from and to position, and the rows. Readers at the same position share it."""

    def lengthen(self, longest: int) -> None:
        """Keep at least this number of changes: the table has grown."""
        self._longest = max(self._longest, longest)

    def append(self, row: int) -> None:
        """Record that a row has changed."""
        if self._kept == self._length:
            self._make_room()
        self._rows[self._kept] = row
        self._kept += 1
        self.position += 1

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The rows changed after the position (intp, ascending, each once); `None` if the log no longer reaches back.

        Shared: do not write.
        """
        start = self._kept - (self.position - position)
        if start < 0:
            return None
        if self._last[0] != position or self._last[1] != self.position:
            self._last = position, self.position, _distinct(self._rows[start : self._kept])
        return self._last[2]

    def few_since(self, position: int, most: int) -> list[int] | None:
        """Like `since`, as a list of int; `None` also if there have been more than `most` changes."""
        count = self.position - position
        start = self._kept - count
        if start < 0 or count > most:
            return None
        if count == 1:  # as between two pods of the same class
            return [self._rows.item(start)]
        return sorted(set(self._rows[start : self._kept].tolist()))

    def _make_room(self) -> None:
        if len(self._rows) * 2 <= self._longest:
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._length = len(self._rows)
            return
        kept = self._kept // 2
        self._rows[:kept] = self._rows[self._kept - kept : self._kept].copy()
        self._kept = kept


def _distinct(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    rows = rows.copy()
    if len(rows) < 2:
        return rows
    rows.sort()
    is_first = rows[1:] != rows[:-1]
    return rows if np.count_nonzero(is_first) == len(is_first) else rows[np.concatenate([[True], is_first])]
