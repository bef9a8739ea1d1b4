"""What extenders have said about a member of a pod group, as plain values in an entry, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.extenders.answers import ExtenderAnswers, ExtenderPoints

PackedAnswers = Sequence[Any]
"""[pod, is about nodes, asked, left, [[node, status], ...], [[extender, weight, [[node, points], ...]], ...], status,
who objects]; a status is [code, reasons, plugin, fault].
"""


def pack_answers(known: Mapping[str, ExtenderAnswers]) -> list[PackedAnswers]:
    """By key of the member."""
    return [
        (
            key,
            answers.is_about_nodes,
            sorted(answers.asked),
            sorted(answers.left),
            [(node, _packed(status)) for node, status in answers.turned_down.items()],
            [(each.extender, each.weight, list(each.by_node.items())) for each in answers.points],
            _packed(answers.status),
            answers.objectors,
        )
        for key, answers in known.items()
    ]


def unpack_answers(packed: Sequence[PackedAnswers]) -> dict[str, ExtenderAnswers]:
    """Raises `ValueError` or `TypeError` for what `pack_answers` has not written."""
    found = {}
    for key, is_about_nodes, asked, left, turned_down, points, status, objectors in packed:
        found[key] = ExtenderAnswers(
            frozenset(asked),
            frozenset(left),
            {node: _status(each) for node, each in turned_down},
            tuple(ExtenderPoints(extender, weight, dict(by_node)) for extender, weight, by_node in points),
            _status(status),
            is_about_nodes,
            failed_by=", ".join(objectors),
        )
    return found


def _packed(status: Status) -> tuple[int, Sequence[str], str, str]:
    return int(status.code), status.reasons, status.plugin, status.fault.value


def _status(packed: Sequence[Any]) -> Status:
    code, reasons, plugin, fault = packed
    return Status(Code(code), tuple(reasons), plugin, Fault(fault))
