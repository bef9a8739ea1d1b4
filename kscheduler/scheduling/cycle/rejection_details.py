"""More about the rows that were turned down, asked of the plugins that did it, and the points before normalising.

Only `explain` asks. The record keeps what a cycle needs (codes and final points); the rest is worked out again from the
record's own state over the same view, which must not have changed since.

A row may have been turned down only because other pods are nominated to it. Then the plugin has nothing against the row
as it is: it is asked about the row as it would be with those pods, and the detail says so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from kscheduler.framework.reasons.details import Detail, DetailsPlugin
from kscheduler.scheduling.cycle.nominations import crowded
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_filter, call_score
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.status_text import DETAILS_FAILED, call_details
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache

N = TypeVar("N", FilterPlugin, PreFilterPlugin)

FAILED = DETAILS_FAILED
NOMINATED = "besideNominated"
"""The kind of a detail where nothing is known but whose nominations are in the way."""


@dataclass(frozen=True, slots=True)
class PluginDetails:
    """What one plugin says of some of the rows it turned down."""

    plugin: str
    details: tuple[Detail, ...]
    beside: tuple[str, ...] = ()
    """Keys of the nominated pods without which it would have had no objection to these rows."""


def rejection_details(profile: Profile, record: SchedulingRecord, view: Cache) -> tuple[PluginDetails, ...]:
    """All that the plugins can say about the rows they turned down, in the order of the rejections."""
    if record.diagnosis.pre_filter.is_rejected:
        plugin = _named(profile.pre_filter, record.diagnosis.pre_filter.plugin)
        nobody = np.zeros(0, dtype=np.intp)
        found = _asked(profile, plugin, record.state, record, view.nodes, nobody)
        return (PluginDetails(record.diagnosis.pre_filter.plugin, found),) if found else ()
    rows_of: dict[str, Rows] = {}
    for rejection in record.diagnosis.rejections:
        # one plugin may have two rejections: rows judged beside nominated pods, and all others
        rows_of[rejection.plugin] = np.union1d(rows_of.get(rejection.plugin, rejection.rows), rejection.rows)
    return tuple(one for plugin, rows in rows_of.items() for one in _of_plugin(profile, record, view, plugin, rows))


def raw_scores(profile: Profile, record: SchedulingRecord, nodes: NodeTable) -> dict[str, Scores]:
    """By plugin the points before normalising and weighting, one per feasible row; plugins that fail are left out."""
    told = {one.plugin for one in record.scores}
    found: dict[str, Scores] = {}
    for weighted in profile.score:
        name = weighted.plugin.name
        if name in told:
            try:
                found[name] = call_score(weighted.plugin, record.state, record.pod, nodes, record.feasible, UNTIMED)
            except PluginFailure:
                continue
    return found


def _of_plugin(
    profile: Profile, record: SchedulingRecord, view: Cache, name: str, rows: Rows
) -> Iterator[PluginDetails]:
    plugin = _named(profile.filter, name)
    if plugin is None or not profile.traits[name].gives_details:
        return
    nodes = view.nodes
    by_itself = _turned_down(plugin, record.state, record, nodes, rows)
    found = _asked(profile, plugin, record.state, record, nodes, by_itself)
    if found:
        yield PluginDetails(plugin.name, found)
    remaining = np.setdiff1d(rows, by_itself)
    expected = view.nominated.before(record.pod)
    arrivals = expected.among(remaining) if expected is not None and len(remaining) else None
    if arrivals is None:
        return
    for one in crowded(profile, record.pod, nodes, record.state, arrivals, record.skipped):
        found = _asked(profile, plugin, one.state, record, one.nodes, one.rows)
        there = arrivals.among(one.rows)
        pods = [] if there is None else [pod for place in range(len(there.rows)) for pod in there.on(place)]
        keys = tuple(sorted({pod.key for pod in pods}))
        nominated = Detail(NOMINATED, f"{_some(keys)} nominated here", one.rows, {"pods": list(keys)})
        yield PluginDetails(plugin.name, found or (nominated,), keys)


def _turned_down(
    plugin: FilterPlugin, state: CycleState, record: SchedulingRecord, nodes: NodeTable, rows: Rows
) -> Rows:
    """Those of the rows that the plugin turns down as they are."""
    try:
        codes = call_filter(plugin, state, record.pod, nodes, rows, UNTIMED)
    except PluginFailure:
        return rows  # what it said the first time stands
    return rows[:0] if codes is None else rows[codes != 0]


def _asked(
    profile: Profile,
    plugin: FilterPlugin | PreFilterPlugin | None,
    state: CycleState,
    record: SchedulingRecord,
    nodes: NodeTable,
    rows: Rows,
) -> tuple[Detail, ...]:
    if plugin is None or not profile.traits[plugin.name].gives_details:
        return ()
    if not len(rows) and not record.diagnosis.pre_filter.is_rejected:
        return ()
    return call_details(cast("DetailsPlugin", plugin), state, record.pod, nodes, rows)


def _some(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{', '.join(keys[:3])}{more} {'is' if len(keys) == 1 else 'are'}"


def _named(plugins: Iterable[N], name: str) -> N | None:
    return next((one for one in plugins if one.name == name), None)
