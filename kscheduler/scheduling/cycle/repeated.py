"""The cycle of a pod that is like one before: nothing is asked again that must have the same answer.

Most pods come in runs: a Job, a Deployment that grows. After the first of a run it is known that its class is judged by
columns alone, and that each live plugin skips its pods as long as certain things do not change (`Repeat.versions`). So
for the next one only the rows that have changed are brought up to date, mostly the row of the pod before, and one of
the best rows is chosen. The result is that of the whole cycle by class, also in what the record holds.

Labels that no selector in play names may differ: pods of an Indexed Job have their index as a label. One live plugin
may have to judge the pods, if it judges buckets of rows (`classes.buckets`), as spread and affinity do.

    no pod like it before: spec, labels, namespace, owners; a volume      |
    another live plugin may judge it; a plugin gives no points to a node  |
    many rows have changed, so that leaders by bucket cost more           |
    a pod is nominated: others have to leave it room, or this one is it   |  the whole cycle, which notes
    only some nodes are searched (`percentageOfNodesToScore`)             |  the next repeat
    devices, extenders, a placement, ranks of nodes, a search in slices   |
    no node fits, or only one                                             |
    a plugin fails                                                        |

Where some live plugins must be called, the whole cycle runs, and the others are left out of it (`Repeat.idle`).
"""

from typing import Final

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scheduling.classes.buckets import BestOfBuckets, Buckets
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.classes.known_class import KnownClass, Repeat
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.cycle.choice import choose
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import SIGNATURES

_NO_ROW: Final = -1


def repeated(
    record: SchedulingRecord,
    inputs: CycleInputs,
    repeat: Repeat,
    engine: ClassEngine,
    sampler: NodeSampler | None,
) -> int:
    """Choose a row, and fill the record; -1: the whole cycle must decide, and nothing of the record counts."""
    pod, nodes, known, profile = inputs.pod, inputs.nodes, repeat.known, inputs.profile
    if (
        known is None
        or not (repeat.is_whole or repeat.may_be_by_bucket)
        or inputs.expected is not None
        or pod.pod.status.nominated_node_name
        or profile.percentage_of_nodes_to_score
        or not profile.score
    ):
        return _NO_ROW
    for column, _ in known.scores:
        if column.left_out is not None:
            return _NO_ROW
    feasible = known.passing_by_columns(nodes)
    if len(feasible) < 2:
        return _NO_ROW
    record.state.take(known.states)
    leaders: Leaders | BestOfBuckets | None
    skipped = repeat.skipped
    try:
        if repeat.is_whole:
            leaders = known.leaders(nodes, pod, record.state, feasible)
        else:
            leaders = _best_by_bucket(record, inputs, known, engine.buckets_of(repeat, pod), feasible)
            if leaders is None:
                return _NO_ROW
            feasible = leaders.feasible
            if not leaders.is_filtering:
                skipped = repeat.skipped_all
        if leaders is not None:
            record.most_points = leaders.points
        else:
            record.totals = known.totals(pod, record.state, feasible)
    except PluginFailure:
        return _NO_ROW
    record.skipped, record.feasible = skipped, feasible
    record.num_evaluated_nodes = count = record.num_all_nodes
    if sampler is not None:
        sampler.move_on(count, count)
    inputs.stopwatch.repeated()
    return choose(record, inputs, leaders, sampler)


def _best_by_bucket(
    record: SchedulingRecord, inputs: CycleInputs, known: KnownClass, buckets: Buckets | None, passing: Rows
) -> BestOfBuckets | None:
    """The best rows where a live plugin judges by bucket; `None` if rows must be compared. Raises `PluginFailure`."""
    if buckets is None:
        return None
    best: BestOfBuckets | None = SIGNATURES.call("", buckets.best, known, inputs.nodes, passing)
    if best is None or len(best.feasible) < 2:
        return None
    shared = known.shared_points(inputs.pod, record.state, best.feasible)
    if shared is None:
        return None
    best.points += shared
    return best
