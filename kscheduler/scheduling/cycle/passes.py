"""Calling some plugins of a profile one after the other: PreFilter, PreScore and Score.

`PlainEvaluator` passes all plugins of a point, `ClassEvaluator` only the live ones. The pass over the filters is here
because dry runs use it, too.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import partial

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import NOT_EVALUATED, SKIPPED, FilterPlugin, PreFilterPlugin, PreScorePlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SKIP, SUCCESS, Code, Status, unresolvable
from kscheduler.scheduling.cycle.evaluator import CycleInputs, PreFiltered
from kscheduler.scheduling.cycle.nominations import rows_with_nominated
from kscheduler.scheduling.profile import WeightedScore
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.cycle_calls import (
    call_filter,
    call_pre_filter,
    call_pre_score,
    call_score_and_normalize,
)
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.partial_results import codes_after, points_after, report
from kscheduler.scheduling.runtime.status_text import not_evaluated, split_rows
from kscheduler.scheduling.runtime.timing import CallTimer


def pre_filter_pass(
    plugins: Iterable[PreFilterPlugin], inputs: CycleInputs, state: CycleState, skipped: set[str]
) -> PreFiltered:
    """PreFilter; an unresolvable rejection ends it at once, a resolvable one after all plugins have run (Q18).

    Plugins that skip are added to `skipped`. Raises `PluginFailure`.
    """
    # `names` is the intersection of what the plugins allow; it stays `None` until one of them names nodes.
    remembered = SUCCESS
    names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    for plugin in plugins:
        result = call_pre_filter(plugin, state, inputs.pod, inputs.nodes, inputs.stopwatch)
        if result is SKIPPED:  # most plugins have nothing to judge
            skipped.add(plugin.name)
            continue
        status = result.status
        if status.is_skip:
            skipped.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFiltered(status.by(plugin.name), skipped, names, narrowed_by)
        elif status.is_rejected:
            remembered = status.by(plugin.name)
        if result.node_names is not None:
            names = result.node_names if names is None else names & result.node_names
            narrowed_by = (*narrowed_by, plugin.name)
            if not names:
                return PreFiltered(_narrowed_to_nothing(narrowed_by), skipped, names, narrowed_by)
    return PreFiltered(remembered, skipped, names, narrowed_by)


def _narrowed_to_nothing(plugins: Sequence[str]) -> Status:
    plugins = sorted(set(plugins))
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}", plugin=plugins[0])
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously", plugin=plugins[-1])


def pre_score_pass(
    plugins: Iterable[PreScorePlugin], inputs: CycleInputs, state: CycleState, feasible: Rows
) -> set[str]:
    """PreScore; returns the names of the plugins that have nothing to score, or cannot.

    Raises `PluginFailure` for an in-tree plugin.
    """
    skipped: set[str] = set()
    for plugin in plugins:
        try:
            status = call_pre_score(plugin, state, inputs.pod, inputs.nodes, feasible, inputs.stopwatch)
        except PluginFailure as failure:
            profile = inputs.profile
            if profile.traits[plugin.name].is_in_tree:
                raise
            inputs.stopwatch.call_ended(failure.point, plugin.name, 0)
            none = np.zeros(len(feasible), dtype=np.bool_)
            inputs.leave_out(report(failure, profile.listener, inputs.pod, inputs.nodes, feasible, none))
            status = SKIP
        if status is SKIP or status.is_skip:
            skipped.add(plugin.name)
    return skipped


def score_pass(
    weighted_plugins: Iterable[WeightedScore],
    skipped: Collection[str],
    inputs: CycleInputs,
    state: CycleState,
    feasible: Rows,
) -> dict[str, PluginScores]:
    """Score, normalise and weigh: each plugin's final points, an int64 per feasible row.

    Raises `PluginFailure` for an in-tree plugin.
    """
    scores: dict[str, PluginScores] = {}
    for weighted in weighted_plugins:
        plugin, name = weighted.plugin, weighted.plugin.name
        if name not in skipped:
            traits = inputs.profile.traits[name]
            call = plugin, traits, state, inputs.pod, inputs.nodes, feasible
            try:
                points = call_score_and_normalize(*call, inputs.stopwatch)
            except PluginFailure as failure:
                if traits.is_in_tree:
                    raise
                points, left_out = points_after(failure, *call, inputs.profile.listener)
                inputs.stopwatch.call_ended(failure.point, name, 0)
                inputs.leave_out(left_out)
            scores[name] = PluginScores(name, weighted.weight, points * weighted.weight)
    return scores


# Running the filters of a profile for one pod: in the search for a node, and in dry runs.
#
# Filters run in the profile's order, each for the rows that have passed so far, so a node is charged to the first
# plugin that rejects it. A row with nominated pods is judged twice: with these pods and without them (see
# `nominations`).


class Filters:
    """A profile's filters for one pod, over the table of the cycle or a fork of it."""

    __slots__ = ("inputs", "skipped", "timer")

    def __init__(self, inputs: CycleInputs, skipped: Collection[str] = (), timer: CallTimer | None = None) -> None:
        self.inputs = inputs
        self.skipped = skipped
        """Plugins whose PreFilter said that their filter has nothing to judge."""
        self.timer = inputs.stopwatch if timer is None else timer

    def passing(
        self,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        """The rows that pass both with and without the pods nominated to them (intp, in the given order).

        The other rows are added to `rejections`, up to a failure. Raises `PluginFailure`.
        """
        if self.inputs.expected is not None:
            rows = self.with_nominated(plugins, nodes, state, rows, rejections)
        return self._filtered(plugins, nodes, state, rows, rejections)

    def with_nominated(
        self,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        """The rows where the pod still fits when the pods nominated to them count (intp, in the given order).

        The other rows are added to `rejections`. Raises `PluginFailure`, also where no row is left that can be judged.
        """
        expected = self.inputs.expected
        arrivals = None if expected is None else expected.among(rows)
        if arrivals is None:
            return rows
        remains: Mask | None = None
        undecided = 0
        for crowded in rows_with_nominated(self.inputs.profile, self.inputs.pod, nodes, state, arrivals, self.skipped):
            if crowded.failure is not None:
                undecided += len(crowded.rows)
                if undecided == len(rows):
                    raise crowded.failure
                passing = self._left_out(crowded.failure, crowded.rows, nodes, rows, rejections)
            else:
                passing = self._filtered(plugins, crowded.nodes, crowded.state, crowded.rows, rejections)
            if len(passing) < len(crowded.rows):
                if remains is None:
                    remains = np.ones(nodes.capacity, dtype=np.bool_)
                remains[crowded.rows] = False
                remains[passing] = True
        return rows if remains is None else rows.take(remains.take(rows).nonzero()[0])

    def _left_out(
        self, failure: PluginFailure, undecided: Rows, nodes: NodeTable, rows: Rows, rejections: list[Rejection]
    ) -> Rows:
        """Reject the rows that a user's plugin cannot judge, and report it; returns the rows that pass: none."""
        listener = self.inputs.profile.listener
        report(failure, listener, self.inputs.pod, nodes, rows, ~np.isin(rows, undecided))
        self.timer.call_ended(failure.point, failure.plugin, 0)
        codes = np.full(len(undecided), NOT_EVALUATED, dtype=np.int64)
        rejections.append(Rejection(failure.plugin, undecided, codes, partial(not_evaluated, failure.plugin)))
        return undecided[:0]

    def _filtered(
        self,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        skipped, pod, timer = self.skipped, self.inputs.pod, self.timer
        for plugin in plugins:
            if not len(rows):
                break
            if plugin.name not in skipped:
                try:
                    codes = call_filter(plugin, state, pod, nodes, rows, timer)
                except PluginFailure as failure:
                    codes = self.codes_after(failure, plugin, nodes, state, rows)
                    if codes is None:
                        raise
                if codes is not None:
                    rows = split_rows(plugin, codes, state, rows, rejections)
        return rows

    def codes_after(
        self, failure: PluginFailure, plugin: FilterPlugin, nodes: NodeTable, state: CycleState, rows: Rows
    ) -> Codes | None:
        """The codes of a user's filter that has failed for some of the rows; `None` if the failure ends the cycle."""
        profile = self.inputs.profile
        if profile.traits[plugin.name].is_in_tree:
            return None
        found = codes_after(failure, plugin, state, self.inputs.pod, nodes, rows, profile.listener)
        if found is None:
            return None
        self.timer.call_ended(failure.point, plugin.name, 0)
        return found.points
