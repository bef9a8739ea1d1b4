"""Which rows have changed since somebody looked: a list of row numbers, appended to with each change.

Whoever keeps something per row remembers a position in the log, and works out anew only the rows that stand behind it.
Limit: the log forgets its older half when it is full; who comes too late must look at every row.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_LONGEST: Final = 65_536

_NONE: Final[NDArray[np.intp]] = np.zeros(0, dtype=np.intp)


class ChangeLog:
    """Changed rows, in order of the changes."""

    __slots__ = ("_forgotten", "_last", "_longest", "_rows")

    def __init__(self, longest: int = _LONGEST) -> None:
        self._rows: list[int] = []
        self._forgotten = 0
        self._longest = longest
        self._last: tuple[int, int, NDArray[np.intp]] = -1, -1, _NONE
        """The last answer: from where, to where, and which rows. Those who ask together ask the same."""

    @property
    def position(self) -> int:
        """How many changes there have been."""
        return self._forgotten + len(self._rows)

    def append(self, row: int) -> None:
        """A row has changed."""
        self._rows.append(row)
        if len(self._rows) > self._longest:
            forgotten = len(self._rows) // 2
            del self._rows[:forgotten]
            self._forgotten += forgotten

    def since(self, position: int) -> NDArray[np.intp] | None:
        """The rows changed after that position, ascending, each once; `None` where the log does not reach so far.

        Shared: do not write.
        """
        if self._last[:2] == (position, self.position):
            return self._last[2]
        start = position - self._forgotten
        if start < 0:
            return None
        rows = self._rows[start:]
        if len(rows) > 1:
            rows = sorted(set(rows))
        changed = np.array(rows, dtype=np.intp) if rows else _NONE
        self._last = position, self.position, changed
        return changed
