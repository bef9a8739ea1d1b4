"""Rows that pods are nominated to, as if those pods were there.

A pod may take a node only if it fits beside the pods that are expected there (of equal or higher priority) and without
them too: they may yet go elsewhere, and affinity to them must not count as long as they have not come. Only the few
rows that carry such nominations are judged twice; every other row, and every pod without rivals, costs nothing.

Where a plugin keeps counts in its PreFilter state (spread, affinity), each row is judged with a state of its own:
pods nominated to one node are not there for another. The table, of which a filter reads the row it judges, is one for
all of them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_table import NodeTable, Rows
from kscheduler.framework.plugin import PreFilterExtensions
from kscheduler.framework.pod_info import PodInfo
from kscheduler.scheduling.plugin_failure import PluginFailure
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache


@dataclass(frozen=True, slots=True)
class Crowded:
    """Rows with the pods that are expected there."""

    rows: Rows
    nodes: NodeTable
    """The table with all expected pods on their rows."""
    state: CycleState


def rivals(pod: PodInfo, view: Cache) -> dict[int, tuple[PodInfo, ...]]:
    """The nominated pods that the pod must leave room for, by row. Nodes that are not there have none."""
    expected = ((view.nodes.row_of(name), pods) for name, pods in view.nominator.before(pod).items())
    return {row: pods for row, pods in expected if row >= 0}


def crowded(
    profile: Profile,
    pod: PodInfo,
    nodes: NodeTable,
    state: CycleState,
    expected: dict[int, tuple[PodInfo, ...]],
    skipped: Collection[str],
) -> Iterator[Crowded]:
    """The rows of `expected` to be judged with their pods: all at once, or one by one where a plugin counts pods."""
    if not expected:
        return
    counting = counting_plugins(profile, skipped)
    with_them = nodes.with_pods(expected)
    if not counting:
        yield Crowded(np.array(sorted(expected), dtype=np.intp), with_them, state.copy())
        return
    for row in sorted(expected):
        copied = state.copy()
        for added in expected[row]:
            count_in(counting, copied, pod, added, with_them, row)
        yield Crowded(np.array([row], dtype=np.intp), with_them, copied)


def counting_plugins(profile: Profile, skipped: Collection[str]) -> tuple[PreFilterExtensions, ...]:
    """The plugins that keep counts of pods for this pod."""
    return tuple(
        cast("PreFilterExtensions", plugin)
        for plugin in profile.pre_filter
        if hasattr(plugin, "add_pod") and plugin.name not in skipped
    )


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
        try:
            plugin.add_pod(state, pod, added, nodes, row)
        except Exception as error:
            raise PluginFailure(f'running AddPod on PreFilter plugin "{plugin.name}": {error}') from error


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
        try:
            plugin.remove_pod(state, pod, removed, nodes, row)
        except Exception as error:
            raise PluginFailure(f'running RemovePod on PreFilter plugin "{plugin.name}": {error}') from error
