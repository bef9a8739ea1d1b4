"""The points of each plugin for the best nodes, and how a tie was broken."""

from collections.abc import Iterator
from typing import Final

from kscheduler.framework.rules.scoring import TIE_RULE
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.text import INDENT, Style, aligned, printable, some

_NARROWEST_NODE: Final = 6
_EXAMPLES: Final = 3


_ABOUT_SOME_PODS: Final = frozenset(("DynamicResources", "VolumeBinding"))


def point_lines(record: SchedulingRecord, style: Style, margin: int) -> Iterator[str]:
    """A line per plugin, weights included; `margin` columns are already used.

    Plugins that score volumes and devices have none if all their points are 0, as they are for nearly all pods.
    """
    if not len(record.totals):
        return
    names = record.feasible_names()
    best = sorted(range(len(names)), key=lambda at: (names[at] != record.node_name, -record.totals[at], names[at]))
    scores = [score for score in record.scores if score.plugin not in _ABOUT_SOME_PODS or score.points.any()]
    columns = [("points", *(_plugin_label(score.plugin, score.weight) for score in scores), "total")]
    for at in best:
        points = [str(int(score.points[at])) for score in scores]
        columns.append((printable(names[at]), *points, str(int(record.totals[at]))))
    shown = _that_fit(columns, style.width - margin - len(INDENT))
    yield ""
    table = list(zip(*shown, strict=True))
    yield from (f"{INDENT}{line}" for line in aligned(table, right=set(range(1, len(shown)))))
    if len(shown) < len(columns):
        yield f"{INDENT}(the best {len(shown) - 1} of {len(names)} nodes that fit)"


def tie_lines(record: SchedulingRecord) -> Iterator[str]:
    """Why a node won among equal nodes; nothing if there is a single best node."""
    best = sorted(record.best_names(), key=lambda name: (name != record.node_name, name))  # the winner comes first
    if not record.node_name or len(best) < 2:
        return
    most = f" ({int(record.totals.max())})" if len(record.totals) else ""
    yield ""
    yield (
        f"{len(best)} nodes have the most points{most}: {', '.join(some(best, _EXAMPLES))}; "
        f"{printable(record.node_name)} has the {TIE_RULE} among them"
    )
    if not record.pod.pod.metadata.uid:
        yield "the pod has no UID yet, so the real one may go to another of these nodes"


def _plugin_label(plugin: str, weight: int) -> str:
    return plugin if weight == 1 else f"{plugin} (weight {weight})"


def _that_fit(columns: list[tuple[str, ...]], width: int) -> list[tuple[str, ...]]:
    """The first columns that fit into `width`; at least the labels and one node."""
    shown: list[tuple[str, ...]] = []
    used = 0
    for column in columns:
        used += max(_NARROWEST_NODE, *map(len, column)) + 2
        if used > width and len(shown) > 1:
            break
        shown.append(column)
    return shown
