"""Another node beside the pod's, as text."""

from collections.abc import Iterator
from typing import Final

from kscheduler.explain.against import Against
from kscheduler.text import BOLD, INDENT, PLAIN, Style, aligned, printable, wrapped

# Plugins that are named for the second node.
_MOST: Final = 4


def comparison_text(compared: Against, style: Style = PLAIN) -> str:
    """A block below the answer, without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(compared, style) for part in wrapped(line, style.width))


def runner_up_lines(compared: Against | None) -> Iterator[str]:
    """How far the second node was behind, and by which plugins; nothing where there was none."""
    if compared is None or not compared.points:
        return
    differing = [each for each in compared.points if each.other != each.chosen]
    differing.sort(key=lambda each: -abs(each.other - each.chosen))
    by = ", ".join(f"{each.plugin} {_signed(each.other - each.chosen)}" for each in differing[:_MOST])
    yield ""
    yield f"the best other node is {_beside(compared)}{f' ({by})' if by else ''}"


def _lines(compared: Against, style: Style) -> Iterator[str]:
    node, chosen = printable(compared.node), printable(compared.chosen)
    title = style.paint(f"why not {node}", BOLD)
    yield ""
    if compared.problem:
        yield f"{INDENT}{title}: {printable(compared.problem)}"
    elif compared.status is not None:
        plugin = compared.status.plugin or "PreFilter"
        yield f"{INDENT}{title}: {plugin} rejected it: {printable(compared.status.message)}"
        yield from (f"{INDENT}{INDENT}- {printable(detail)}" for detail in compared.details)
    elif compared.node == compared.chosen:
        yield f"{INDENT}{title}: this is the node that it is on, or would go to"
    elif not compared.points:
        yield f"{INDENT}{title}: it fits there, and {chosen or 'no node'} was not scored beside it"
    else:
        yield f"{INDENT}{title}: {_beside(compared)}"
        rows = [("points", chosen, node, "difference")]
        rows += [
            (_label(each.plugin, each.weight), str(each.chosen), str(each.other), _signed(each.other - each.chosen))
            for each in compared.points
            if each.chosen or each.other
        ]
        yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {1, 2, 3}))


def _beside(compared: Against) -> str:
    """The points of both nodes, for this pod in the cluster as it is now."""
    node, chosen, behind = printable(compared.node), printable(compared.chosen), compared.behind
    points = sum(each.other for each in compared.points)
    if not behind:
        return f"{node}, with as many points as {chosen} ({points}): the highest mix of pod UID and node name decides"
    if behind > 0:
        return f"{node} with {points} points, {behind} behind {chosen} with {points + behind}"
    return f"{node}: decided now, it has {points} points, {-behind} more than {chosen}, where the pod went earlier"


def _label(plugin: str, weight: int) -> str:
    return plugin if weight == 1 else f"{plugin} (weight {weight})"


def _signed(number: int) -> str:
    return f"{number:+d}" if number else "0"
