"""The scheduling cycle: a function of (profile, pod, view) to a record. No await, no random, no clock that decides.

    held? -> PreFilter -> Filter -> [one node: done] -> PreScore -> Score -> normalise -> weigh -> choose
                 |           '--> no node: PostFilter (preemption)
                 '--> turned down: likewise

Filter is `node_search`, PostFilter `post_filter`. Every node that passes is scored, unless `percentageOfNodesToScore`
is set: then the caller keeps a `NodeSampler`, which says where the search begins. Among equals the winner is the one
with the highest stable mix of pod UID and node name, so any decision can be made again from the same objects.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.node_table import NodeTable, Rows, Scores, stable_hash
from kscheduler.framework.plugin import PreFilterPlugin, PreScorePlugin
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.row_index import compact, values_at
from kscheduler.framework.status import SUCCESS, Code, Status, unresolvable
from kscheduler.framework.ties import mix
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.classes.known_class import KnownClass
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.cycle.filters import Filters
from kscheduler.scheduling.cycle.node_search import NodeSearch
from kscheduler.scheduling.cycle.post_filter import run_post_filter
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.missing_rules import held_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import NO_NODES, PluginScores, SchedulingRecord
from kscheduler.scheduling.runtime.cycle_calls import call_pre_filter, call_pre_score, call_score_and_normalize
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import FILTER, PRE_FILTER, PRE_SCORE, SCORE
from kscheduler.scheduling.runtime.status_text import HearsOfPod
from kscheduler.scheduling.runtime.timing import UNTIMED, Stopwatch
from kscheduler.state.cache import Cache


def schedule(
    profile: Profile,
    pod: PodInfo,
    view: Cache,
    watch: Stopwatch = UNTIMED,
    sampler: NodeSampler | None = None,
    engine: ClassEngine | None = None,
) -> SchedulingRecord:
    """Choose a node. The record tells which, or why none; a plugin's failure is an Error in it, never an exception.

    `sampler` says where a search for a share of the nodes begins, and is moved on; without one at the first node.
    `engine` is that of the profile over the view: it makes the same decision from what it knows of the pod's class.
    """
    record, known = _feasible(profile, pod, view, watch, sampler, engine)
    if not record.status.is_success:
        _without_node(profile, record, view.nodes, watch)
        return record
    try:
        leaders = None
        if len(record.feasible) > 1:
            leaders = _prioritize_known(profile, record, view.nodes, watch, known)
        record.node_name = view.nodes.name_of(_choose(record, view.nodes, leaders))
    except PluginFailure as failure:
        record.status = failure.end(watch, profile.listener, pod)
        record.nominated_node_name = ""
    return record


def find_feasible(
    profile: Profile, pod: PodInfo, view: Cache, watch: Stopwatch = UNTIMED, sampler: NodeSampler | None = None
) -> SchedulingRecord:
    """PreFilter and Filter: which nodes the pod fits on."""
    record, _ = _feasible(profile, pod, view, watch, sampler, None)
    return record


def _feasible(
    profile: Profile,
    pod: PodInfo,
    view: Cache,
    watch: Stopwatch,
    sampler: NodeSampler | None,
    engine: ClassEngine | None,
) -> tuple[SchedulingRecord, KnownClass | None]:
    nodes = view.nodes
    record = SchedulingRecord(pod, profile.name, num_all_nodes=len(nodes))
    record.diagnosis.names = nodes.names()
    if not len(nodes):
        record.status = NO_NODES
        return record, None
    known = None
    try:
        known = _filter(profile, record, view, watch, sampler or NodeSampler(), engine)
    except PluginFailure as failure:
        record.status = failure.end(watch, profile.listener, pod)
    return record, known


def prioritize(
    profile: Profile,
    record: SchedulingRecord,
    nodes: NodeTable,
    watch: Stopwatch = UNTIMED,
    known: KnownClass | None = None,
) -> Leaders | None:
    """PreScore, Score, normalise and weigh the feasible rows. Raises `PluginFailure`.

    Returns who has the most points, if that is known without another look at all of them.
    """
    skipped = _pre_score(profile.pre_score if known is None else known.live_pre_score, record, nodes, watch)
    rows = record.feasible
    scores: dict[str, PluginScores] = {}
    for weighted in profile.score if known is None else known.live_score:
        plugin = weighted.plugin
        if plugin.name not in skipped:
            points = call_score_and_normalize(
                plugin, profile.traits[plugin.name], record.state, record.pod, nodes, rows, watch
            )
            scores[plugin.name] = PluginScores(plugin.name, weighted.weight, points * weighted.weight)
    leaders = known.leaders(nodes, record.pod, record.state, rows) if known is not None and not scores else None
    if leaders is not None:
        record.most_points = leaders.points
    if leaders is None or (known is not None and known.tells_all):
        record.totals = _totals(record, known, scores.values())
        if not profile.score:
            record.totals += 1
    if known is None or known.tells_all:
        scores |= {} if known is None else known.plugin_scores(record.pod, record.state, rows)
        record.scores = tuple(scores[one.plugin.name] for one in profile.score if one.plugin.name in scores)
    watch.lap(SCORE.label, SUCCESS)
    return leaders


def _totals(record: SchedulingRecord, known: KnownClass | None, scores: Iterable[PluginScores]) -> Scores:
    """The weighted points of the plugins with columns, and these."""
    rows = record.feasible
    totals = np.zeros(len(rows), dtype=np.int64) if known is None else known.totals(record.pod, record.state, rows)
    for one in scores:
        totals += one.points
    return totals


# --- PreFilter and Filter ---------------------------------------------------------------------------------------------


def _filter(
    profile: Profile,
    record: SchedulingRecord,
    view: Cache,
    watch: Stopwatch,
    sampler: NodeSampler,
    engine: ClassEngine | None,
) -> KnownClass | None:
    """Returns what is known of the pod's class, where that can be used for scoring, too."""
    record.status = held_status(record.pod, profile.enabled, profile.extenders)
    if not record.status.is_success:
        record.diagnosis.pre_filter = record.status
        return None
    known = engine.known(record.pod, watch) if engine is not None else None
    skipped: set[str] = set()
    record.skipped = skipped
    if known is not None and not _pre_filter_known(known, record, view.nodes, skipped, watch):
        known = None
    if known is None:
        record.status = _pre_filter(profile.pre_filter, record, view.nodes, skipped, watch)
    watch.lap(PRE_FILTER.label, record.status)
    filters = Filters(profile, record.pod, view.nominated.before(record.pod), skipped, watch, known)
    if record.status.is_success:
        record.feasible = NodeSearch(filters, record, view.nodes).run(sampler)
        if not len(record.feasible):
            record.status = Status(Code.UNSCHEDULABLE)
        watch.lap(FILTER.label, SUCCESS)  # a pass over the nodes succeeds also where it leaves none over
    else:
        record.diagnosis.pre_filter = record.status
    if not record.status.is_success:
        record.state.write(filters.dry_run(view.nominated.row_changes))
        record.state.write(HearsOfPod(profile.listener, record.pod))
    return known


