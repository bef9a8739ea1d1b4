"""Columns at some rows, as fast as numpy can.

Most calls are about all rows or a single row: then a slice avoids the copy. Otherwise `take` is twice as fast as an
index.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows

T = TypeVar("T", bound=np.generic)


def compact(rows: Rows) -> slice | Rows:
    """The same rows as an index: a slice for a single row or for 0, 1, 2 ... without a gap. Do not write to views."""
    size = len(rows)
    if size == 1:
        row = rows.item()
        return slice(row, row + 1)
    return slice(0, size) if size and rows[-1] == size - 1 else rows


def values_at(column: NDArray[T], where: slice | Rows) -> NDArray[T]:
    """A column at the index that `compact` returned: an entry per row, perhaps a view."""
    return column[where] if isinstance(where, slice) else column.take(where)


def taken(column: NDArray[T], rows: Rows) -> NDArray[T]:
    """A column at the rows, as a new array in the shape of `rows`."""
    where = compact(rows)
    return column[where].copy() if isinstance(where, slice) else column.take(where)


def side_by_side(columns: NDArray[T], at: Sequence[int], where: slice | Rows) -> NDArray[T]:
    """Some of the columns at some rows: [column, row], perhaps a view. The first columns take a single operation."""
    if list(at) != list(range(len(at))):
        return np.array([values_at(columns[place], where) for place in at], dtype=columns.dtype)
    return columns[: len(at), where] if isinstance(where, slice) else columns[: len(at)].take(where, axis=1)
