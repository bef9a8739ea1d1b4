"""Log lines about the nodes and points of a cycle's record, at high verbosity (-v 5, 6, 10).

The number of lines per pod is bounded: `MOST_NODES` rejected nodes, `BEST_NODES` scored nodes. `explain` shows all.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import Code, Status
from kscheduler.logs import verbose
from kscheduler.scheduling.pod_log.lines import NODES, SCORES
from kscheduler.scheduling.record import SchedulingRecord

MOST_NODES: Final = 100
BEST_NODES: Final = 10

LogLine = tuple[str, dict[str, Any]]
"""A line's name and fields."""


def lines_of(record: SchedulingRecord) -> Iterator[LogLine]:
    """The lines for the current verbosity, from 5."""
    yield from _by_plugin(record)
    if verbose(NODES):
        yield from islice(_by_node(record.diagnosis), MOST_NODES)
    if verbose(SCORES) and len(record.totals):
        yield from _points(record)


def _by_plugin(record: SchedulingRecord) -> Iterator[LogLine]:
    rejected = record.diagnosis.pre_filter
    if rejected.code is not Code.SUCCESS:
        yield "nodes_rejected", {**_verdict(rejected.plugin, rejected), "nodes": record.num_all_nodes}
    for rejection in record.diagnosis.rejections:
        for status, nodes in rejection.counted():
            yield "nodes_rejected", {**_verdict(rejection.plugin, status), "nodes": nodes}


def _by_node(diagnosis: Diagnosis) -> Iterator[LogLine]:
    for rejection in diagnosis.rejections:
        statuses: dict[int, Status] = {}
        for row, code in zip(rejection.rows.tolist(), rejection.codes.tolist(), strict=True):
            status = statuses.get(code)
            if status is None:
                status = statuses[code] = rejection.status_of(code)
            yield "node_rejected", {"node": diagnosis.names[row], **_verdict(rejection.plugin, status)}


def _verdict(plugin: str, status: Status) -> dict[str, Any]:
    return {"plugin": plugin, "reasons": list(status.reasons), "status": status.code.label}


def _points(record: SchedulingRecord) -> Iterator[LogLine]:
    """The nodes with the most points, the best first; among equals, the chosen node comes first."""
    is_other = np.array([record.diagnosis.names[row] != record.node_name for row in record.feasible.tolist()])
    best = np.lexsort((is_other, -record.totals))[:BEST_NODES].tolist()
    names = {place: record.diagnosis.names[int(record.feasible[place])] for place in best}
    for place in best:
        for scores in record.scores:
            fields = {"node": names[place], "score": int(scores.points[place]), "weight": scores.weight}
            yield "plugin_scored_node", {"plugin": scores.plugin, **fields}
        is_chosen = names[place] == record.node_name
        yield "node_final_score", {"node": names[place], "score": int(record.totals[place]), "chosen": is_chosen}
