"""Columns at some rows, as fast as numpy can.

Most often all rows are asked about, or one: a slice copies nothing then. Otherwise `take` is twice as fast as an index.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows

T = TypeVar("T", bound=np.generic)


def compact(rows: Rows) -> slice | Rows:
    """The same rows as an index that copies nothing for 0, 1, 2 ... without a gap, or one row. Views: do not write."""
    size = len(rows)
    if size == 1:
        row = rows.item()
        return slice(row, row + 1)
    return slice(0, size) if size and rows[-1] == size - 1 else rows


def values_at(column: NDArray[T], where: slice | Rows) -> NDArray[T]:
    """A column at what `compact` gave."""
    return column[where] if isinstance(where, slice) else column.take(where)


def taken(column: NDArray[T], rows: Rows) -> NDArray[T]:
    """The rows of a column, as an array of the caller's own."""
    where = compact(rows)
    return column[where].copy() if isinstance(where, slice) else column.take(where)


def side_by_side(columns: NDArray[T], at: Sequence[int], where: slice | Rows) -> NDArray[T]:
    """Some of the columns, as `values_at` gives them: [column, row]. Neighbours are taken in one operation."""
    if list(at) != list(range(len(at))):
        return np.array([values_at(columns[one], where) for one in at], dtype=columns.dtype)
    return columns[: len(at), where] if isinstance(where, slice) else columns[: len(at)].take(where, axis=1)
