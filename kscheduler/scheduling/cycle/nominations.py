"""Judging rows as if the pods nominated to them were already there.

A pod may take a node only if it fits both with the pods that are expected there (nominated, of equal or higher
priority) and without them: they may still go elsewhere, and affinity to them must not count before they are bound. Only
the few rows with such nominations are judged twice; other rows, and pods without rivals, cost nothing extra.

If a plugin keeps counts in its PreFilter state (spread, affinity), the pods nominated to one node must not count for
another node. So the plugin counts them per row, or, if it cannot, each row is judged with its own copy of the state.
One fork of the table is enough for all rows, because a filter reads only the row that it judges.

A user's plugin that cannot count one of the expected pods cannot judge that pod's row: it is left out, as a row for
which a filter fails is, since the others must not suffer from whose pod is expected somewhere.
"""

from collections.abc import Collection, Iterator
from typing import cast

import msgspec
import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.arrivals import Arrivals
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.plugin import PreFilterExtensions, RowWiseExtensions
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.cycle_calls import call_add_pod, call_move_pods, call_remove_pod
from kscheduler.scheduling.runtime.guard import PluginFailure


class RowsWithNominated(msgspec.Struct, frozen=True):
    """Rows to be judged with the pods that are expected on them."""

    rows: Rows
    nodes: NodeTable
    """The table with all expected pods on their rows."""
    state: CycleState
    failure: PluginFailure | None = None
    """Of a user's plugin that cannot count what is expected: the rows cannot be judged."""


def rows_with_nominated(
    profile: Profile, pod: PodInfo, nodes: NodeTable, state: CycleState, expected: Arrivals, skipped: Collection[str]
) -> Iterator[RowsWithNominated]:
    """The rows of `expected` with their pods: all at once, or one at a time if a plugin cannot count pods per row.

    Raises `PluginFailure` of an in-tree plugin.
    """
    counting = counting_plugins(profile, skipped)
    with_expected = expected.upon(nodes)
    row_wise = row_wise_plugins(profile, counting)
    if row_wise is not None:
        own_state = state.copy()
        try:
            if row_wise:
                move(row_wise, own_state, pod, expected.moving(), with_expected)
        except PluginFailure as failure:
            if profile.traits[failure.plugin].is_in_tree:
                raise
        else:
            yield RowsWithNominated(expected.rows, with_expected, own_state)
            return
    for place, row in enumerate(expected.rows.tolist()):
        own_state, failed = state.copy(), None
        try:
            for added in expected.on(place):
                count_in(counting, own_state, pod, added, with_expected, row)
        except PluginFailure as failure:
            if profile.traits[failure.plugin].is_in_tree:
                raise
            failed = failure
        yield RowsWithNominated(np.array([row], dtype=np.intp), with_expected, own_state, failed)


def counting_plugins(profile: Profile, skipped: Collection[str]) -> tuple[PreFilterExtensions, ...]:
    """The plugins that keep counts of pods in their PreFilter state, without those that skip this pod."""
    counting = [
        plugin
        for plugin in profile.pre_filter
        if profile.traits[plugin.name].counts_pods and plugin.name not in skipped
    ]
    return cast("tuple[PreFilterExtensions, ...]", tuple(counting))


def row_wise_plugins(
    profile: Profile, counting: Collection[PreFilterExtensions]
) -> tuple[RowWiseExtensions, ...] | None:
    """The same plugins if all of them can count per row; else `None`."""
    for plugin in counting:
        if not profile.traits[plugin.name].counts_pods_by_row:
            return None
    return cast("tuple[RowWiseExtensions, ...]", tuple(counting))


def move(
    counting: Collection[RowWiseExtensions], state: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable
) -> None:
    """Add pods to many rows or remove them, independently for each row. Raises `PluginFailure`."""
    for plugin in counting:
        call_move_pods(plugin, state, pod, moved, nodes)


def count_in(
    counting: Collection[PreFilterExtensions],
    state: CycleState,
    pod: PodInfo,
    added: PodInfo,
    nodes: NodeTable,
    row: int,
) -> None:
    """Count one more pod on the row. Raises `PluginFailure`."""
    for plugin in counting:
        call_add_pod(plugin, state, pod, added, nodes, row)


def count_out(
    counting: Collection[PreFilterExtensions],
    state: CycleState,
    pod: PodInfo,
    removed: PodInfo,
    nodes: NodeTable,
    row: int,
) -> None:
    """Count one pod less on the row. Raises `PluginFailure`."""
    for plugin in counting:
        call_remove_pod(plugin, state, pod, removed, nodes, row)
