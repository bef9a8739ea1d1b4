"""A compaction for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.compact.compaction_result import Compaction, ProfileCompaction
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.simulate.simulation_result import StillPending
from kscheduler.text import BOLD, INDENT, PLAIN, RED, Style, aligned, nodes, printable, wrapped
from kscheduler.text import pods as pods_text

# Pods of a profile that are named; the rest is counted.
_MOST: Final = 5


def compaction_text(compaction: Compaction, style: Style = PLAIN) -> str:
    """The whole answer, without a final line end."""
    lines = (part.rstrip() for line in _lines(compaction, style) for part in wrapped(line, style.width))
    return "\n".join(lines)


def _lines(compaction: Compaction, style: Style) -> Iterator[str]:
    if compaction.left_out:
        names = ", ".join(map(printable, compaction.left_out[:_MOST]))
        more = f" and {len(compaction.left_out) - _MOST} more" if compaction.left_out[_MOST:] else ""
        yield f"{style.paint('left out', RED)}, as it cannot be read: {names}{more}"
    yield f"today: {pods_text(compaction.moving)} on {compaction.nodes_in_use} of {nodes(compaction.nodes)}"
    if compaction.staying:
        yield f"{INDENT}{pods_text(compaction.staying)} of DaemonSets and of nodes themselves, which go with their node"
    if compaction.waiting:
        yield f"{INDENT}{pods_text(compaction.waiting)} without a node, left out"
    if compaction.terminating:
        yield f"{INDENT}{pods_text(compaction.terminating)} being deleted, left out"
    if compaction.at_least > compaction.nodes:
        yield style.paint("all nodes together have less than these pods request", RED)
    else:
        yield f"at least: {nodes(compaction.at_least)}, by the sum of the requests"
    yield from _unplaced(compaction.profiles, style)
    yield from _fragments(compaction.fragments)
    played = [profile for profile in compaction.profiles if profile.trials]
    if not played:
        return
    count = len(played[0].trials)
    yield f"rescheduled, nodes removed at random until they no longer fit, {count} trial{'s' * (count > 1)}:"
    heading = (f"{INDENT}profile", "fewest", "median", "90 %", "of today's nodes")
    rows = [
        (
            f"{INDENT}{printable(each.profile)}",
            *map(str, (each.fewest, each.median, each.percentile_90)),
            f"{100 * each.percentile_90 / max(compaction.nodes, 1):.0f} %",
        )
        for each in played
    ]
    first, *rest = aligned([heading, *rows], {1, 2, 3, 4})
    yield style.paint(first, BOLD)
    yield from rest


def _fragments(found: Sequence[ResourceFragmentation]) -> Iterator[str]:
    """Resources of which something cannot be used."""
    rows = []
    for each in found:
        if each.unusable:
            unusable, free, share = each.share_text
            rows.append((f"{INDENT}{each.name_text}", f"{unusable} of {free}", f"({share})", each.why_text))
    if rows:
        yield "free, but unusable by pods like those that run or wait:"
        yield from aligned(rows, {1, 2})


def _unplaced(profiles: Sequence[ProfileCompaction], style: Style) -> Iterator[str]:
    """Profiles without trials; those that fail with the same pods together."""
    alike: dict[tuple[StillPending, ...], list[str]] = {}
    for profile in profiles:
        if profile.unplaced:
            alike.setdefault(profile.unplaced, []).append(printable(profile.profile))
    for unplaced, names in alike.items():
        heading = style.paint(f"{pods_text(len(unplaced))} would find no place", RED)
        yield f"{', '.join(names)}: {heading} if all were rescheduled on all nodes, so there are no trials"
        for each in unplaced[:_MOST]:
            yield f"{INDENT}{printable(each.pod)}: {printable(each.message)}"
        if len(unplaced) > _MOST:
            yield f"{INDENT}and {len(unplaced) - _MOST} more"
