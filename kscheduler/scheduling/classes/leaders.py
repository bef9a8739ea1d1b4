"""The leaders: the rows with the most points of a class, kept from one pod of the class to the next.

On a cluster of equal nodes thousands of rows are tied. Finding them costs several passes over all rows, but between two
pods of a class only the last winner has changed: it is removed in a few steps, and a row that reaches the same points
is added. The rows' name hashes are kept beside them, because they break ties. The rows are in no order.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows, Scores

Hashes = NDArray[np.uint64]

_ABSENT: Final = -1


class Leaders:
    """Those of the passing rows that have the most points. Call `settle` before the first `move`."""

    __slots__ = ("_count", "_hashes", "_most", "_place_of", "_rows", "shared_points")

    def __init__(self) -> None:
        self._count = 0
        """How many entries at the start of the arrays are in use; 0 if the leaders are not known."""
        self._most = 0
        self.shared_points = 0
        """Points that every passing row has in addition to those compared here."""
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._place_of: NDArray[np.int32] | None = None
        """Indexed by row number: the row's place in the other arrays. Made at the first move, because often there is
        none.
        """

    @property
    def is_settled(self) -> bool:
        """Whether the leaders are known."""
        return self._count > 0

    @property
    def points(self) -> int:
        """The total points of a leader."""
        return self._most + self.shared_points

    @property
    def rows(self) -> Rows:
        """The leaders: intp, in no order. Shared: do not write, and do not keep."""
        return self._rows[: self._count]

    @property
    def hashes(self) -> Hashes:
        """The name hashes of `rows`, in the same order: uint64. Shared: do not write, and do not keep."""
        return self._hashes[: self._count]

    @property
    def bytes(self) -> int:
        """The size of its arrays."""
        places = 0 if self._place_of is None else self._place_of.nbytes
        return self._rows.nbytes + self._hashes.nbytes + places

    def forget(self) -> None:
        """The leaders are not known any more: too much has changed."""
        self._count = 0

    def settle(self, passing: Rows, points: Scores, hashes: Hashes) -> None:
        """Find the leaders. `points`: an int64 per entry of `passing`, which must not be empty. `hashes`: indexed by
        row number.
        """
        most = points.argmax()
        self._most = points.item(most)
        self._rows = passing.take((points == self._most).nonzero()[0])
        self._hashes = hashes.take(self._rows)
        self._count = len(self._rows)
        self._place_of = None

    def move(self, row: int, points: int | None, hashes: Hashes) -> None:
        """A row has these points now; `None`: it does not pass any more."""
        # Invariant: the first `_count` entries of `_rows` are the leaders, and `_place_of` of exactly these rows is
        # their index in `_rows`; of all other rows it is `_ABSENT`.
        if not self._count:
            return
        if self._place_of is None:
            self._place_of = np.full(len(hashes), _ABSENT, dtype=np.int32)
            self._place_of[self._rows] = np.arange(self._count, dtype=np.int32)
        place = self._place_of.item(row)
        if points is None or points < self._most:
            if place != _ABSENT:
                self._take_out(row, self._place_of)
        elif points > self._most:
            self.forget()  # a row that gained points leads now, mostly alone: finding it again costs little
        elif place == _ABSENT:
            self._put_in(row, self._place_of, hashes)

    def _take_out(self, row: int, place_of: NDArray[np.int32]) -> None:
        """Remove a row: the last leader moves to its place."""
        self._count -= 1
        place, last = place_of.item(row), self._rows.item(self._count)
        self._rows[place], self._hashes[place] = last, self._hashes[self._count]
        place_of[last] = place
        place_of[row] = _ABSENT

    def _put_in(self, row: int, place_of: NDArray[np.int32], hashes: Hashes) -> None:
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(self._count, dtype=np.intp)])
            self._hashes = np.concatenate([self._hashes, np.zeros(self._count, dtype=np.uint64)])
        self._rows[self._count], self._hashes[self._count] = row, hashes[row]
        place_of[row] = self._count
        self._count += 1
