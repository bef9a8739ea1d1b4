"""Dry runs: PostFilter plugins call the filters of the cycle for rows as they might be, for example without victims.

A plugin that fails in a dry run ends neither the cycle nor the caller: the failure is reported, and the caller gets an
Error as the answer.
"""

from collections.abc import Callable, Collection, Hashable
from functools import partial

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun, Passing
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.plugin import FilterPlugin, PreFilterExtensions, RowWiseExtensions
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.cycle.evaluator import NO_ROWS
from kscheduler.scheduling.cycle.nominations import count_in, count_out, counting_plugins, move, row_wise_plugins
from kscheduler.scheduling.cycle.passes import Filters
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.timing import Uncounted

_Count = Callable[[Collection[PreFilterExtensions], CycleState, PodInfo, PodInfo, NodeTable, int], None]


def dry_run(filters: Filters, row_class: Callable[[], Hashable | None], expected_changes: ChangeLog) -> DryRun:
    """The `DryRun` for PostFilter plugins; `row_class` and `expected_changes` are its fields of that name."""
    profile = filters.inputs.profile
    filters_of_run = _DryRunFilters(Filters(filters.inputs, filters.skipped, Uncounted(filters.timer)))
    reading_pods = tuple([plugin for plugin in profile.filter if profile.traits[plugin.name].reads_pods])
    counting = counting_plugins(profile, filters.skipped)
    row_wise = row_wise_plugins(profile, counting)
    return DryRun(
        passing=partial(filters_of_run.passing, profile.filter),
        still_passing=partial(filters_of_run.passing, reading_pods),
        add_pod=partial(filters_of_run.counted, count_in, counting),
        remove_pod=partial(filters_of_run.counted, count_out, counting),
        counts_pods=bool(counting),
        move_pods=None if row_wise is None else partial(filters_of_run.moved, row_wise),
        row_class=row_class,
        expected_changes=expected_changes,
    )


class _DryRunFilters:
    """Filters whose calls are not counted as evaluations and never raise."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._pod = filters.inputs.pod

    def passing(self, plugins: Collection[FilterPlugin], nodes: NodeTable, state: CycleState, rows: Rows) -> Passing:
        """Which of the rows pass the filters; with an error, none do."""
        rejections: list[Rejection] = []
        self._filters.timer.restart()
        try:
            return Passing(self._filters.passing(plugins, nodes, state, rows, rejections), tuple(rejections))
        except PluginFailure as failure:
            return Passing(NO_ROWS, error=self._reported(failure))

    def counted(
        self,
        count: _Count,
        counting: Collection[PreFilterExtensions],
        state: CycleState,
        other: PodInfo,
        nodes: NodeTable,
        row: int,
    ) -> Status:
        """Count a pod in on one row, or out."""
        try:
            count(counting, state, self._pod, other, nodes, row)
        except PluginFailure as failure:
            return self._reported(failure)
        return SUCCESS

    def moved(
        self, counting: Collection[RowWiseExtensions], state: CycleState, moved: MovedPods, nodes: NodeTable
    ) -> Status:
        """Count pods of many rows in or out."""
        try:
            move(counting, state, self._pod, moved, nodes)
        except PluginFailure as failure:
            return self._reported(failure)
        return SUCCESS

    def _reported(self, failure: PluginFailure) -> Status:
        return failure.end(self._filters.timer, self._filters.inputs.profile.listener, self._pod)
