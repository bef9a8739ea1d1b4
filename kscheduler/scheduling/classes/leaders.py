"""The rows with the most points of a class, kept while pods of that class arrive one after the other.

On a cluster of equal nodes thousands of rows are tied. To find them costs several passes over all rows, and between two
pods of a class the winner alone has changed: it is taken out in a few steps, and when a row comes up to the others, it
is put in. Their name hashes lie beside them, since it is these that break the tie. Rows are in no order.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows, Scores

Hashes = NDArray[np.uint64]

_ABSENT: Final = -1


class Leaders:
    """Of rows that pass, those with the most points. `settle` before the first `move`."""

    __slots__ = ("_count", "_hashes", "_most", "_place_of", "_rows", "shared_points")

    def __init__(self) -> None:
        self._count = 0
        """How many of the arrays' first entries count; 0 where nothing is known."""
        self._most = 0
        self.shared_points = 0
        """What every passing row has beside the points that are compared here."""
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._place_of: NDArray[np.int32] | None = None
        """By row its place in the other arrays; worked out with the first move, since often none follows."""

    @property
    def is_settled(self) -> bool:
        """Whether the leaders are known."""
        return self._count > 0

    @property
    def points(self) -> int:
        """What a leader has, all in all."""
        return self._most + self.shared_points

    @property
    def rows(self) -> Rows:
        """Who leads. Shared: do not write, and do not keep."""
        return self._rows[: self._count]

    @property
    def hashes(self) -> Hashes:
        """Their name hashes. Shared, likewise."""
        return self._hashes[: self._count]

    @property
    def bytes(self) -> int:
        """What its arrays take."""
        places = 0 if self._place_of is None else self._place_of.nbytes
        return self._rows.nbytes + self._hashes.nbytes + places

    def forget(self) -> None:
        """Too much has changed."""
        self._count = 0

    def settle(self, passing: Rows, points: Scores, hashes: Hashes) -> None:
        """Find them. `points` are those of the passing rows, of which there is one; `hashes` are by row."""
        most = points.argmax()
        self._most = points.item(most)
        self._rows = passing.take((points == self._most).nonzero()[0])
        self._hashes = hashes.take(self._rows)
        self._count = len(self._rows)
        self._place_of = None

    def move(self, row: int, points: int | None, hashes: Hashes) -> None:
        """A row has so many points now; `None`: it does not pass."""
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
            self.forget()  # who gave room leads now, most often alone: not worth keeping up with
        elif place == _ABSENT:
            self._put_in(row, self._place_of, hashes)

    def _take_out(self, row: int, place_of: NDArray[np.int32]) -> None:
        """The last one takes its place."""
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
