"""The scheduling cycle: a function from (profile, pod, cache) to a record. No await, no randomness, no clock.

    held? -> PreFilter -> Filter -> [extenders] -> [one node: done] -> PreScore -> Score -> normalise -> weigh -> choose
                 |           '--> no node fits: PostFilter (preemption)
                 '--> pod rejected: PostFilter, too

An `evaluator` judges the rows: plugin by plugin, or by the pod's class (`choosing_evaluator` decides which). Filter is
in `node_search`, PostFilter in `post_filter`. Every node that passes is scored, unless `percentageOfNodesToScore` is
set: then the caller keeps a `NodeSampler`, which says where the search starts. Among nodes with equal points, the one
with the highest hash of pod UID and node name wins, so the same objects always give the same decision; for members of
pod groups the order of visits decides (`visiting_ties`). For a pod that concerns extenders the cycle runs twice:
`with_extenders.narrow` tells how.
"""

from kscheduler.framework.cluster.pod_groups import CycleOfGroup, NodeRanks
from kscheduler.framework.cluster.preemption import VictimReview
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import SUCCESS, Code, Fault, Status, error
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.classes.known_class import Repeat
from kscheduler.scheduling.cycle.by_class import ClassEvaluator, PlainEvaluator
from kscheduler.scheduling.cycle.choice import choose
from kscheduler.scheduling.cycle.choosing_evaluator import pre_filtered, prioritize
from kscheduler.scheduling.cycle.dry_runs import dry_run
from kscheduler.scheduling.cycle.evaluator import CycleInputs, Evaluator, Priorities
from kscheduler.scheduling.cycle.node_search import NodeSearch
from kscheduler.scheduling.cycle.passes import Filters
from kscheduler.scheduling.cycle.post_filter import run_post_filter
from kscheduler.scheduling.cycle.repeated import repeated
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.cycle.with_extenders import add_points, narrow
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import NO_NODES, NO_ROWS, NO_SCORES, SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import FILTER, PRE_FILTER
from kscheduler.scheduling.runtime.status_text import ReportTarget
from kscheduler.scheduling.runtime.timing import UNTIMED, Stopwatch
from kscheduler.state.cache import Cache


def schedule(
    profile: Profile,
    pod: PodInfo,
    cache: Cache,
    stopwatch: Stopwatch = UNTIMED,
    sampler: NodeSampler | None = None,
    engine: ClassEngine | None = None,
    answers: ExtenderResults | None = None,
    within: Rows | None = None,
    search_budget: SearchTimeBudget | None = None,
    group: CycleOfGroup | None = None,
) -> SchedulingRecord:
    """Choose a node. The record says which, or why none; a plugin's failure is an Error in it, never an exception.

    `sampler` says where a search for a share of the nodes starts, and is moved on; without it, at the first node.
    `engine` is the profile's class engine over this cache: with it, the same decision costs less. `answers` are those
    of extenders, `UNASKED` before the first question; `None`: the pod concerns none. With them the record may be a
    success with `queries` instead of a node, and the engine is not used: no plugin signs what an extender says.
    `within`: the only rows that count as nodes for this pod (intp, ascending), as for a placement of its group; the
    engine, whose columns are about all nodes, is not used then either. `search_budget`: with a `rest`, the record is
    worth nothing; `None`: the cycle searches to its end. `group`: the trial of the pod's group that this cycle is a
    part of.
    """
    record = _new_record(profile, pod, cache, within)
    if search_budget is not None:
        record.state.write(search_budget)
    if group is not None:
        record.state.write(group)
    if record.status.is_success:
        inputs = CycleInputs(profile, pod, cache.nodes, cache.nominated.before(pod), stopwatch, within)
        # A row's amounts do not tell whether devices stand for a resource: such pods are judged without columns.
        # And nothing is kept for a pod whose required node affinity names nodes, as for those of DaemonSets.
        affinity = pod.pod.spec.affinity
        names_nodes = affinity is not None and affinity.node_affinity is not None and pod.names_nodes
        is_plain = within is not None or answers is not None or names_nodes or cache.devices.serve(pod)
        by_class = None if is_plain else engine
        repeat = None
        if by_class is not None and (group is None or group.ranks is None) and search_budget is None:
            repeat = by_class.repeated(pod, stopwatch)
            row = -1 if repeat is None else repeated(record, inputs, repeat, by_class, sampler)
            if row >= 0:
                record.node_name = cache.nodes.name_of(row)
                return record
        try:
            ranks = None if group is None else group.ranks
            evaluator = _find_feasible(inputs, record, cache, sampler, by_class, answers, ranks, repeat)
            if not record.queries and record.status.is_success:
                row = (
                    record.feasible.item()
                    if len(record.feasible) == 1
                    else _score_and_choose(evaluator, inputs, record, answers, sampler)
                )
                record.node_name = cache.nodes.name_of(row)
            if repeat is None and by_class is not None and isinstance(evaluator, ClassEvaluator):
                by_class.note_repeat(pod, evaluator.known)
        except PluginFailure as failure:
            record.status = failure.end(stopwatch, profile.listener, pod)
    if not record.status.is_success:
        _handle_no_node(profile, record, cache.nodes, stopwatch)
    return record


