"""The leaders: the rows with the most points of a class, kept from one pod of the class to the next.

On a cluster of equal nodes thousands of rows are tied. Finding them costs several passes over all rows, but between
two pods of a class only the last winner has changed: it is removed in a few steps, and a row that reaches the same
points is added. The rows' tie hashes (`NodeTable.tie_hash`) are kept beside them. The rows are in no order.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.classes.class_columns import ScoreColumn
from kscheduler.scheduling.runtime.cycle_calls import call_normalize

# A plugin's normalised points for one class, kept as long as neither its column nor the feasible rows change.
#
# A plugin that normalises mostly has no raw points for any node: no taint to avoid, no preferred affinity. If its raw
# points are 0 on every row, and normalising reads nothing else, all rows get the same number, whichever are feasible.

_ONE_ZERO: Scores = np.zeros(1, dtype=np.int64)


@dataclass(slots=True)
class NormalizedPoints:
    """The normalised, weighted points of one column."""

    column: ScoreColumn
    weight: int
    _version: int = -1
    _feasible: Rows | None = None
    _points: Scores | None = None
    of_zero: int | None = None
    """The normalised, weighted points of every row if all raw points are 0."""
    _is_flat: bool | None = None
    _reads_points_only: bool = False

    def __post_init__(self) -> None:
        self._reads_points_only = self.column.traits.normalizes_points_only

    def at(self, pod: PodInfo, state: CycleState, feasible: Rows) -> Scores | int:
        """Weighted points: an int64 per feasible row, or one number for all of them. Raises `PluginFailure`."""
        column = self.column
        if column.unanswered is not None:
            return self._among_answered(pod, state, feasible, column.unanswered)
        if column.is_zero and self._reads_points_only:
            if self.of_zero is None:
                points = call_normalize(column.plugin, column.traits, state, pod, feasible[:1], _ONE_ZERO.copy())
                self.of_zero = points.item() * self.weight
            return self.of_zero
        if self._points is None or self._version != column.version or not self._is_of(feasible):
            raw = column.points.take(feasible).astype(np.int64)
            self._points = call_normalize(column.plugin, column.traits, state, pod, feasible, raw) * self.weight
            self._version, self._is_flat = column.version, None
        self._feasible = feasible
        return self._points

    def _among_answered(self, pod: PodInfo, state: CycleState, feasible: Rows, unanswered: Rows) -> Scores:
        """The plugin has failed for some rows: they get no points, and do not count where the others are normalised."""
        column = self.column
        self._points, self._is_flat = None, None
        points = np.zeros(len(feasible), dtype=np.int64)
        places = np.flatnonzero(~np.isin(feasible, unanswered))
        if len(places):
            rows = feasible.take(places)
            raw = column.points.take(rows).astype(np.int64)
            points[places] = call_normalize(column.plugin, column.traits, state, pod, rows, raw) * self.weight
        return points

    def _is_of(self, feasible: Rows) -> bool:
        known = self._feasible
        return feasible is known or (known is not None and np.array_equal(feasible, known))

    @property
    def bytes(self) -> int:
        """The size of its arrays. The feasible rows are not counted: they are mostly shared with the class."""
        return 0 if self._points is None else self._points.nbytes

    def is_flat(self, points: Scores | int) -> bool:
        """Whether the result of `at` is the same for all rows."""
        if isinstance(points, int):
            return True
        if self._is_flat is None:
            self._is_flat = bool((points == points[0]).all())
        return self._is_flat


# As `NodeTable.tie_hash` has them: for `mix_of_folded` and `highest_mix`, not for `mix`.
Hashes = NDArray[np.uint64]

_ABSENT: Final = -1


class Leaders:
    """Those of the passing rows that have the most points. Call `settle` before the first `move`."""

    __slots__ = ("_hashes", "_place_of", "_rows", "count", "most", "shared_points")

    def __init__(self) -> None:
        self.count = 0
        """How many entries at the start of the arrays are in use; 0 if the leaders are not known."""
        self.most = 0
        """The points compared here that each leader has."""
        self.shared_points = 0
        """Points that every passing row has in addition to those compared here."""
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._hashes: Hashes = np.zeros(0, dtype=np.uint64)
        self._place_of: NDArray[np.int32] | None = None
        """Indexed by row number: the row's place in the other arrays. Made at the first move, because often there is
        none.
        """

    @property
    def points(self) -> int:
        """The total points of a leader."""
        return self.most + self.shared_points

    @property
    def rows(self) -> Rows:
        """The leaders: intp, in no order. Shared: do not write, and do not keep."""
        return self._rows[: self.count]

    @property
    def hashes(self) -> Hashes:
        """The tie hashes of `rows`, in the same order: uint64. Shared: do not write, and do not keep."""
        return self._hashes[: self.count]

    @property
    def bytes(self) -> int:
        """The size of its arrays."""
        places = 0 if self._place_of is None else self._place_of.nbytes
        return self._rows.nbytes + self._hashes.nbytes + places

    def forget(self) -> None:
        """The leaders are not known any more: too much has changed."""
        self.count = 0

    def settle(self, passing: Rows, points: Scores, hashes: Hashes) -> None:
        """Find the leaders. `points`: an int64 per entry of `passing`, which must not be empty. `hashes`: tie
        hashes, indexed by row number.
        """
        most = points.argmax()
        self.most = points.item(most)
        self._rows = passing.take((points == self.most).nonzero()[0])
        self._hashes = hashes.take(self._rows)
        self.count = len(self._rows)
        self._place_of = None

    def move(self, row: int, points: int | None, hashes: Hashes) -> None:
        """A row has these points now; `None`: it does not pass any more."""
        # Invariant: the first `count` entries of `_rows` are the leaders, and `_place_of` of exactly these rows is
        # their index in `_rows`; of all other rows it is `_ABSENT`.
        if not self.count:
            return
        if self._place_of is None:
            self._place_of = np.full(len(hashes), _ABSENT, dtype=np.int32)
            self._place_of[self._rows] = np.arange(self.count, dtype=np.int32)
        place = self._place_of.item(row)
        if points is None or points < self.most:
            if place != _ABSENT:
                self._take_out(row, self._place_of)
        elif points > self.most:
            self._lead_alone(row, points, self._place_of, hashes)
        elif place == _ABSENT:
            self._put_in(row, self._place_of, hashes)

    def _lead_alone(self, row: int, points: int, place_of: NDArray[np.int32], hashes: Hashes) -> None:
        """A row has more points than all others."""
        place_of[self.rows] = _ABSENT
        self._rows[0], self._hashes[0], place_of[row] = row, hashes[row], 0
        self.count, self.most = 1, points

    def _take_out(self, row: int, place_of: NDArray[np.int32]) -> None:
        """Remove a row: the last leader moves to its place."""
        self.count -= 1
        place, last = place_of.item(row), self._rows.item(self.count)
        self._rows[place], self._hashes[place] = last, self._hashes[self.count]
        place_of[last] = place
        place_of[row] = _ABSENT

    def _put_in(self, row: int, place_of: NDArray[np.int32], hashes: Hashes) -> None:
        if self.count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros(self.count, dtype=np.intp)])
            self._hashes = np.concatenate([self._hashes, np.zeros(self.count, dtype=np.uint64)])
        self._rows[self.count], self._hashes[self.count] = row, hashes[row]
        place_of[row] = self.count
        self.count += 1
