"""What a cycle's record says of nodes and points, for those who ask for very much (-v 5, 6, 10).

Lines per pod are bounded whatever the cluster: `MOST_NODES` nodes that were turned down, `BEST_NODES` that were scored.
`explain` has all of them.
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

Told = tuple[str, dict[str, Any]]
"""A line's name and fields."""


def lines_of(record: SchedulingRecord) -> Iterator[Told]:
    """As much as the verbosity asks for, from 5."""
    yield from _by_plugin(record)
    if verbose(NODES):
        yield from islice(_by_node(record.diagnosis), MOST_NODES)
    if verbose(SCORES) and len(record.totals):
        yield from _points(record)


def _by_plugin(record: SchedulingRecord) -> Iterator[Told]:
    turned_down = record.diagnosis.pre_filter
    if turned_down.code is not Code.SUCCESS:
        yield "nodes_rejected", {**_verdict(turned_down.plugin, turned_down), "nodes": record.num_all_nodes}
    for rejection in record.diagnosis.rejections:
        for status, nodes in rejection.counted():
            yield "nodes_rejected", {**_verdict(rejection.plugin, status), "nodes": nodes}


def _by_node(diagnosis: Diagnosis) -> Iterator[Told]:
    for rejection in diagnosis.rejections:
        statuses: dict[int, Status] = {}
        for row, code in zip(rejection.rows.tolist(), rejection.codes.tolist(), strict=True):
            status = statuses.get(code)
            if status is None:
                status = statuses[code] = rejection.status_of(code)
            yield "node_rejected", {"node": diagnosis.names[row], **_verdict(rejection.plugin, status)}


def _verdict(plugin: str, status: Status) -> dict[str, Any]:
    return {"plugin": plugin, "reasons": list(status.reasons), "status": status.code.label}


def _points(record: SchedulingRecord) -> Iterator[Told]:
    """Of the nodes with the most points, the best first, and among equals the chosen one."""
    is_other = np.array([record.diagnosis.names[row] != record.node_name for row in record.feasible.tolist()])
    best = np.lexsort((is_other, -record.totals))[:BEST_NODES].tolist()
    names = {place: record.diagnosis.names[int(record.feasible[place])] for place in best}
    for place in best:
        for one in record.scores:
            fields = {"node": names[place], "score": int(one.points[place]), "weight": one.weight}
            yield "plugin_scored_node", {"plugin": one.plugin, **fields}
        is_chosen = names[place] == record.node_name
        yield "node_final_score", {"node": names[place], "score": int(record.totals[place]), "chosen": is_chosen}