def find_feasible(
    profile: Profile, pod: PodInfo, cache: Cache, stopwatch: Stopwatch = UNTIMED, sampler: NodeSampler | None = None
) -> SchedulingRecord:
    """Run only PreFilter and Filter; `feasible` of the record holds the rows that the pod fits on."""
    record = _new_record(profile, pod, cache)
    if record.status.is_success:
        inputs = CycleInputs(profile, pod, cache.nodes, cache.nominated.before(pod), stopwatch)
        try:
            _find_feasible(inputs, record, cache, sampler, engine=None)
        except PluginFailure as failure:
            record.status = failure.end(stopwatch, profile.listener, pod)
    return record


def score_feasible(profile: Profile, record: SchedulingRecord, nodes: NodeTable) -> None:
    """Score the feasible rows of a record if the cycle did not need to. Raises `PluginFailure`."""
    inputs = CycleInputs(profile, record.pod, nodes, None, UNTIMED)
    _write_priorities(PlainEvaluator(inputs).prioritize(record.state, record.feasible), record, inputs)


def dry_run_of(profile: Profile, record: SchedulingRecord, cache: Cache) -> DryRun:
    """The filters of a cycle that has ended, over the cache as it will be. The record's state must be of all plugins:
    made without a class engine.
    """
    inputs = CycleInputs(profile, record.pod, cache.nodes, cache.nominated.before(record.pod), UNTIMED)
    return dry_run(Filters(inputs, record.skipped), lambda: None, cache.nominated.row_changes)


def _new_record(profile: Profile, pod: PodInfo, cache: Cache, within: Rows | None = None) -> SchedulingRecord:
    """A new record. Its status is no success if there are no nodes, or a plugin of the profile is quarantined."""
    rows = cache.nodes.rows() if within is None else within
    # What has a default is passed as well where the default would have to be called for.
    record = SchedulingRecord(
        pod, profile.name, len(rows), state=CycleState(), feasible=NO_ROWS, totals=NO_SCORES, diagnosis=Diagnosis()
    )
    record.diagnosis.names = cache.nodes.names()
    if not record.num_all_nodes:
        record.status = NO_NODES
        return record
    if profile.failing is not None:
        message, plugin = profile.failing.message, profile.failing.plugin
        record.status = error(message, plugin=plugin, fault=Fault.QUARANTINED)
        if profile.supervisor is not None:
            profile.supervisor.asks_for(plugin, pod)
    return record


# --- PreFilter and Filter ---------------------------------------------------------------------------------------------


def _find_feasible(
    inputs: CycleInputs,
    record: SchedulingRecord,
    cache: Cache,
    sampler: NodeSampler | None,
    engine: ClassEngine | None,
    answers: ExtenderResults | None = None,
    ranks: NodeRanks | None = None,
    repeat: Repeat | None = None,
) -> Evaluator:
    """Run PreFilter and Filter; returns the evaluator for the rest of the cycle. Raises `PluginFailure`."""
    evaluator, found = pre_filtered(inputs, record.state, engine, repeat)
    record.status, record.skipped = found.status, found.skipped
    if found.narrowed_by:
        record.node_names, record.narrowed_by = found.node_names, found.narrowed_by
        record.diagnosis.narrowed_by = frozenset(found.narrowed_by)
    inputs.stopwatch.lap(PRE_FILTER.label, found.status)
    if found.status.is_success:
        record.feasible = NodeSearch(evaluator, inputs, record, answers, ranks).run(sampler or NodeSampler())
        if not len(record.feasible):
            record.status = Status(Code.UNSCHEDULABLE)
        elif answers is not None and answers.is_about_nodes:
            narrow(record, answers)
        if ranks is not None and len(record.feasible) > 1:
            costs = ranks.of(record.feasible)
            record.feasible = record.feasible[costs == costs.min()]
        inputs.stopwatch.lap(FILTER.label, SUCCESS)  # counted as a success even if no node passes
    else:
        record.diagnosis.pre_filter = found.status
    if not record.status.is_success and record.status.code is not Code.ERROR:
        record.state.write(evaluator.dry_run(cache.nominated.row_changes))
        record.state.write(ReportTarget(inputs.profile.listener, inputs.pod))
        if answers is not None and answers.victims is not None:
            record.state.write(VictimReview(answers.victims.reviewed, answers.victims.failure))
    return evaluator


def _handle_no_node(profile: Profile, record: SchedulingRecord, nodes: NodeTable, stopwatch: Stopwatch) -> None:
    """Run PostFilter if the pod was judged. An error clears the pod's nomination; a held pod keeps it."""
    if record.state.find(DryRun) is not None:
        run_post_filter(profile, record, nodes, stopwatch)
        review = record.state.find(VictimReview)
        record.victim_queries = review.queries if review is not None else ()
    elif record.status.code is Code.ERROR or not record.num_all_nodes:
        record.nominated_node_name = ""


# --- Score and choosing -----------------------------------------------------------------------------------------------


def _score_and_choose(
    evaluator: Evaluator,
    inputs: CycleInputs,
    record: SchedulingRecord,
    answers: ExtenderResults | None,
    sampler: NodeSampler | None,
) -> int:
    """Run PreScore and Score, and choose a row. Raises `PluginFailure`."""
    priorities = prioritize(evaluator, inputs, record.state, record.feasible)
    _write_priorities(priorities, record, inputs)
    if answers is not None:
        add_points(record, answers)
    return choose(record, inputs, priorities.leaders, sampler)


def _write_priorities(priorities: Priorities, record: SchedulingRecord, inputs: CycleInputs) -> None:
    record.totals, record.scores = priorities.totals, priorities.by_plugin
    if inputs.left_out is not None:
        record.left_out = tuple(inputs.left_out)
    if priorities.leaders is not None:
        record.most_points = priorities.leaders.points
