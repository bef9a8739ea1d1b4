"""Dense columns for recent queries, within a memory budget.

A column has an entry per row, so ten thousand of them over 20,000 nodes would take 2.6 GB. Nearly all entries are 0,
and the sparse counts are kept elsewhere: a column can be dropped at any time and rebuilt later.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.topology import CountColumn, DomainSums
from kscheduler.framework.nodes.node_table import NodeTable

T = TypeVar("T")
_ALL: Final = slice(None)

# For a collection of columns; at 20,000 nodes enough for a thousand.
BUDGET_BYTES = 256 * 2**20
_ENTRY_BYTES = 8
# A column's bytes besides its entries: the owner (a parsed selector), its entries in indexes, its sums.
_OWN_BYTES: Final = 2048
# For owners that are large themselves: a selector may have ten thousand requirements.
OWNERS_BYTES: Final = 8 * 2**20
_LIGHT_BYTES: Final = 4096
# The maximal total of entries in all sums by domain; beyond it all sums are dropped.
_MAX_SUMS: Final = 16 * 2**20 // _ENTRY_BYTES


@dataclass(slots=True)
class _Sums:
    """A column's sums by one label, and the state of the nodes that they hold for."""

    version: int
    sums: DomainSums


class RecentColumns(Generic[T]):
    """Columns by owner, the most recently used last. `on_dropped` is called with an owner that lost its column."""

    def __init__(
        self,
        budget_bytes: int,
        on_dropped: Callable[[T], None] | None = None,
        weigh: Callable[[T], int] = lambda _: 0,
    ) -> None:
        """`weigh`: the bytes of an owner, for owners that are never removed otherwise."""
        self._columns: dict[T, CountColumn] = {}
        self._on_dropped = on_dropped
        self._budget_bytes = budget_bytes
        self._weigh = weigh
        self._heavy: dict[T, int] = {}
        """The bytes of large owners, in the order in which they came."""
        self._heavy_bytes = 0
        self._sums: dict[int, dict[str, _Sums]] = {}
        """By a column's id and topology key; each column has an entry, which is empty until sums are needed."""
        self._entries = 0

    def __len__(self) -> int:
        return len(self._columns)

    def __iter__(self) -> Iterator[T]:
        return iter(self._columns)

    def use(self, owner: T) -> CountColumn | None:
        """An owner's column; counts as a use. `None` if there is none."""
        column = self._columns.pop(owner, None)
        if column is not None:
            self._columns[owner] = column
        return column

    def keep(self, owner: T, column: CountColumn, most_columns: int | None = None) -> None:
        """Keep a new column; the least recently used columns are dropped to make room.

        `most_columns`: the maximal number of columns besides the budget, for owners that are never removed otherwise.
        """
        most = max(1, self._budget_bytes // (_ENTRY_BYTES * len(column) + _OWN_BYTES))
        if most_columns is not None:
            most = min(most, most_columns)
        while len(self._columns) >= most:  # `most` is computed on each call, because columns grow with the table
            self.drop(next(iter(self._columns)))
        self._columns[owner] = column
        self._sums[id(column)] = {}
        weight = self._weigh(owner)
        if weight > _LIGHT_BYTES:
            self._heavy[owner] = weight
            self._heavy_bytes += weight
            while self._heavy_bytes > OWNERS_BYTES and len(self._heavy) > 1:  # the newest is in use
                self.drop(next(iter(self._heavy)))

    def by_domain(self, column: CountColumn, key: str, nodes: NodeTable) -> DomainSums | None:
        """A column's sums over the values of a label; `None` for a column that is not in this collection."""
        by_key = self._sums.get(id(column))
        if by_key is None:
            return None
        numbers, values = nodes.label_values(key, _ALL)
        known = by_key.get(key)
        if known is None or known.version != nodes.node_columns_version or known.sums.numbers.base is not numbers.base:
            known = by_key[key] = _Sums(nodes.node_columns_version, _summed(column, numbers, len(values)))
            self._entries += len(values)
            if self._entries > _MAX_SUMS:
                self._forget_sums()
        return known.sums

    def _forget_sums(self) -> None:
        self._entries = 0
        self._sums = {id(column): {} for column in self._columns.values()}

    def drop(self, owner: T) -> None:
        """Drop an owner's column, if there is one."""
        column = self._columns.pop(owner, None)
        if column is None:
            return
        del self._sums[id(column)]
        self._heavy_bytes -= self._heavy.pop(owner, 0)
        if self._on_dropped is not None:
            self._on_dropped(owner)

    def count(self, owner: T, row: int, change: int) -> None:
        """Add `change` pods on the row to the owner's column and sums, if there is a column."""
        column = self._columns.get(owner)
        if column is not None:
            column[row] += change
            for kept in self._sums[id(column)].values():
                kept.sums.count(row, change)

    def clear(self, row: int) -> None:
        """Set the row to 0 in all columns."""
        for column in self._columns.values():
            column[row] = 0
        self._forget_sums()

    def grow(self, capacity: int) -> None:
        """Extend all columns to the table's new capacity."""
        for owner, column in self._columns.items():
            self._columns[owner] = np.pad(column, (0, capacity - len(column)))
        self._forget_sums()


def _summed(column: CountColumn, numbers: NDArray[np.int32], size: int) -> DomainSums:
    sums = np.zeros(size, dtype=np.int64)
    counted = column.nonzero()[0]
    np.add.at(sums, numbers.take(counted), column.take(counted))
    return DomainSums(numbers, sums)
