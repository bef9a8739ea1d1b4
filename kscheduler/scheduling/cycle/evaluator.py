"""The interface between the cycle and whatever judges the rows for it, with the values that pass between them.

    evaluator        how it judges
    PlainEvaluator   calls each plugin for the rows that have passed so far (`by_class`)
    ClassEvaluator   looks up what is kept for the pod's class, and calls only the other, live plugins (`by_class`)

Both give the same answers, so the cycle does not know which of them it has; `choosing_evaluator` decides that. An
evaluator is made for one decision, and its methods are called in the order below. It does not write to the record: it
returns values, and the cycle writes them down. Treat these values as read-only; they are not frozen only because that
would cost time in every cycle.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Status
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.partial_results import MissingPoints
from kscheduler.scheduling.runtime.timing import Stopwatch
from kscheduler.state.nominator import Expected

NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(slots=True)
class CycleInputs:
    """The inputs of one decision."""

    profile: Profile
    pod: PodInfo
    nodes: NodeTable
    expected: Expected | None
    """Nominated pods that the pod must leave room for; `None` if there are none."""
    stopwatch: Stopwatch
    within: Rows | None = None
    """The only rows that the pod may go to (intp, ascending): the placement of its group; `None`: all. Plugins that
    count pods count them on all rows."""
    left_out: list[MissingPoints] | None = None
    """The score plugins that gave no points to some nodes, or to none; `None`: there are none."""

    def leave_out(self, left_out: MissingPoints) -> None:
        """A score plugin has failed, perhaps for no node when it was asked again."""
        if left_out.nodes:
            self.left_out = [*(self.left_out or ()), left_out]

    @property
    def rows(self) -> Rows:
        """The rows that the pod may go to: intp, ascending."""
        return self.nodes.rows() if self.within is None else self.within


@dataclass(slots=True)
class PreFiltered:
    """The result of PreFilter."""

    status: Status
    """Success, or a rejection for all nodes."""
    skipped: Collection[str]
    """The plugins whose filter has nothing to judge."""
    node_names: frozenset[str] | None
    """The only nodes that can fit; `None` means all nodes."""
    narrowed_by: tuple[str, ...]
    """The plugins that named these nodes."""


@dataclass(slots=True)
class Filtered:
    """The result of the filters for some rows."""

    rows: Rows
    """The rows that pass (intp, in the given order); empty after a failure. Shared: do not write."""
    rejections: list[Rejection]
    """Every other row once, up to a failure. Judged by class, they may be left out if some rows pass."""
    failure: PluginFailure | None = None
    """The failure of a plugin, not reported yet."""


@dataclass(slots=True)
class Priorities:
    """The points of the feasible rows."""

    totals: Scores
    """Sums of weighted points, an int64 per feasible row; empty if `leaders` is enough."""
    by_plugin: tuple[PluginScores, ...]
    """The weighted points by plugin, in the profile's order; empty if no reader needs them."""
    leaders: Leaders | None = None
    """The rows with the most points, if they are known without comparing all rows."""


class Evaluator(Protocol):
    """Judges the rows for one pod."""

    def pre_filtered(self, state: CycleState) -> PreFiltered:
        """Run PreFilter; it fills `state`, which must be empty. Raises `PluginFailure`."""
        ...

    def filtered(self, state: CycleState, rows: Rows) -> Filtered:
        """Which of the rows the pod fits on, both with and without the pods nominated to them."""
        ...

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """The same filters for PostFilter plugins, over rows as they might be.

        `expected_changes` logs the rows whose nominated pods change later (`CycleInputs.expected`).
        """
        ...

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """PreScore, Score, normalise and weigh the feasible rows: at least one. Raises `PluginFailure`."""
        ...
