"""A decision for a person: where the pod goes and why, how many nodes each rule turned down, and who gave the points.

Names and reasons come from other people's objects, so characters that could steer a terminal are taken out of them.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from kscheduler.explain.preemption_text import preemption_lines
from kscheduler.explain.printable import printable, some
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.whatif.decide import Decision

_EXAMPLES: Final = 3
"""Nodes that are named for each reason."""
_NARROWEST_NODE: Final = 6
_DEFAULT_WIDTH: Final = 100
_INDENT: Final = "  "

_BOLD, _RED, _GREEN, _DIM = "1", "31", "32", "2"


@dataclass(frozen=True, slots=True)
class Style:
    """How the text is laid out."""

    colour: bool = False
    width: int = _DEFAULT_WIDTH
    """Columns; nodes that do not fit beside each other are left out of the table of points."""

    def paint(self, text: str, code: str) -> str:
        """The text in a colour, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


def style_of(stream: TextIO) -> Style:
    """Colours and width for a terminal (unless NO_COLOR is set); plain text for everything else."""
    if not stream.isatty():
        return Style()
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        width = _DEFAULT_WIDTH
    return Style(colour=not os.environ.get("NO_COLOR"), width=max(width, 40))


def decision_text(decision: Decision, style: Style = Style()) -> str:
    """The whole answer, without a line end."""
    return "\n".join(_lines(decision, style))


def _lines(decision: Decision, style: Style) -> Iterator[str]:
    pod = printable(decision.scenario.pod.key)
    prefix = f"[{printable(decision.scenario.id)}] " if decision.scenario.id else ""
    title = f"{prefix}{style.paint(pod, _BOLD)}"
    if decision.error:
        yield f"{title}: {style.paint('error', _RED)}: {printable(decision.error)}"
    elif decision.pre_enqueue is not None:
        yield f"{title}: {style.paint('held', _RED)} before the queue"
        yield _INDENT + _status_text(decision.pre_enqueue)
    elif decision.record is not None:
        yield f"{title}: {_outcome(decision.record, style)}"
        yield from (f"{_INDENT}{line}".rstrip() for line in _record_lines(decision.record, style))


def _outcome(record: SchedulingRecord, style: Style) -> str:
    if record.node_name:
        return f"goes to {style.paint(printable(record.node_name), _GREEN)}"
    return style.paint("fits on no node", _RED)


def _record_lines(record: SchedulingRecord, style: Style) -> Iterator[str]:
    if not record.num_all_nodes:
        yield printable(record.message)
        return
    if record.node_names is not None:
        names = ", ".join(some(sorted(record.node_names), _EXAMPLES))
        yield f"only these nodes were looked at ({', '.join(record.narrowed_by)}): {names}"
    if record.diagnosis.pre_filter.code is not Code.SUCCESS:
        yield f"turned down for all {record.num_all_nodes} nodes at once"
        yield _INDENT + _status_text(record.diagnosis.pre_filter)
    else:
        yield f"{len(record.feasible)} of {record.num_all_nodes} nodes fit"
        yield from _points(record, style)
        yield from _rejections(record)
    yield from preemption_lines(record)
    if record.message:
        yield ""
        yield f"event: {style.paint(printable(record.message), _DIM)}"


def _status_text(status: Status) -> str:
    return f"{status.plugin}: {printable(status.message)}" if status.plugin else printable(status.message)


# --- who turned nodes down --------------------------------------------------------------------------------------------


def _rejections(record: SchedulingRecord) -> Iterator[str]:
    """Per plugin, in the order they ran, and per reason: how many nodes, and which for example."""
    for plugin, of_plugin in _rejected_nodes(record).items():
        yield ""
        count = sum(map(len, of_plugin.values()))
        yield f"{plugin or 'PreFilter'} turned {count} {'node' if count == 1 else 'nodes'} down"
        most_first = sorted(of_plugin.items(), key=lambda entry: (-len(entry[1]), entry[0].reasons))
        rows = [_rejection_row(status, names) for status, names in most_first]
        yield from (f"{_INDENT}{line}" for line in _aligned(rows, right={0}))


def _rejected_nodes(record: SchedulingRecord) -> dict[str, dict[Status, list[str]]]:
    nodes: dict[str, dict[Status, list[str]]] = {}
    for node, status in record.diagnosis.by_node():
        nodes.setdefault(status.plugin, {}).setdefault(status, []).append(node)
    return nodes


def _rejection_row(status: Status, names: list[str]) -> tuple[str, ...]:
    is_hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    help_text = "no preemption helps" if is_hopeless else "preemption might help"
    return str(len(names)), printable(status.message), help_text, ", ".join(some(sorted(names), _EXAMPLES))


# --- who gave points --------------------------------------------------------------------------------------------------


def _points(record: SchedulingRecord, style: Style) -> Iterator[str]:
    """The best nodes side by side, one line per plugin, weights included."""
    if not len(record.totals):
        return
    names = record.feasible_names()
    best = sorted(range(len(names)), key=lambda at: (names[at] != record.node_name, -record.totals[at], names[at]))
    columns = [("points", *(_plugin_label(one.plugin, one.weight) for one in record.scores), "total")]
    for at in best:
        points = [str(int(one.points[at])) for one in record.scores]
        columns.append((printable(names[at]), *points, str(int(record.totals[at]))))
    shown = _that_fit(columns, style.width - 2 * len(_INDENT))
    yield ""
    yield from (
        f"{_INDENT}{line}" for line in _aligned(list(zip(*shown, strict=True)), right=set(range(1, len(shown))))
    )
    if len(shown) < len(columns):
        yield f"{_INDENT}(the best {len(shown) - 1} of {len(names)} nodes that fit)"


def _plugin_label(plugin: str, weight: int) -> str:
    return plugin if weight == 1 else f"{plugin} (weight {weight})"


def _that_fit(columns: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The first columns that stand beside each other, the labels and one node at least."""
    shown: list[tuple[str, ...]] = []
    used = 0
    for column in columns:
        used += max(_NARROWEST_NODE, *map(len, column)) + 2
        if used > width and len(shown) > 1:
            break
        shown.append(column)
    return shown


def _aligned(rows: list[tuple[str, ...]], right: set[int]) -> Iterator[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]

    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in cells).rstrip()
