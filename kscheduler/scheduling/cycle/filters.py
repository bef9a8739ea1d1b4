"""The filters of one cycle, asked as often as somebody wants to know: in the search for a node, and in dry runs.

Filters run in order on the rows that are still alive, so a node is charged to the first plugin that turns it down. A
row that other pods are nominated to is judged with them and without (see `nominations`).
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from kscheduler.framework.change_log import ChangeLog
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.diagnosis import Rejection
from kscheduler.framework.dry_run import DryRun, Passing
from kscheduler.framework.label_column import Mask
from kscheduler.framework.moved_pods import MovedPods
from kscheduler.framework.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import UNSIGNABLE, FilterPlugin, PreFilterExtensions, RowWiseExtensions
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.classes.known_class import Judged, KnownClass
from kscheduler.scheduling.cycle.nominations import (
    count_in,
    count_out,
    counting_plugins,
    crowded,
    move,
    row_wise_plugins,
)
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.cycle_calls import call_filter
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.signing import or_judged_alone, signatures_of, signer_of
from kscheduler.scheduling.runtime.status_text import divided
from kscheduler.scheduling.runtime.timing import CallTimer, Uncounted
from kscheduler.state.nominated_columns import Expected

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True)
class Filters:
    """A profile's filters, for one pod."""

    profile: Profile
    pod: PodInfo
    expected: Expected | None
    """Nominated pods that the pod must leave room for."""
    skipped: Collection[str]
    """Plugins whose PreFilter said that their filter has nothing to judge."""
    tally: CallTimer
    known: KnownClass | None = None
    """What is known of the pod's class; dry runs do without."""

    def passing(self, nodes: NodeTable, state: CycleState, rows: Rows, rejections: list[Rejection]) -> Rows:
        """The rows that pass with the pods that are nominated to them, and without. Raises `PluginFailure`."""
        known = self.known
        if known is None:
            return self._passing(self.profile.filter, nodes, state, rows, rejections)
        if self.expected is not None:
            rows = self._beside_nominated(self.expected, self.profile.filter, nodes, state, rows, rejections)
        told: list[Judged] = []
        passing: Rows | None = None
        try:
            passing = known.passing(nodes, rows, partial(self._asked_unless_skipped, nodes, state), told)
        finally:
            if passing is None or not len(passing) or known.tells_all:
                for one in told:
                    one.tell(state, rejections)
        return passing

    def _asked_unless_skipped(
        self, nodes: NodeTable, state: CycleState, plugin: FilterPlugin, rows: Rows
    ) -> Codes | None:
        return None if plugin.name in self.skipped else self._asked(nodes, state, plugin, rows)

    def _passing(
        self,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        if self.expected is not None:
            rows = self._beside_nominated(self.expected, plugins, nodes, state, rows, rejections)
        return self._filtered(plugins, nodes, state, rows, rejections)

    def _beside_nominated(
        self,
        expected: Expected,
        plugins: Collection[FilterPlugin],
        nodes: NodeTable,
        state: CycleState,
        rows: Rows,
        rejections: list[Rejection],
    ) -> Rows:
        """The rows without those where the pod has no place beside the nominated ones."""
        here = expected.among(rows)
        if here is None:
            return rows
        remains: Mask | None = None
        for one in crowded(self.profile, self.pod, nodes, state, here, self.skipped):
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
            if plugin.name in self.skipped:
                continue
            if not len(rows):
                break
            codes = self._asked(nodes, state, plugin, rows)
            if codes is not None:
                rows = divided(plugin, codes, state, rows, rejections)
        return rows

    def _asked(self, nodes: NodeTable, state: CycleState, plugin: FilterPlugin, rows: Rows) -> Codes | None:
        """What one filter has against the rows; `None` if nothing. Raises `PluginFailure`."""
        return call_filter(plugin, state, self.pod, nodes, rows, self.tally)

    # --- dry runs -----------------------------------------------------------------------------------------------------

    def dry_run(self, expected_changes: ChangeLog) -> DryRun:
        """The same filters for PostFilter plugins. `expected_changes` tells where `expected` may be another later."""
        quiet = Filters(self.profile, self.pod, self.expected, self.skipped, Uncounted(self.tally))
        traits = self.profile.traits
        reading_pods = tuple(plugin for plugin in self.profile.filter if traits[plugin.name].reads_pods)
        counting = counting_plugins(self.profile, self.skipped)
        row_wise = row_wise_plugins(self.profile, counting)
        return DryRun(
            passing=partial(quiet._try, self.profile.filter),
            still_passing=partial(quiet._try, reading_pods),
            add_pod=partial(quiet._counted, count_in, counting),
            remove_pod=partial(quiet._counted, count_out, counting),
            counts_pods=bool(counting),
            move_pods=None if row_wise is None else partial(quiet._moved, row_wise),
            row_class=self._row_class,
            expected_changes=expected_changes,
        )

    def _row_class(self) -> Hashable | None:
        """What the filters sign; nothing where the cycle has no engine: it is not to believe what is kept."""
        traits, listener = self.profile.traits, self.profile.listener
        plugins = [plugin for plugin in self.profile.filter if plugin.name not in self.skipped]
        if self.known is None or not all(traits[plugin.name].is_matter_of_row for plugin in plugins):
            return None
        signers = [signer_of(plugin, traits[plugin.name], listener) for plugin in plugins]
        signatures = or_judged_alone(signatures_of, signers, self.pod)
        if signatures is None or UNSIGNABLE in signatures:
            return None
        names = tuple(plugin.name for plugin in plugins)
        return names, signatures, self.pod.namespace, frozenset(self.pod.labels.items())

    def _try(self, plugins: Collection[FilterPlugin], nodes: NodeTable, state: CycleState, rows: Rows) -> Passing:
        rejections: list[Rejection] = []
        self.tally.asks()
        try:
            return Passing(self._passing(plugins, nodes, state, rows, rejections), tuple(rejections))
        except PluginFailure as failure:
            return Passing(_NO_ROWS, error=failure.end(self.tally, self.profile.listener, self.pod))

    def _counted(
        self,
        count: "_Count",
        counting: Collection[PreFilterExtensions],
        state: CycleState,
        other: PodInfo,
        nodes: NodeTable,
        row: int,
    ) -> Status:
        try:
            count(counting, state, self.pod, other, nodes, row)
        except PluginFailure as failure:
            return failure.end(self.tally, self.profile.listener, self.pod)
        return SUCCESS

    def _moved(
        self, counting: Collection[RowWiseExtensions], state: CycleState, moved: MovedPods, nodes: NodeTable
    ) -> Status:
        try:
            move(counting, state, self.pod, moved, nodes)
        except PluginFailure as failure:
            return failure.end(self.tally, self.profile.listener, self.pod)
        return SUCCESS


_Count = Callable[[Collection[PreFilterExtensions], CycleState, PodInfo, PodInfo, NodeTable, int], None]
