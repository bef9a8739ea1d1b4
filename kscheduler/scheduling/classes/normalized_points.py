"""A plugin's normalised points for one class, kept as long as neither its column nor the feasible rows change.

A plugin that normalises mostly has no raw points for any node: no taint to avoid, no preferred affinity. If its raw
points are 0 on every row, and normalising reads nothing else, all rows get the same number, whichever are feasible.
"""

from dataclasses import dataclass

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.classes.class_columns import ScoreColumn
from kscheduler.scheduling.runtime.cycle_calls import call_normalize

_ONE_ZERO: Scores = np.zeros(1, dtype=np.int64)


@dataclass(slots=True)
class NormalizedPoints:
    """The normalised, weighted points of one column."""

    column: ScoreColumn
    weight: int
    _version: int = -1
    _feasible: Rows | None = None
    _points: Scores | None = None
    _of_zero: int | None = None
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
            if self._of_zero is None:
                points = call_normalize(column.plugin, column.traits, state, pod, feasible[:1], _ONE_ZERO.copy())
                self._of_zero = points.item() * self.weight
            return self._of_zero
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
