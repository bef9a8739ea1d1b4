"""Dense columns for what was asked lately, within a budget.

A column has an entry per row, so ten thousand of them over 20,000 nodes would take 2.6 GB. Nearly all entries are 0,
and the sparse counts are kept elsewhere: a column can be dropped at any time and made again.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from kscheduler.framework.topology import CountColumn

T = TypeVar("T")

BUDGET_BYTES = 256 * 2**20
"""For one collection of columns; at 20,000 nodes room for a thousand."""
_ENTRY_BYTES = 8


class RecentColumns(Generic[T]):
    """Columns by owner, the one asked last standing last. `on_dropped` hears of an owner that lost its column."""

    def __init__(self, budget_bytes: int, on_dropped: Callable[[T], None] | None = None) -> None:
        self._columns: dict[T, CountColumn] = {}
        self._on_dropped = on_dropped
        self._budget_bytes = budget_bytes

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[T]:
        return iter(self._columns)

    def use(self, owner: T) -> CountColumn | None:
        """An owner's column, which counts as a use of it."""
        column = self._columns.pop(owner, None)
        if column is not None:
            self._columns[owner] = column
        return column

    def keep(self, owner: T, column: CountColumn) -> None:
        """Keep a new column; those not used for longest make room."""
        most = max(1, self._budget_bytes // (_ENTRY_BYTES * len(column)))
        while len(self._columns) >= most:
            self.drop(next(iter(self._columns)))
        self._columns[owner] = column

    def drop(self, owner: T) -> None:
        """Forget a column, if there is one."""
        if self._columns.pop(owner, None) is not None and self._on_dropped is not None:
            self._on_dropped(owner)

    def count(self, owner: T, row: int, change: int) -> None:
        """Pods came to the row or left it; nothing to do where there is no column."""
        column = self._columns.get(owner)
        if column is not None:
            column[row] += change

    def clear(self, row: int) -> None:
        """Nothing is counted on the row."""
        for column in self._columns.values():
            column[row] = 0

    def grow(self, capacity: int) -> None:
        """The table has more rows now."""
        for owner, column in self._columns.items():
            self._columns[owner] = np.pad(column, (0, capacity - len(column)))
