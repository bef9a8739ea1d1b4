"""Who turned nodes down, for a person: counts and reasons in upstream's words, beneath them what exactly is wrong."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.explain.layout import INDENT, aligned, nodes
from kscheduler.explain.printable import printable, some
from kscheduler.explain.rejections import NamedDetail, plugin_rejections
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.whatif.decide import Decision

_EXAMPLES: Final = 3
"""Nodes that are named for each reason."""
_MOST_DETAILS: Final = 6
"""Groups of nodes that are told apart for one plugin."""


def rejection_lines(decision: Decision, record: SchedulingRecord) -> Iterator[str]:
    """Per plugin, in the order they ran, and per reason: how many nodes, which for example, and why exactly."""
    for one in plugin_rejections(decision, record):
        yield ""
        yield f"{one.plugin or 'PreFilter'} turned {nodes(one.count)} down"
        rows = [_row(status, names) for status, names in one.by_status.items()]
        yield from (f"{INDENT}{line}" for line in aligned(rows, right={0}))
        yield from (f"{INDENT}{line}" for line in detail_lines(one.details, one.count))


def detail_lines(details: Sequence[NamedDetail], count: int) -> Iterator[str]:
    """A line per group of nodes. A group that is all `count` of them needs no names."""
    for one in details[:_MOST_DETAILS]:
        beside = f"beside {', '.join(some(list(one.beside), _EXAMPLES))} (nominated there): " if one.beside else ""
        is_all = len(one.node_names) in (0, count)
        names = "" if is_all else f" ({len(one.node_names)}: {', '.join(some(list(one.node_names), _EXAMPLES))})"
        yield f"- {beside}{printable(one.detail.text)}{names}"
    if len(details) > _MOST_DETAILS:
        yield f"- and {len(details) - _MOST_DETAILS} more groups of nodes (-o json lists them all)"


def _row(status: Status, names: Sequence[str]) -> tuple[str, ...]:
    is_hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    help_text = "no preemption helps" if is_hopeless else "preemption might help"
    return str(len(names)), printable(status.message), help_text, ", ".join(some(list(names), _EXAMPLES))
