"""The filters of one cycle, asked as often as somebody wants to know: in the search for a node, and in dry runs.

Filters run in order on the rows that are still alive, so a node is charged to the first plugin that turns it down. A
row that other pods are nominated to is judged with them and without (see `nominations`).
"""

from collections.abc import Collection

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import FilterPlugin
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.nominations import crowded
from kscheduler.scheduling.runtime.cycle_calls import call_filter
from kscheduler.scheduling.runtime.status_text import divided
from kscheduler.scheduling.runtime.timing import CallTimer


class Filters:
    """A profile's filters, for one pod; over the table of the cycle or a fork of it."""

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
        """The rows that pass with the pods that are nominated to them, and without. Raises `PluginFailure`.

        Who turned the others down is added to the rejections, as far as it went.
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
        """The rows without those where the pod has no place beside the nominated ones. Raises `PluginFailure`."""
        expected = self.inputs.expected
        here = None if expected is None else expected.among(rows)
        if here is None:
            return rows
        remains: Mask | None = None
        for one in crowded(self.inputs.profile, self.inputs.pod, nodes, state, here, self.skipped):
            passing = self._filtered(plugins, one.nodes, one.state, one.rows, rejections)
            if len(passing) < len(one.rows):
                if remains is None:
                    remains = np.ones(nodes.capacity, dtype=np.bool_)
                remains[one.rows] = False
                remains[passing] = True
        return rows if remains is None else rows.take(np.flatnonzero(remains.take(rows)))

    def _filtered(
        self,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        for plugin in plugins:
            if not len(rows):
                break
            codes = self.ask(plugin, nodes, state, rows)
            if codes is not None:
                rows = divided(plugin, codes, state, rows, rejections)
        return rows

    def ask(self, plugin: FilterPlugin, nodes: NodeTable, state: CycleState, rows: Rows) -> Codes | None:
        """What one filter has against the rows; `None` if nothing, or if it skips. Raises `PluginFailure`."""
        if plugin.name in self.skipped:
            return None
        return call_filter(plugin, state, self.inputs.pod, nodes, rows, self.timer)
