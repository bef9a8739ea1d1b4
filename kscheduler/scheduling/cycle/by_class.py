"""Judging a pod by its class: columns tell who passes and what rows earn, live plugins are asked in between.

A live plugin (spread, affinity, volumes) is asked at its place in the profile, about the rows that are alive there, as
it would be without columns. Rows that carry nominated pods are judged by the plugins themselves, on forks.
"""

from collections.abc import Collection, Hashable, Iterable
from functools import partial
from typing import Final

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import Codes, Rows, Scores
from kscheduler.framework.plugin import UNSIGNABLE, FilterPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.classes.known_class import Judged, KnownClass
from kscheduler.scheduling.cycle.dry_runs import dry_run
from kscheduler.scheduling.cycle.evaluator import NO_ROWS, CycleInputs, Filtered, PreFiltered, Priorities
from kscheduler.scheduling.cycle.filters import Filters
from kscheduler.scheduling.cycle.passes import pre_filter_pass, pre_score_pass, score_pass
from kscheduler.scheduling.record import PluginScores
from kscheduler.scheduling.runtime.cycle_calls import call_filter
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import PRE_SCORE, SCORE
from kscheduler.scheduling.runtime.signing import or_judged_alone, signatures_of, signer_of

_NO_TOTALS: Final[Scores] = np.zeros(0, dtype=np.int64)


class ClassEvaluator:
    """Reads what is known of the pod's class, up to date as of now. Implements `Evaluator`.

    `pre_filtered` must let all nodes through, or the rest is to be asked of a `PlainEvaluator`: columns are about all.
    """

    __slots__ = ("_inputs", "_known", "_skipped")

    def __init__(self, inputs: CycleInputs, known: KnownClass) -> None:
        self._inputs = inputs
        self._known = known
        self._skipped: Collection[str] = ()

    def pre_filtered(self, state: CycleState) -> PreFiltered:
        """Ask the live plugins; the others have let pods of this class through, and prepared what they need."""
        self._known.prepare(state)
        found = pre_filter_pass(self._known.live_pre_filter, self._inputs, state, set(self._known.skipped))
        self._skipped = found.skipped
        return found

    def filtered(self, state: CycleState, rows: Rows) -> Filtered:
        """Take the rows that pass out of the columns, and ask the live plugins about what is left of them."""
        known, nodes = self._known, self._inputs.nodes
        rejections: list[Rejection] = []
        judged: list[Judged] = []
        try:
            if self._inputs.expected is not None:
                filters = Filters(self._inputs, self._skipped)
                rows = filters.beside_nominated(self._inputs.profile.filter, nodes, state, rows, rejections)
            passing = known.passing(nodes, rows, partial(self._ask_live, state), judged)
        except PluginFailure as failure:
            _tell(judged, state, rejections)
            return Filtered(NO_ROWS, rejections, failure)
        if known.tells_all or not len(passing):
            _tell(judged, state, rejections)
        return Filtered(passing, rejections)

    def _ask_live(self, state: CycleState, plugin: FilterPlugin, rows: Rows) -> Codes | None:
        if plugin.name in self._skipped:
            return None
        inputs = self._inputs
        return call_filter(plugin, state, inputs.pod, inputs.nodes, rows, inputs.stopwatch)

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """Plugins are asked: rows are not as they are in the columns."""
        return dry_run(Filters(self._inputs, self._skipped), self._row_class, expected_changes)

    def _row_class(self) -> Hashable | None:
        """What the filters sign, where all of them look at nothing but the row."""
        inputs, skipped = self._inputs, self._skipped
        traits, listener = inputs.profile.traits, inputs.profile.listener
        plugins = [plugin for plugin in inputs.profile.filter if plugin.name not in skipped]
        if not all(traits[plugin.name].is_matter_of_row for plugin in plugins):
            return None
        signers = [signer_of(plugin, traits[plugin.name], listener) for plugin in plugins]
        signatures = or_judged_alone(signatures_of, signers, inputs.pod)
        if signatures is None or UNSIGNABLE in signatures:
            return None
        names = tuple(plugin.name for plugin in plugins)
        return names, signatures, inputs.pod.namespace, frozenset(inputs.pod.labels.items())

    def prioritize(self, state: CycleState, feasible: Rows) -> Priorities:
        """Points of columns and of live plugins. Where the columns alone score, they may know the best rows already."""
        inputs, known = self._inputs, self._known
        skipped = pre_score_pass(known.live_pre_score, inputs, state, feasible)
        inputs.stopwatch.lap(PRE_SCORE.label, SUCCESS)
        live = score_pass(known.live_score, skipped, inputs, state, feasible)
        leaders = None if live else known.leaders(inputs.nodes, inputs.pod, state, feasible)
        totals = _NO_TOTALS
        by_plugin: tuple[PluginScores, ...] = ()
        if leaders is None or known.tells_all:
            totals = self._totals(state, feasible, live)
        if known.tells_all:
            by_plugin = self._by_plugin(state, feasible, live)
        inputs.stopwatch.lap(SCORE.label, SUCCESS)
        return Priorities(totals, by_plugin, leaders)

    def _totals(self, state: CycleState, feasible: Rows, live: dict[str, PluginScores]) -> Scores:
        totals = self._known.totals(self._inputs.pod, state, feasible)
        for one in live.values():
            totals += one.points
        if not self._inputs.profile.score:
            totals += 1
        return totals

    def _by_plugin(self, state: CycleState, feasible: Rows, live: dict[str, PluginScores]) -> tuple[PluginScores, ...]:
        found = live | self._known.plugin_scores(self._inputs.pod, state, feasible)
        return tuple(found[one.plugin.name] for one in self._inputs.profile.score if one.plugin.name in found)


def _tell(judged: Iterable[Judged], state: CycleState, rejections: list[Rejection]) -> None:
    """Add who turned which rows down. At once: the next pod's columns say something else."""
    for one in judged:
        one.tell(state, rejections)
