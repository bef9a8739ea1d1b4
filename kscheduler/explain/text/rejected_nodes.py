"""Rejections as text: counts and reasons in upstream's words, followed by details."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from kscheduler.explain.own_plugins import source_of
from kscheduler.explain.rejections import NamedDetail, plugin_rejections
from kscheduler.framework.status import Code, Status
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.text import INDENT, aligned, nodes, printable, some

# How many nodes are named for each reason.
_EXAMPLES: Final = 3
# How many groups of nodes are shown for a plugin.
_MOST_DETAILS: Final = 6


def rejection_lines(decision: Decision, record: SchedulingRecord) -> Iterator[str]:
    """For each plugin, in their order, and each reason: the number of nodes, examples, and details."""
    for rejections in plugin_rejections(decision, record):
        yield ""
        source = source_of(decision.profile, rejections.plugin)
        where = f" (your plugin: {printable(source)})" if source else ""
        yield f"{rejections.plugin or 'PreFilter'} rejected {nodes(rejections.count)}{where}"
        rows = [_row(status, names) for status, names in rejections.by_status.items()]
        yield from (f"{INDENT}{line}" for line in aligned(rows, right={0}))
        yield from (f"{INDENT}{line}" for line in detail_lines(rejections.details, rejections.count))


def detail_lines(details: Sequence[NamedDetail], count: int) -> Iterator[str]:
    """A line per group of nodes. A group of all `count` nodes is shown without names."""
    groups = _said_once(details)
    for named in groups[:_MOST_DETAILS]:
        pods = ", ".join(some(list(named.beside), _EXAMPLES))
        beside = f"with {pods} (nominated there): " if pods else ""
        is_all = len(named.node_names) in (0, count)
        names = "" if is_all else f" ({len(named.node_names)}: {', '.join(some(list(named.node_names), _EXAMPLES))})"
        yield f"- {beside}{printable(named.detail.text)}{names}"
    if len(groups) > _MOST_DETAILS:
        yield f"- and {len(groups) - _MOST_DETAILS} more groups of nodes (-o json lists them all)"


def _said_once(details: Sequence[NamedDetail]) -> list[NamedDetail]:
    """Groups with one sentence as one group: only their facts, which programs read, tell them apart."""
    found: dict[tuple[str, tuple[str, ...]], NamedDetail] = {}
    for each in details:
        key = each.detail.text, each.beside
        before = found.get(key)
        names = each.node_names if before is None else tuple(sorted({*before.node_names, *each.node_names}))
        found[key] = replace(each, node_names=names)
    return list(found.values())


def _row(status: Status, names: Sequence[str]) -> tuple[str, ...]:
    is_hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    help_text = "no preemption helps" if is_hopeless else "preemption might help"
    return str(len(names)), printable(status.message), help_text, ", ".join(some(list(names), _EXAMPLES))
