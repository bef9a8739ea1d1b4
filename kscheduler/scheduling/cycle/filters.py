"""Running the filters of a profile for one pod: in the search for a node, and in dry runs.

Filters run in the profile's order, each for the rows that have passed so far, so a node is charged to the first plugin
that rejects it. A row with nominated pods is judged twice: with these pods and without them (see `nominations`).
"""

from collections.abc import Collection
from functools import partial

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import NOT_JUDGED, FilterPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.nominations import crowded_rows
from kscheduler.scheduling.runtime.cycle_calls import call_filter
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.left_out import codes_after, report
from kscheduler.scheduling.runtime.status_text import not_judged, split_rows
from kscheduler.scheduling.runtime.timing import CallTimer


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
            rows = self.beside_nominated(plugins, nodes, state, rows, rejections)
        return self._filtered(plugins, nodes, state, rows, rejections)

    def beside_nominated(
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
        unjudged = 0
        for crowded in crowded_rows(self.inputs.profile, self.inputs.pod, nodes, state, arrivals, self.skipped):
            if crowded.failure is not None:
                unjudged += len(crowded.rows)
                if unjudged == len(rows):
                    raise crowded.failure
                passing = self._left_out(crowded.failure, crowded.rows, nodes, rows, rejections)
            else:
                passing = self._filtered(plugins, crowded.nodes, crowded.state, crowded.rows, rejections)
            if len(passing) < len(crowded.rows):
                if remains is None:
                    remains = np.ones(nodes.capacity, dtype=np.bool_)
                remains[crowded.rows] = False
                remains[passing] = True
        return rows if remains is None else rows.take(np.flatnonzero(remains.take(rows)))

    def _left_out(
        self, failure: PluginFailure, unjudged: Rows, nodes: NodeTable, rows: Rows, rejections: list[Rejection]
    ) -> Rows:
        """Reject the rows that a user's plugin cannot judge, and report it; returns the rows that pass: none."""
        listener = self.inputs.profile.listener
        report(failure, listener, self.inputs.pod, nodes, rows, ~np.isin(rows, unjudged))
        self.timer.call_ended(failure.point, failure.plugin, 0)
        codes = np.full(len(unjudged), NOT_JUDGED, dtype=np.int64)
        rejections.append(Rejection(failure.plugin, unjudged, codes, partial(not_judged, failure.plugin)))
        return unjudged[:0]

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
