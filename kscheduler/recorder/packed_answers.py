"""What extenders have said about a member of a pod group, as plain values in an entry, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.extenders.extender_results import ExtenderPoints, ExtenderResults

# [pod, is about nodes, asked, left, [[node, status], ...], [[extender, weight, [[node, points], ...]], ...], status,
# who objects]; a status is [code, reasons, plugin, fault].
PackedAnswers = Sequence[Any]


def pack_answers(known: Mapping[str, ExtenderResults]) -> list[PackedAnswers]:
    """By key of the member."""
    return [
        (
            key,
            answers.is_about_nodes,
            sorted(answers.asked_nodes),
            sorted(answers.left),
            [(node, _packed(status)) for node, status in answers.rejected.items()],
            [(each.extender, each.weight, list(each.by_node.items())) for each in answers.points],
            _packed(answers.status),
            answers.objectors,
        )
        for key, answers in known.items()
    ]


def unpack_answers(packed: Sequence[PackedAnswers]) -> dict[str, ExtenderResults]:
    """Raises `ValueError` or `TypeError` for what `pack_answers` has not written."""
    found = {}
    for key, is_about_nodes, asked_nodes, left, rejected, points, status, objectors in packed:
        found[key] = ExtenderResults(
            frozenset(asked_nodes),
            frozenset(left),
            {node: _status(each) for node, each in rejected},
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
