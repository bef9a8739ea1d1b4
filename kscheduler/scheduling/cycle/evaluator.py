"""What a cycle asks of its rows, and what it is told: the same questions to plugins one by one, and to columns.

    evaluator        how it finds out
    PlainEvaluator   asks each plugin about the rows that are still alive (`plain`)
    ClassEvaluator   reads what is kept of the pod's class, and asks only plugins of which nothing can be (`by_class`)

Both give the same answers, so a cycle does not know which of them it has; `fallback` says which it gets. An evaluator
is made for one decision and asked in the order of the methods. Neither of them writes to the record: each returns a
value, and the cycle takes it down. Nobody writes to these values; they are not frozen: that costs time for each.
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
from kscheduler.scheduling.runtime.timing import Stopwatch
from kscheduler.state.nominations.nominated_columns import Expected

NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(slots=True)
class CycleInputs:
    """What one decision is about."""

    profile: Profile
    pod: PodInfo
    nodes: NodeTable
    expected: Expected | None
    """Nominated pods that the pod must leave room for."""
    stopwatch: Stopwatch


@dataclass(slots=True)
class PreFiltered:
    """What PreFilter says of the pod."""

    status: Status
    """Success, or a rejection for all nodes."""
    skipped: Collection[str]
    """The plugins whose filter has nothing to judge."""
    node_names: frozenset[str] | None
    """The only nodes that can fit; `None` is no restriction."""
    narrowed_by: tuple[str, ...]
    """The plugins that named them."""


@dataclass(slots=True)
class Filtered:
    """What the filters say of some rows."""

    rows: Rows
    """Those that pass, in the order in which they were given; none after a failure. Shared: do not write."""
    rejections: list[Rejection]
    """Every other row, once, up to a failure. A class whose record need not tell all leaves them out if rows passed."""
    failure: PluginFailure | None = None
    """A plugin has failed, and nobody has reported it."""


@dataclass(slots=True)
class Priorities:
    """What the feasible rows have earned."""

    totals: Scores
    """Weighted points, one per feasible row; empty where `leaders` tells the best and nobody wants the rest."""
    by_plugin: tuple[PluginScores, ...]
    """The same by plugin, in the profile's order; empty where nobody wants them."""
    leaders: Leaders | None = None
    """The rows with the most points, where they are known without a look at all of them."""


class Evaluator(Protocol):
    """Judges the rows for one pod."""

    def pre_filtered(self, state: CycleState) -> PreFiltered:
        """Look at the pod, and prepare `state`, which is empty. Raises `PluginFailure`."""
        ...

    def filtered(self, state: CycleState, rows: Rows) -> Filtered:
        """Which of the rows the pod fits on, beside the pods nominated to them and without those."""
        ...

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """The same filters for PostFilter plugins, over rows as they might be.

        `expected_changes` tells where `CycleInputs.expected` may be another later.
        """
        ...

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """PreScore, Score, normalise and weigh the feasible rows, of which there is one. Raises `PluginFailure`."""
        ...
