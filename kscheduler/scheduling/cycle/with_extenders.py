"""The extenders' part of a cycle: of the nodes that fit now, those that the extenders have left.

The problem: a cycle never awaits, and an extender may take seconds. The idea: a decision that needs extenders is made
twice. The first time nobody has been asked: the cycle ends with `queries`, the nodes that the pod fits on. When the
answers are there, the cycle runs again over the nodes as they are then:

    fits now and was left by the extenders     may be chosen, with the extenders' points
    fits now and was rejected                  is rejected, with the reason of the extender
    fits now and nobody was asked about it     may not be chosen; if no other node is left, it is asked about next
    does not fit now                           is rejected as always, whatever an extender said before

So nothing is ever decided on evidence that no longer holds, and while extenders think, nothing is assumed and every
other pod goes on. The caller bounds how often it asks.
"""

from collections.abc import Sequence

import numpy as np

from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.record import PluginScores, SchedulingRecord


def narrow(record: SchedulingRecord, answers: ExtenderResults) -> None:
    """Take from the feasible rows what the extenders rejected, or put down which nodes they must be asked about."""
    if not answers.status.is_success:
        record.status = answers.status
        return
    names = record.feasible_names()
    is_left = np.array([name in answers.left for name in names], dtype=np.bool_)
    if not is_left.any() and any(name not in answers.asked_nodes for name in names):
        record.queries = tuple(names)
        return
    is_rejected = np.array([name in answers.rejected for name in names], dtype=np.bool_) & ~is_left
    if is_rejected.any():
        rows = record.feasible[is_rejected]
        record.diagnosis.rejections.append(_rejection(rows, answers, record.diagnosis.names))
    record.feasible = record.feasible[is_left]
    if not len(record.feasible):
        record.status = Status(Code.UNSCHEDULABLE)


def _rejection(rows: Rows, answers: ExtenderResults, names: Sequence[str]) -> Rejection:
    """One for all rows: a number for each distinct status, negative where preemption cannot help."""
    by_row = [answers.rejected[names[row]] for row in rows.tolist()]
    distinct = list(dict.fromkeys(by_row))
    numbers = {
        status: number if status.code is Code.UNSCHEDULABLE else -number
        for number, status in enumerate(distinct, start=1)
    }
    codes = np.array([numbers[status] for status in by_row], dtype=np.int64)
    return Rejection(EXTENDER, rows, codes, lambda code: distinct[abs(code) - 1])


def add_points(record: SchedulingRecord, answers: ExtenderResults) -> None:
    """Add the extenders' points to those of the plugins, which must have been worked out for each feasible row."""
    names = record.feasible_names()
    given = tuple(
        PluginScores(
            points.extender,
            points.weight,
            np.array([points.by_node.get(name, 0) for name in names], dtype=np.int64),
        )
        for points in answers.points
    )
    record.scores = (*record.scores, *given)
    record.totals = sum((scores.points for scores in given), start=record.totals)
