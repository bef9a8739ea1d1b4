"""Judging a pod by itself: each plugin is called for the rows that have passed so far."""

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.cycle.dry_runs import dry_run
from kscheduler.scheduling.cycle.evaluator import NO_ROWS, CycleInputs, Filtered, PreFiltered, Priorities
from kscheduler.scheduling.cycle.filters import Filters
from kscheduler.scheduling.cycle.passes import pre_filter_pass, pre_score_pass, score_pass
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import PRE_SCORE, SCORE


class PlainEvaluator:
    """Calls every plugin of the profile. Implements `Evaluator`."""

    __slots__ = ("_filters", "_inputs")

    def __init__(self, inputs: CycleInputs) -> None:
        self._inputs = inputs
        self._filters = Filters(inputs)

    def pre_filtered(self, state: CycleState) -> PreFiltered:
        """Run PreFilter of all plugins."""
        found = pre_filter_pass(self._inputs.profile.pre_filter, self._inputs, state, set())
        self._filters.skipped = found.skipped
        return found

    def filtered(self, state: CycleState, rows: Rows) -> Filtered:
        """Run the filters, each for the rows that passed the ones before it."""
        rejections: list[Rejection] = []
        try:
            passing = self._filters.passing(self._inputs.profile.filter, self._inputs.nodes, state, rows, rejections)
        except PluginFailure as failure:
            return Filtered(NO_ROWS, rejections, failure)
        return Filtered(passing, rejections)

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """The filters for a dry run, without a row class: nothing is remembered about rows from one pod to the next."""
        return dry_run(self._filters, lambda: None, expected_changes)

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """Run PreScore and Score of all plugins and add up; in a profile without Score, each row has one point."""
        inputs = self._inputs
        skipped = pre_score_pass(inputs.profile.pre_score, inputs, state, feasible)
        inputs.stopwatch.lap(PRE_SCORE.label, SUCCESS)
        scores = score_pass(inputs.profile.score, skipped, inputs, state, feasible)
        totals = np.full(len(feasible), 0 if inputs.profile.score else 1, dtype=np.int64)
        for plugin_scores in scores.values():
            totals += plugin_scores.points
        inputs.stopwatch.lap(SCORE.label, SUCCESS)
        return Priorities(totals, tuple(scores.values()))
