"""The scheduling cycle: a function of (profile, pod, view) to a record. No await, no random, no clock that decides.

    held? -> PreFilter -> Filter -> [one node: done] -> PreScore -> Score -> normalise -> weigh -> choose
                 |           '--> no node: PostFilter (preemption)
                 '--> turned down: likewise

Filter is `node_search`, PostFilter `post_filter`. Every node that passes is scored, unless `percentageOfNodesToScore`
is set: then the caller keeps a `NodeSampler`, which says where the search begins. Among equals the winner is the one
with the highest stable mix of pod UID and node name, so any decision can be made again from the same objects.
"""

from collections.abc import Sequence
from typing import Final, Protocol, cast

import numpy as np

from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.node_table import NodeTable, Scores, stable_hash
from kscheduler.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, NormalizingPlugin, ScorePlugin
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Code, Status, unresolvable
from kscheduler.framework.ties import mix
from kscheduler.scheduling.filters import Filters
from kscheduler.scheduling.missing_rules import held_status
from kscheduler.scheduling.node_search import NodeSearch
from kscheduler.scheduling.nominations import rivals
from kscheduler.scheduling.plugin_failure import PluginFailure
from kscheduler.scheduling.post_filter import run_post_filter
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import NO_NODES, PluginScores, SchedulingRecord
from kscheduler.scheduling.sampling import NodeSampler
from kscheduler.state.cache import Cache


class Stopwatch(Protocol):
    """Measures; never decides."""

    def lap(self, point: str, status: Status) -> None:
        """An extension point has run."""
        ...

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """A plugin has been asked about so many nodes; about none, if it has skipped the pod."""
        ...

    def post_filtered(self, plugin: str) -> None:
        """A PostFilter plugin has been asked."""
        ...


class NoStopwatch:
    """Measures nothing: for explain, what-if and tests."""

    def lap(self, point: str, status: Status) -> None:
        """Pass."""

    def evaluated(self, point: str, plugin: str, nodes: int = 1) -> None:
        """Pass."""

    def post_filtered(self, plugin: str) -> None:
        """Pass."""


UNTIMED: Final = NoStopwatch()


def schedule(
    profile: Profile, pod: PodInfo, view: Cache, watch: Stopwatch = UNTIMED, sampler: NodeSampler | None = None
) -> SchedulingRecord:
    """Choose a node. The record tells which, or why none; a plugin's failure is an Error in it, never an exception.

    `sampler` says where a search for a share of the nodes begins, and is moved on; without one at the first node.
    """
    record = find_feasible(profile, pod, view, watch, sampler)
    if not record.status.is_success:
        _without_node(profile, record, view.nodes, watch)
        return record
    try:
        if len(record.feasible) > 1:
            prioritize(profile, record, view.nodes, watch)
        record.node_name = view.nodes.name_of(_choose(record, view.nodes))
    except PluginFailure as failure:
        record.status = failure.status
        record.nominated_node_name = ""
    return record


def find_feasible(
    profile: Profile, pod: PodInfo, view: Cache, watch: Stopwatch = UNTIMED, sampler: NodeSampler | None = None
) -> SchedulingRecord:
    """PreFilter and Filter: which nodes the pod fits on."""
    nodes = view.nodes
    record = SchedulingRecord(pod, profile.name, num_all_nodes=len(nodes))
    record.diagnosis.names = nodes.names()
    if not len(nodes):
        record.status = NO_NODES
        return record
    try:
        _filter(profile, record, view, watch, sampler or NodeSampler())
    except PluginFailure as failure:
        record.status = failure.status
    return record


def prioritize(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch = UNTIMED) -> None:
    """PreScore, Score, normalise and weigh the feasible rows. Raises `PluginFailure`."""
    skipped = _pre_score(profile, record, nodes, watch)
    rows = record.feasible
    totals = np.zeros(len(rows), dtype=np.int64)
    scores: list[PluginScores] = []
    for weighted in profile.score:
        if weighted.plugin.name not in skipped:
            points = _points(weighted.plugin, record, nodes) * weighted.weight
            scores.append(PluginScores(weighted.plugin.name, weighted.weight, points))
            totals += points
            watch.evaluated("Score", weighted.plugin.name, len(rows))
    if not profile.score:
        totals += 1
    record.scores, record.totals = tuple(scores), totals
    watch.lap("Score", SUCCESS)


# --- PreFilter and Filter ---------------------------------------------------------------------------------------------


