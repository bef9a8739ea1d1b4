"""Nodes as text: the points of the best, how a tie was broken, who rejected the others, and one beside another."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kscheduler.explain.answer import Against, NamedDetail, RejectedNodes
from kscheduler.explain.rejections import plugin_rejections
from kscheduler.framework.rules.scoring import TIE_RULES
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.text import BOLD, INDENT, PLAIN, Style, aligned, nodes, printable, some, wrapped

# How many nodes are named for each reason.
_EXAMPLES: Final = 3
# How many groups of nodes are shown for a plugin.
_MAX_DETAILS: Final = 6
# Plugins that are named for the second node.
_MAX_PLUGINS: Final = 4
_NARROWEST_NODE: Final = 6
_ABOUT_SOME_PODS: Final = frozenset(("DynamicResources", "VolumeBinding"))


# --- points -----------------------------------------------------------------------------------------------------------


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


def tie_lines(record: SchedulingRecord, rule: str) -> Iterator[str]:
    """Why a node won among equal nodes; nothing if there is a single best node. `rule`: of `TIE_RULES`."""
    best = sorted(record.best_names(), key=lambda name: (name != record.node_name, name))  # the winner comes first
    if not record.node_name or len(best) < 2:
        return
    most = f" ({int(record.totals.max())})" if len(record.totals) else ""
    yield ""
    yield (
        f"{len(best)} nodes have the most points{most}: {', '.join(some(best, _EXAMPLES))}; "
        f"{printable(record.node_name)} has the {TIE_RULES[rule]} among them"
    )
    if not record.pod.pod.metadata.uid:
        yield "the pod has no UID yet, so the real one may go to another of these nodes"


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


# --- rejections -------------------------------------------------------------------------------------------------------


def rejection_lines(decision: Decision, record: SchedulingRecord) -> Iterator[str]:
    """For each plugin, in their order, and each reason: the number of nodes, examples, and details."""
    for rejections in plugin_rejections(decision, record):
        yield ""
        where = f" (your plugin: {printable(rejections.source)})" if rejections.source else ""
        yield f"{rejections.plugin or 'PreFilter'} rejected {nodes(rejections.count)}{where}"
        rows = [_row(status) for status in rejections.statuses]
        yield from (f"{INDENT}{line}" for line in aligned(rows, right={0}))
        yield from (f"{INDENT}{line}" for line in detail_lines(rejections.details, rejections.count))


def detail_lines(details: Sequence[NamedDetail], count: int) -> Iterator[str]:
    """A line per group of nodes. A group of all `count` nodes is shown without names."""
    groups = _said_once(details)
    for named in groups[:_MAX_DETAILS]:
        pods = ", ".join(some(list(named.beside), _EXAMPLES))
        beside = f"with {pods} (nominated there): " if pods else ""
        is_all = len(named.nodes) in (0, count)
        names = "" if is_all else f" ({len(named.nodes)}: {', '.join(some(list(named.nodes), _EXAMPLES))})"
        yield f"- {beside}{printable(named.text)}{names}"
    if len(groups) > _MAX_DETAILS:
        yield f"- and {len(groups) - _MAX_DETAILS} more groups of nodes (-o json lists them all)"


def _said_once(details: Sequence[NamedDetail]) -> list[NamedDetail]:
    """Groups with one sentence as one group: only their facts, which programs read, tell them apart."""
    found: dict[tuple[str, tuple[str, ...]], NamedDetail] = {}
    for each in details:
        key = each.text, each.beside
        before = found.get(key)
        names = each.nodes if before is None else tuple(sorted({*before.nodes, *each.nodes}))
        found[key] = msgspec.structs.replace(each, nodes=names)
    return list(found.values())


def _row(status: RejectedNodes) -> tuple[str, ...]:
    help_text = "preemption might help" if status.preemption_might_help else "no preemption helps"
    examples = ", ".join(some(list(status.nodes), _EXAMPLES))
    return str(len(status.nodes)), printable(status.message), help_text, examples


# --- one node beside another ------------------------------------------------------------------------------------------


def comparison_text(compared: Against, style: Style = PLAIN) -> str:
    """A block below the answer, without a final line end."""
    return "\n".join(part.rstrip() for line in _comparison(compared, style) for part in wrapped(line, style.width))


def runner_up_lines(compared: Against | None) -> Iterator[str]:
    """How far the second node was behind, and by which plugins; nothing where there was none."""
    if compared is None or not compared.points:
        return
    differing = [each for each in compared.points if each.other != each.chosen]
    differing.sort(key=lambda each: -abs(each.other - each.chosen))
    by = ", ".join(f"{each.plugin} {_signed(each.other - each.chosen)}" for each in differing[:_MAX_PLUGINS])
    yield ""
    yield f"the best other node is {_beside(compared)}{f' ({by})' if by else ''}"


def _comparison(compared: Against, style: Style) -> Iterator[str]:
    node, chosen = printable(compared.node), printable(compared.chosen or "")
    title = style.paint(f"why not {node}", BOLD)
    yield ""
    if compared.problem:
        yield f"{INDENT}{title}: {printable(compared.problem)}"
    elif compared.status is not None:
        plugin = compared.status.plugin or "PreFilter"
        yield f"{INDENT}{title}: {plugin} rejected it: {printable(compared.status.message)}"
        yield from (f"{INDENT}{INDENT}- {printable(detail)}" for detail in compared.status.details)
    elif compared.node == compared.chosen:
        yield f"{INDENT}{title}: this is the node that it is on, or would go to"
    elif not compared.points:
        yield f"{INDENT}{title}: it fits there, and {chosen or 'no node'} was not scored beside it"
    else:
        yield f"{INDENT}{title}: {_beside(compared)}"
        rows = [("points", chosen, node, "difference")]
        rows += [
            (
                _plugin_label(each.plugin, each.weight),
                str(each.chosen),
                str(each.other),
                _signed(each.other - each.chosen),
            )
            for each in compared.points
            if each.chosen or each.other
        ]
        yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {1, 2, 3}))


def _beside(compared: Against) -> str:
    """The points of both nodes, for this pod in the cluster as it is now."""
    node, chosen, behind = printable(compared.node), printable(compared.chosen or ""), compared.behind
    points = sum(each.other for each in compared.points)
    if not behind:
        return f"{node}, with as many points as {chosen} ({points}): the highest mix of pod UID and node name decides"
    if behind > 0:
        return f"{node} with {points} points, {behind} behind {chosen} with {points + behind}"
    return f"{node}: decided now, it has {points} points, {-behind} more than {chosen}, where the pod went earlier"


def _plugin_label(plugin: str, weight: int) -> str:
    return plugin if weight == 1 else f"{plugin} (weight {weight})"


def _signed(number: int) -> str:
    return f"{number:+d}" if number else "0"
