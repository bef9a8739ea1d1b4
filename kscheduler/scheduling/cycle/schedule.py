"""The scheduling cycle: a function of (profile, pod, view) to a record. No await, no random, no clock that decides.

    held? -> PreFilter -> Filter -> [one node: done] -> PreScore -> Score -> normalise -> weigh -> choose
                 |           '--> no node: PostFilter (preemption)
                 '--> turned down: likewise

How rows are judged is a matter of the `evaluator`: plugin by plugin, or by class (`fallback` tells which). Filter is
`node_search`, PostFilter `post_filter`. Every node that passes is scored, unless `percentageOfNodesToScore` is set:
then the caller keeps a `NodeSampler`, which says where the search begins. Among equals the winner is the one with the
highest stable mix of pod UID and node name, so any decision can be made again from the same objects.
"""

import numpy as np

from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores, stable_hash
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.ties import mix
from kscheduler.framework.status import SUCCESS, Code, Status
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.cycle import fallback
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, Priorities
from kscheduler.scheduling.cycle.node_search import NodeSearch
from kscheduler.scheduling.cycle.plain import PlainEvaluator
from kscheduler.scheduling.cycle.post_filter import run_post_filter
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.missing_rules import held_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import NO_NODES, SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import FILTER, PRE_FILTER
from kscheduler.scheduling.runtime.status_text import HearsOfPod
from kscheduler.scheduling.runtime.timing import UNTIMED, Stopwatch
from kscheduler.state.cache import Cache


def schedule(
    profile: Profile,
    pod: PodInfo,
    view: Cache,
    stopwatch: Stopwatch = UNTIMED,
    sampler: NodeSampler | None = None,
    engine: ClassEngine | None = None,
) -> SchedulingRecord:
    """Choose a node. The record tells which, or why none; a plugin's failure is an Error in it, never an exception.

    `sampler` says where a search for a share of the nodes begins, and is moved on; without one at the first node.
    `engine` is that of the profile over the view: it makes the same decision from what it knows of the pod's class.
    """
    record = _begun(profile, pod, view)
    if record.status.is_success:
        inputs = CycleInputs(profile, pod, view.nodes, view.nominated.before(pod), stopwatch)
        try:
            evaluator = _find_feasible(inputs, record, view, sampler, engine)
            if record.status.is_success:
                row = record.feasible.item() if len(record.feasible) == 1 else _best_row(evaluator, inputs, record)
                record.node_name = view.nodes.name_of(row)
        except PluginFailure as failure:
            record.status = failure.end(stopwatch, profile.listener, pod)
    if not record.status.is_success:
        _without_node(profile, record, view.nodes, stopwatch)
    return record


def find_feasible(
    profile: Profile, pod: PodInfo, view: Cache, stopwatch: Stopwatch = UNTIMED, sampler: NodeSampler | None = None
) -> SchedulingRecord:
    """PreFilter and Filter: which nodes the pod fits on."""
    record = _begun(profile, pod, view)
    if record.status.is_success:
        inputs = CycleInputs(profile, pod, view.nodes, view.nominated.before(pod), stopwatch)
        try:
            _find_feasible(inputs, record, view, sampler, engine=None)
        except PluginFailure as failure:
            record.status = failure.end(stopwatch, profile.listener, pod)
    return record


def score_feasible(profile: Profile, record: SchedulingRecord, nodes: NodeTable) -> None:
    """Give the feasible rows of a record their points, where the cycle had no need of them. Raises `PluginFailure`."""
    evaluator = PlainEvaluator(CycleInputs(profile, record.pod, nodes, None, UNTIMED))
    _take_down(evaluator.prioritize(record.state, record.feasible), record)


def _begun(profile: Profile, pod: PodInfo, view: Cache) -> SchedulingRecord:
    """A record; without success where there is nothing to judge, or where the pod is not to be judged."""
    record = SchedulingRecord(pod, profile.name, num_all_nodes=len(view.nodes))
    record.diagnosis.names = view.nodes.names()
    if not record.num_all_nodes:
        record.status = NO_NODES
        return record
    record.status = held_status(pod, profile.enabled, profile.extenders)
    if not record.status.is_success:
        record.diagnosis.pre_filter = record.status
    return record


# --- PreFilter and Filter ---------------------------------------------------------------------------------------------


def _find_feasible(
    inputs: CycleInputs,
    record: SchedulingRecord,
    view: Cache,
    sampler: NodeSampler | None,
    engine: ClassEngine | None,
) -> Evaluator:
    """PreFilter and Filter; returns who has judged. Raises `PluginFailure`."""
    evaluator, found = fallback.pre_filtered(inputs, record.state, engine)
    record.status, record.skipped = found.status, found.skipped
    if found.narrowed_by:
        record.node_names, record.narrowed_by = found.node_names, found.narrowed_by
        record.diagnosis.narrowed_by = frozenset(found.narrowed_by)
    inputs.stopwatch.lap(PRE_FILTER.label, found.status)
    if found.status.is_success:
        record.feasible = NodeSearch(evaluator, inputs, record).run(sampler or NodeSampler())
        if not len(record.feasible):
            record.status = Status(Code.UNSCHEDULABLE)
        inputs.stopwatch.lap(FILTER.label, SUCCESS)  # a pass over the nodes succeeds also where it leaves none over
    else:
        record.diagnosis.pre_filter = found.status
    if not record.status.is_success:
        record.state.write(evaluator.dry_run(view.nominated.row_changes))
        record.state.write(HearsOfPod(inputs.profile.listener, inputs.pod))
    return evaluator


def _without_node(profile: Profile, record: SchedulingRecord, nodes: NodeTable, stopwatch: Stopwatch) -> None:
    """Ask PostFilter if the pod was judged. A held pod was not, and keeps its nomination; an error takes it back."""
    if record.state.find(DryRun) is not None:
        run_post_filter(profile, record, nodes, stopwatch)
    elif record.status.code is Code.ERROR or not record.num_all_nodes:
        record.nominated_node_name = ""


# --- Score and choosing -----------------------------------------------------------------------------------------------


def _best_row(evaluator: Evaluator, inputs: CycleInputs, record: SchedulingRecord) -> int:
    """PreScore, Score, choose. Raises `PluginFailure`."""
    priorities = fallback.prioritize(evaluator, inputs, record.state, record.feasible)
    _take_down(priorities, record)
    return _choose(record, inputs.nodes, priorities.leaders)


def _take_down(priorities: Priorities, record: SchedulingRecord) -> None:
    record.totals, record.scores = priorities.totals, priorities.by_plugin
    if priorities.leaders is not None:
        record.most_points = priorities.leaders.points


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
