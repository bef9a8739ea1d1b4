"""A plugin's normalised points of one class, kept for as long as neither its column nor the feasible rows move.

Most often a plugin that normalises has nothing to say of any node: no taint is unwelcome, no preference stated. If its
raw points are 0 on every row and it reads nothing but them, all rows get one number, whichever of them are feasible.
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
    """Those of one column."""

    column: ScoreColumn
    weight: int
    _version: int = -1
    _feasible: Rows | None = None
    _points: Scores | None = None
    _for_nothing: int | None = None
    """What a row gets for no raw points, where none has any."""
    _is_flat: bool | None = None
    _reads_points_only: bool = False

    def __post_init__(self) -> None:
        self._reads_points_only = self.column.traits.normalizes_points_only

    def at(self, pod: PodInfo, state: CycleState, feasible: Rows) -> Scores | int:
        """Of the feasible rows, weighted; one number if it is the same for all. Raises `PluginFailure`."""
        column = self.column
        if column.is_zero and self._reads_points_only:
            if self._for_nothing is None:
                points = call_normalize(column.plugin, column.traits, state, pod, feasible[:1], _ONE_ZERO.copy())
                self._for_nothing = points.item() * self.weight
            return self._for_nothing
        if self._points is None or self._version != column.version or not self._is_of(feasible):
            raw = column.points.take(feasible).astype(np.int64)
            self._points = call_normalize(column.plugin, column.traits, state, pod, feasible, raw) * self.weight
            self._version, self._is_flat = column.version, None
        self._feasible = feasible
        return self._points

    def _is_of(self, feasible: Rows) -> bool:
        known = self._feasible
        return feasible is known or (known is not None and np.array_equal(feasible, known))

    @property
    def bytes(self) -> int:
        """What its arrays take; the feasible rows are mostly the class's own."""
        return 0 if self._points is None else self._points.nbytes

    def is_flat(self, points: Scores | int) -> bool:
        """Whether what `at` gave is the same for all."""
        if isinstance(points, int):
            return True
        if self._is_flat is None:
            self._is_flat = bool((points == points[0]).all())
        return self._is_flat
