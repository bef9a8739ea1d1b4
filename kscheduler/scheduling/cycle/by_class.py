"""Judging a pod by its class: columns hold verdicts and points, and only live plugins are called.

A live plugin is one whose answers cannot be kept in a column (spread, affinity, volumes). It is called at its place
in the profile for the rows that have passed so far, exactly as it would be without columns. Rows with nominated pods
are judged by calling all plugins, on a fork of the table.
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import Codes, Rows, Scores
from kscheduler.framework.plugin import UNSIGNABLE, FilterPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.classes.known_class import FilterStep, KnownClass, Repeat
from kscheduler.scheduling.cycle.dry_runs import dry_run
from kscheduler.scheduling.cycle.evaluator import NO_ROWS, CycleInputs, Filtered, PreFiltered, Priorities
from kscheduler.scheduling.cycle.passes import Filters, pre_filter_pass, pre_score_pass, score_pass
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.cycle_calls import call_filter
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import PRE_SCORE, SCORE
from kscheduler.scheduling.runtime.sign_calls import or_without_class, signatures_of, signer_of

# Judging a pod by itself: each plugin is called for the rows that have passed so far.


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


_NO_TOTALS: Final[Scores] = np.zeros(0, dtype=np.int64)


class ClassEvaluator:
    """Judges rows by what is known of the pod's class, which must be up to date. Implements `Evaluator`.

    If `pre_filtered` rejects the pod or restricts the nodes, use a `PlainEvaluator`: columns are about all nodes.
    """

    __slots__ = ("_inputs", "_repeat", "_skipped", "known")

    def __init__(self, inputs: CycleInputs, known: KnownClass, repeat: Repeat | None = None) -> None:
        """`repeat`: the live plugins that it calls idle are not called."""
        self._inputs = inputs
        self._repeat = repeat
        self.known = known
        self._skipped: Collection[str] = ()

    def pre_filtered(self, state: CycleState) -> PreFiltered:
        """Call the live plugins; the others have accepted pods of this class, and their prepared state is kept."""
        known, repeat = self.known, self._repeat
        state.take(known.states)
        if repeat is None:
            found = pre_filter_pass(known.live_pre_filter, self._inputs, state, set(known.skipped))
        else:
            found = pre_filter_pass(repeat.live_pre_filter, self._inputs, state, set(repeat.skipped))
        self._skipped = found.skipped
        return found

    def filtered(self, state: CycleState, rows: Rows) -> Filtered:
        """Look up in the columns which rows pass, and call the live plugins for these."""
        known, nodes = self.known, self._inputs.nodes
        rejections: list[Rejection] = []
        judged: list[FilterStep] = []
        try:
            if self._inputs.expected is not None:
                filters = Filters(self._inputs, self._skipped)
                rows = filters.with_nominated(self._inputs.profile.filter, nodes, state, rows, rejections)
            passing = known.passing(nodes, rows, partial(self._call_live_filter, state), judged)
        except PluginFailure as failure:
            _add_rejections(judged, state, rejections)
            return Filtered(NO_ROWS, rejections, failure)
        if known.reports_all or not len(passing):
            _add_rejections(judged, state, rejections)
        return Filtered(passing, rejections)

    def _call_live_filter(self, state: CycleState, plugin: FilterPlugin, rows: Rows) -> Codes | None:
        if plugin.name in self._skipped:
            return None
        inputs = self._inputs
        try:
            return call_filter(plugin, state, inputs.pod, inputs.nodes, rows, inputs.stopwatch)
        except PluginFailure as failure:
            codes = Filters(inputs, self._skipped).codes_after(failure, plugin, inputs.nodes, state, rows)
            if codes is None:
                raise
            return codes

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """All plugins are called: in a dry run, rows differ from what the columns know."""
        return dry_run(Filters(self._inputs, self._skipped), self._row_class, expected_changes)

    def _row_class(self) -> Hashable | None:
        """The signatures of the filters, if all of them read nothing but the row; else `None`."""
        inputs, skipped = self._inputs, self._skipped
        traits, listener = inputs.profile.traits, inputs.profile.listener
        plugins = [plugin for plugin in inputs.profile.filter if plugin.name not in skipped]
        if not all(traits[plugin.name].is_matter_of_row for plugin in plugins):
            return None
        signers = [signer_of(plugin, traits[plugin.name], listener) for plugin in plugins]
        signatures = or_without_class(signatures_of, signers, inputs.pod)
        if signatures is None or UNSIGNABLE in signatures:
            return None
        names = tuple(plugin.name for plugin in plugins)
        if all(traits[plugin.name].reads_spec_only for plugin in plugins):
            return names, signatures
        return names, signatures, inputs.pod.namespace, frozenset(inputs.pod.labels.items())

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """Add up the points of columns and live plugins. If only columns score, the best rows may be known already."""
        inputs, known, repeat = self._inputs, self.known, self._repeat
        skipped: AbstractSet[str]
        if repeat is None:
            skipped = pre_score_pass(known.live_pre_score, inputs, state, feasible)
        else:
            skipped = pre_score_pass(repeat.live_pre_score, inputs, state, feasible) | repeat.idle
        inputs.stopwatch.lap(PRE_SCORE.label, SUCCESS)
        for column, _ in known.scores:
            if column.left_out is not None:
                inputs.leave_out(column.left_out)
        if not known.reports_all:
            traits = inputs.profile.traits
            live_plugins: Sequence[Any] = [each.plugin for each in known.live_score if each.plugin.name not in skipped]
            # Plugins that give all rows 0 points: the totals are the same without them.
            pointless = {
                plugin.name
                for plugin in live_plugins
                if traits[plugin.name].says_if_it_gives_points and not plugin.gives_points(state)
            }
            skipped = skipped | pointless if pointless else skipped
        live = score_pass(known.live_score, skipped, inputs, state, feasible)
        leaders = None if live else known.leaders(inputs.nodes, inputs.pod, state, feasible)
        totals = _NO_TOTALS
        by_plugin: tuple[PluginScores, ...] = ()
        if leaders is None or known.reports_all:
            totals = self._totals(state, feasible, live)
        if known.reports_all:
            by_plugin = self._by_plugin(state, feasible, live)
        inputs.stopwatch.lap(SCORE.label, SUCCESS)
        return Priorities(totals, by_plugin, leaders)

    def _totals(self, state: CycleState, feasible: Rows, live: dict[str, PluginScores]) -> Scores:
        totals = self.known.totals(self._inputs.pod, state, feasible)
        for scores in live.values():
            totals += scores.points
        if not self._inputs.profile.score:
            totals += 1
        return totals

    def _by_plugin(self, state: CycleState, feasible: Rows, live: dict[str, PluginScores]) -> tuple[PluginScores, ...]:
        found = live | self.known.plugin_scores(self._inputs.pod, state, feasible)
        return tuple(
            found[weighted.plugin.name] for weighted in self._inputs.profile.score if weighted.plugin.name in found
        )


def _add_rejections(judged: Iterable[FilterStep], state: CycleState, rejections: list[Rejection]) -> None:
    """Add which plugin rejected which rows. Do it at once: the columns change before the next pod."""
    for step in judged:
        step.add_rejections(state, rejections)