def _filter(profile: Profile, record: SchedulingRecord, view: Cache, watch: Stopwatch, sampler: NodeSampler) -> None:
    skipped: set[str] = set()
    record.status = held_status(record.pod, profile.enabled)
    if not record.status.is_success:
        record.diagnosis.pre_filter = record.status
        return
    record.status = _pre_filter(profile, record, view.nodes, skipped, watch)
    watch.lap("PreFilter", record.status)
    filters = Filters(profile, record.pod, rivals(record.pod, view), skipped, watch)
    if record.status.is_success:
        record.feasible = NodeSearch(filters, record, view.nodes).run(sampler)
        if not len(record.feasible):
            record.status = Status(Code.UNSCHEDULABLE)
        watch.lap("Filter", SUCCESS)  # a pass over the nodes succeeds also where it leaves none over
    else:
        record.diagnosis.pre_filter = record.status
    if not record.status.is_success:
        record.state.write(filters.dry_run())


def _without_node(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch) -> None:
    """Ask PostFilter if the pod was judged. A held pod was not, and keeps its nomination; an error takes it back."""
    if record.state.find(DryRun) is not None:
        run_post_filter(profile, record, nodes, watch)
    elif record.status.code is Code.ERROR or not record.num_all_nodes:
        record.nominated_node_name = ""


def _pre_filter(
    profile: Profile, record: SchedulingRecord, nodes: NodeTable, skipped: set[str], watch: Stopwatch
) -> Status:
    """Run PreFilter; an unresolvable rejection ends it at once, a resolvable one after all have run (Q18)."""
    remembered = SUCCESS
    for plugin in profile.pre_filter:
        try:
            result = plugin.pre_filter(record.state, record.pod, nodes)
        except Exception as error:
            raise PluginFailure(f'running PreFilter plugin "{plugin.name}": {error}') from error
        status = result.status
        watch.evaluated("PreFilter", plugin.name, nodes=0 if status.is_skip else 1)
        if status.is_skip:
            skipped.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return status.by(plugin.name)
        elif status.is_rejected:
            remembered = status.by(plugin.name)
        elif not status.is_success:
            raise PluginFailure(f'running PreFilter plugin "{plugin.name}": {status.message}')
        if result.node_names is not None:
            record.narrow(result.node_names, plugin.name)
            if not record.node_names:
                return _narrowed_to_nothing(record.narrowed_by)
    return remembered


def _narrowed_to_nothing(plugins: Sequence[str]) -> Status:
    plugins = sorted(set(plugins))
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}", plugin=plugins[0])
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously", plugin=plugins[-1])


# --- Score ------------------------------------------------------------------------------------------------------------


def _pre_score(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch) -> set[str]:
    skipped: set[str] = set()
    for plugin in profile.pre_score:
        try:
            status = plugin.pre_score(record.state, record.pod, nodes, record.feasible)
        except Exception as error:
            raise PluginFailure(f'running PreScore plugin "{plugin.name}": {error}') from error
        watch.evaluated("PreScore", plugin.name, nodes=0 if status.is_skip else 1)
        if status.is_skip:
            skipped.add(plugin.name)
        elif not status.is_success:
            raise PluginFailure(f'running PreScore plugin "{plugin.name}": {status.message}')
    watch.lap("PreScore", SUCCESS)
    return skipped


def _points(plugin: ScorePlugin, record: SchedulingRecord, nodes: NodeTable) -> Scores:
    try:
        points = plugin.score(record.state, record.pod, nodes, record.feasible)
    except Exception as error:
        raise PluginFailure(f'running Score plugins: plugin "{plugin.name}" failed with: {error}') from error
    if hasattr(plugin, "normalize"):
        points = _normalized(cast("NormalizingPlugin", plugin), record, points)
    least, most = int(points.min()), int(points.max())
    if least < MIN_NODE_SCORE or most > MAX_NODE_SCORE:
        wrong = least if least < MIN_NODE_SCORE else most
        text = f'plugin "{plugin.name}" returns an invalid score {wrong}, it should in the range of'
        wanted = f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        raise PluginFailure(f"applying score defaultWeights on Score plugins: {text} {wanted}")
    return points


def _normalized(plugin: NormalizingPlugin, record: SchedulingRecord, points: Scores) -> Scores:
    try:
        return plugin.normalize(record.state, record.pod, record.feasible, points)
    except Exception as error:
        raise PluginFailure(
            f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {error}'
        ) from error


# --- choosing ---------------------------------------------------------------------------------------------------------


def _choose(record: SchedulingRecord, nodes: NodeTable) -> int:
    """The row with the most points; among equals the highest mix of pod UID and node name, then the first name."""
    rows = record.feasible
    if len(record.totals):
        rows = rows[record.totals == record.totals.max()]
    if len(rows) == 1:
        return int(rows[0])
    mixed = mix(nodes.name_hash[rows], stable_hash(record.pod.uid))
    tied: list[int] = rows[mixed == mixed.max()].tolist()
    return min(tied, key=nodes.name_of)
