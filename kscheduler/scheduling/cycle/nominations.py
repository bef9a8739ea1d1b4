"""Rows that pods are nominated to, as if those pods were there.

A pod may take a node only if it fits beside the pods that are expected there (of equal or higher priority) and without
them too: they may yet go elsewhere, and affinity to them must not count as long as they have not come. Only the few
rows that carry such nominations are judged twice; every other row, and every pod without rivals, costs nothing.

Where a plugin keeps counts in its PreFilter state (spread, affinity), pods nominated to one node are not there for
another: the plugin counts them for their row alone, or, if it cannot do that, each row is judged with a state of its
own. The table, of which a filter reads the row it judges, is one for all of them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.arrivals import Arrivals
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.plugin import PreFilterExtensions, RowWiseExtensions
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime.cycle_calls import call_add_pod, call_move_pods, call_remove_pod


@dataclass(frozen=True, slots=True)
class Crowded:
    """Rows with the pods that are expected there."""

    rows: Rows
    nodes: NodeTable
    """The table with all expected pods on their rows."""
    state: CycleState


def crowded(
    profile: Profile, pod: PodInfo, nodes: NodeTable, state: CycleState, expected: Arrivals, skipped: Collection[str]
) -> Iterator[Crowded]:
    """The rows of `expected` to be judged with their pods: all at once, or one by one where a plugin counts pods."""
    counting = counting_plugins(profile, skipped)
    with_them = expected.upon(nodes)
    row_wise = row_wise_plugins(profile, counting)
    if row_wise is not None:
        copied = state.copy()
        if row_wise:
            move(row_wise, copied, pod, expected.moving(), with_them)
        yield Crowded(expected.rows, with_them, copied)
        return
    for place, row in enumerate(expected.rows.tolist()):
        copied = state.copy()
        for added in expected.on(place):
            count_in(counting, copied, pod, added, with_them, row)
        yield Crowded(np.array([row], dtype=np.intp), with_them, copied)


def counting_plugins(profile: Profile, skipped: Collection[str]) -> tuple[PreFilterExtensions, ...]:
    """The plugins that keep counts of pods for this pod."""
    return tuple(
        cast("PreFilterExtensions", plugin)
        for plugin in profile.pre_filter
        if profile.traits[plugin.name].counts_pods and plugin.name not in skipped
    )


def row_wise_plugins(
    profile: Profile, counting: Collection[PreFilterExtensions]
) -> tuple[RowWiseExtensions, ...] | None:
    """The same plugins, if all of them can keep rows apart."""
    if all(profile.traits[plugin.name].counts_pods_by_row for plugin in counting):
        return tuple(cast("RowWiseExtensions", plugin) for plugin in counting)
    return None


def move(
    counting: Collection[RowWiseExtensions], state: CycleState, pod: PodInfo, moved: MovedPods, nodes: NodeTable
) -> None:
    """Pods come to many rows or leave them, each row by itself. Raises `PluginFailure`."""
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
    """One pod more on the row. Raises `PluginFailure`."""
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
    """One pod less on the row. Raises `PluginFailure`."""
    for plugin in counting:
        call_remove_pod(plugin, state, pod, removed, nodes, row)
