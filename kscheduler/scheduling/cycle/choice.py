"""The end of a cycle: one row of those with the most points."""

from kscheduler.config.types import FIRST_IN_ORDER
from kscheduler.framework.nodes.node_table import Rows, stable_hash
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.rules.scoring import highest_mix, mix_of_folded
from kscheduler.scheduling.classes.buckets import BestOfBuckets
from kscheduler.scheduling.classes.leaders import Leaders
from kscheduler.scheduling.cycle.evaluator import CycleInputs
from kscheduler.scheduling.cycle.sampling import NodeSampler
from kscheduler.scheduling.record import SchedulingRecord


def choose(
    record: SchedulingRecord,
    inputs: CycleInputs,
    leaders: Leaders | BestOfBuckets | None,
    sampler: NodeSampler | None = None,
) -> int:
    """The row with the most points; among equals by the profile's tie rule. By `Hash` it is the sampler's choice, or
    else the highest hash of pod UID and node name, then the first name.
    """
    nodes = inputs.nodes
    if leaders is not None:
        rows, hashes = leaders.rows, leaders.hashes
    else:
        rows, record.most_points = _best_rows(record)
        hashes = values_at(nodes.tie_hash, compact(rows))
    if len(rows) == 1:
        return rows.item()
    if inputs.profile.tie_rule == FIRST_IN_ORDER:
        return rows.item(nodes.name_places().take(rows).argmin())
    if sampler is not None and sampler.has_order:
        by_order = sampler.among_equals(nodes, inputs.rows, record.feasible, rows)
        if by_order >= 0:
            return by_order
    seed = stable_hash(record.pod.uid)
    first = highest_mix(hashes, seed)
    if first >= 0:
        return rows.item(first)
    mixed = mix_of_folded(hashes, seed)
    tied: list[int] = rows[mixed == mixed.max()].tolist()
    return min(tied, key=nodes.name_of)


def _best_rows(record: SchedulingRecord) -> tuple[Rows, int | None]:
    """The rows with the most points (intp, ascending), and these; all rows and `None` if nothing was scored."""
    rows, totals = record.feasible, record.totals
    if not len(totals):
        return rows, None
    most = totals.item(totals.argmax())
    best = (totals == most).nonzero()[0]  # `flatnonzero` would double the cost
    return rows if len(best) == len(rows) else rows.take(best), most