def _pre_filter_known(
    known: KnownClass, record: SchedulingRecord, nodes: NodeTable, skipped: set[str], watch: Stopwatch
) -> bool:
    """PreFilter of the plugins that nothing is kept of. Unless it succeeds for all nodes, the record is as before."""
    known.prepare(record.state)
    skipped |= known.skipped
    status = _pre_filter(known.live_pre_filter, record, nodes, skipped, watch)
    if status.is_success and record.node_names is None:
        return True
    skipped.clear()
    record.state = CycleState()
    record.node_names, record.narrowed_by, record.diagnosis.narrowed_by = None, (), frozenset()
    return False


def _without_node(profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch) -> None:
    """Ask PostFilter if the pod was judged. A held pod was not, and keeps its nomination; an error takes it back."""
    if record.state.find(DryRun) is not None:
        run_post_filter(profile, record, nodes, watch)
    elif record.status.code is Code.ERROR or not record.num_all_nodes:
        record.nominated_node_name = ""


def _pre_filter(
    plugins: Sequence[PreFilterPlugin],
    record: SchedulingRecord,
    nodes: NodeTable,
    skipped: set[str],
    watch: Stopwatch,
) -> Status:
    """Run PreFilter; an unresolvable rejection ends it at once, a resolvable one after all have run (Q18)."""
    remembered = SUCCESS
    for plugin in plugins:
        result = call_pre_filter(plugin, record.state, record.pod, nodes, watch)
        status = result.status
        if status.is_skip:
            skipped.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return status.by(plugin.name)
        elif status.is_rejected:
            remembered = status.by(plugin.name)
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


def _pre_score(
    plugins: Sequence[PreScorePlugin], record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch
) -> set[str]:
    skipped: set[str] = set()
    for plugin in plugins:
        if call_pre_score(plugin, record.state, record.pod, nodes, record.feasible, watch).is_skip:
            skipped.add(plugin.name)
    watch.lap(PRE_SCORE.label, SUCCESS)
    return skipped


def _prioritize_known(
    profile: Profile, record: SchedulingRecord, nodes: NodeTable, watch: Stopwatch, known: KnownClass | None
) -> Leaders | None:
    try:
        return prioritize(profile, record, nodes, watch, known)
    except PluginFailure as failure:
        if known is None:
            raise
        watch.asked(failure.point, failure.plugin)
        # of several that fail, the profile's order tells which is named
        leaders = prioritize(profile, record, nodes, watch)
        failure.tell(profile.listener, record.pod)  # asked again, it has answered: else it would be told there
        return leaders


# --- choosing ---------------------------------------------------------------------------------------------------------


def _choose(record: SchedulingRecord, nodes: NodeTable, leaders: Leaders | None) -> int:
    """The row with the most points; among equals the highest mix of pod UID and node name, then the first name."""
    if leaders is not None:
        rows, hashes = leaders.rows, leaders.hashes
    else:
        rows = _best(record.feasible, record.totals)
        hashes = values_at(nodes.name_hash, compact(rows))
    if len(rows) == 1:
        return rows.item()
    mixed = mix(hashes, stable_hash(record.pod.uid))
    first = mixed.argmax()
    is_tied = mixed == mixed[first]
    if np.count_nonzero(is_tied) == 1:
        return rows.item(first)
    tied: list[int] = rows[is_tied].tolist()
    return min(tied, key=nodes.name_of)


def _best(rows: Rows, totals: Scores) -> Rows:
    """Those with the most points; all where nothing was scored."""
    if not len(totals):
        return rows
    best = (totals == totals[totals.argmax()]).nonzero()[0]  # `flatnonzero` costs as much again
    return rows if len(best) == len(rows) else rows.take(best)
