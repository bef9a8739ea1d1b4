"""Details about rejected rows, from the plugins that rejected them, and the points before normalising.

Only `explain` needs these. The record keeps what a cycle needs (codes and final points); the rest is worked out again
from the record's state over the same cache, which must not have changed since.

A row may have been rejected only because other pods are nominated to it. As it is now, the plugin would accept it. So
the plugin is called for the row as it would be with those pods, and the detail says so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from kscheduler.framework.reasons.details import Detail, DetailsPlugin
from kscheduler.scheduling.cycle.nominations import rows_with_nominated
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_filter, call_score
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.status_text import DETAILS_FAILED, call_details
from kscheduler.scheduling.runtime.timing import UNTIMED
from kscheduler.state.cache import Cache

N = TypeVar("N", FilterPlugin, PreFilterPlugin)

FAILED = DETAILS_FAILED
# The kind of a detail that can only say which nominated pods are in the way.
NOMINATED = "besideNominated"


@dataclass(frozen=True, slots=True)
class PluginDetails:
    """What one plugin says about some of the rows that it rejected."""

    plugin: str
    details: tuple[Detail, ...]
    beside: tuple[str, ...] = ()
    """Keys of the nominated pods without which the plugin would have accepted these rows."""


def rejection_details(profile: Profile, record: SchedulingRecord, cache: Cache) -> tuple[PluginDetails, ...]:
    """All details that the plugins can give about the rows they rejected, in the order of the rejections."""
    if record.diagnosis.pre_filter.is_rejected:
        plugin = _by_name(profile.pre_filter, record.diagnosis.pre_filter.plugin)
        no_rows = np.zeros(0, dtype=np.intp)
        found = _details(profile, plugin, record.state, record, cache.nodes, no_rows)
        return (PluginDetails(record.diagnosis.pre_filter.plugin, found),) if found else ()
    rows_of: dict[str, Rows] = {}
    for rejection in record.diagnosis.rejections:
        # one plugin may have two rejections: of rows judged with nominated pods, and of all other rows
        rows_of[rejection.plugin] = np.union1d(rows_of.get(rejection.plugin, rejection.rows), rejection.rows)
    return tuple(
        details for plugin, rows in rows_of.items() for details in _of_plugin(profile, record, cache, plugin, rows)
    )


def raw_scores(profile: Profile, record: SchedulingRecord, nodes: NodeTable) -> dict[str, Scores]:
    """By plugin, the points before normalising and weighting: an int64 per feasible row.

    Plugins that fail, or that did not score in this cycle, are left out.
    """
    scoring = {scores.plugin for scores in record.scores}
    found: dict[str, Scores] = {}
    for weighted in profile.score:
        name = weighted.plugin.name
        if name in scoring:
            try:
                found[name] = call_score(weighted.plugin, record.state, record.pod, nodes, record.feasible, UNTIMED)
            except PluginFailure:
                continue
    return found


def _of_plugin(
    profile: Profile, record: SchedulingRecord, cache: Cache, name: str, rows: Rows
) -> Iterator[PluginDetails]:
    plugin = _by_name(profile.filter, name)
    if plugin is None or not profile.traits[name].gives_details:
        return
    nodes = cache.nodes
    by_itself = _rejected(plugin, record.state, record, nodes, rows)
    found = _details(profile, plugin, record.state, record, nodes, by_itself)
    if found:
        yield PluginDetails(plugin.name, found)
    remaining = np.setdiff1d(rows, by_itself)
    expected = cache.nominated.before(record.pod)
    arrivals = expected.among(remaining) if expected is not None and len(remaining) else None
    if arrivals is None:
        return
    for crowded in rows_with_nominated(profile, record.pod, nodes, record.state, arrivals, record.skipped):
        found = _details(profile, plugin, crowded.state, record, crowded.nodes, crowded.rows)
        on_rows = arrivals.among(crowded.rows)
        pods = [] if on_rows is None else [pod for place in range(len(on_rows.rows)) for pod in on_rows.on(place)]
        keys = tuple(sorted({pod.key for pod in pods}))
        nominated = Detail(NOMINATED, f"{_listed(keys)} nominated here", crowded.rows, {"pods": list(keys)})
        yield PluginDetails(plugin.name, found or (nominated,), keys)


def _rejected(plugin: FilterPlugin, state: CycleState, record: SchedulingRecord, nodes: NodeTable, rows: Rows) -> Rows:
    """The rows that the plugin rejects without nominated pods."""
    try:
        codes = call_filter(plugin, state, record.pod, nodes, rows, UNTIMED)
    except PluginFailure:
        return rows  # the verdict of the cycle stands
    return rows[:0] if codes is None else rows[codes != 0]


def _details(
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


def _listed(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{', '.join(keys[:3])}{more} {'is' if len(keys) == 1 else 'are'}"


def _by_name(plugins: Iterable[N], name: str) -> N | None:
    return next((plugin for plugin in plugins if plugin.name == name), None)
