"""A rehearsal for people."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from kscheduler.explain.text.layout import BOLD, GREEN, INDENT, PLAIN, RED, YELLOW, Style, aligned, nodes, wrapped
from kscheduler.explain.text.printable import printable
from kscheduler.framework.reasons.wording import amount_text
from kscheduler.whatif.rehearsal.rehearsed import Drained, Placed, Rehearsed, StillPending

_MOST: Final = 20
"""Lines of a kind; the rest is counted."""
_ALWAYS: Final = ("cpu", "memory", "pods")


def simulation_text(rehearsed: Rehearsed, style: Style = PLAIN) -> str:
    """The whole answer, without a final line end."""
    lines = (part.rstrip() for line in _lines(rehearsed, style) for part in wrapped(line, style.width))
    return "\n".join(lines)


def _lines(rehearsed: Rehearsed, style: Style) -> Iterator[str]:
    if added := rehearsed.added_nodes:
        names = ", ".join(map(printable, added[:_MOST])) + (f" and {len(added) - _MOST} more" if added[_MOST:] else "")
        yield f"{nodes(len(added))} added: {names}"
        yield ""
    yield from _placed(rehearsed.placed, style)
    yield from _waiting(rehearsed.waiting, style)
    yield from _evicted(rehearsed, style)
    for drained in rehearsed.drains:
        yield from _drained(drained, style)
    yield from _room(rehearsed)
    if rehearsed.capacity is not None:
        least = "at least " if rehearsed.capacity_is_more else ""
        yield ""
        yield f"{style.paint('room for more', BOLD)}: {least}{rehearsed.capacity} more like the first new one"


def _placed(placed: tuple[Placed, ...], style: Style) -> Iterator[str]:
    count = Counter(each.node for each in placed)
    where = f" on {nodes(len(count))}" if count else ""
    yield f"{style.paint(_pods(len(placed)), GREEN if placed else BOLD)} would get a node{where}"
    rows = [(f"{INDENT}{printable(each.pod)}", printable(each.node), _origin(each.origin)) for each in placed[:_MOST]]
    if rows:
        yield from aligned(rows, set())
    if len(placed) > _MOST:
        most = ", ".join(f"{printable(node)} ({number})" for node, number in count.most_common(3))
        yield f"{INDENT}and {len(placed) - _MOST} more; most on {most}"


def _origin(origin: str) -> str:
    if origin == "new":
        return "new"
    return "" if origin == "pending" else f"in place of {printable(origin)}"


def _waiting(waiting: tuple[StillPending, ...], style: Style) -> Iterator[str]:
    if not waiting:
        return
    yield ""
    yield f"{style.paint(_pods(len(waiting)), RED)} would stay pending"
    reasons: dict[str, list[str]] = {}
    for each in waiting:
        reasons.setdefault(each.message, []).append(each.pod)
    for message, pods in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        names = ", ".join(map(printable, pods[:3])) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
        yield f"{INDENT}{names}: {printable(message)}"


def _evicted(rehearsed: Rehearsed, style: Style) -> Iterator[str]:
    if not rehearsed.evicted:
        return
    yield ""
    yield f"{style.paint(_pods(len(rehearsed.evicted)), YELLOW)} would lose their node"
    rows = []
    for each in rehearsed.evicted[:_MOST]:
        again = f"recreated as {printable(each.replacement)}" if each.replacement else "not recreated"
        why = each.by if each.by in ("drain", "removal") else f"for {printable(each.by)}"
        node = printable(each.node)
        rows.append((f"{INDENT}{printable(each.pod)}", node, f"priority {each.priority}", why, again))
    yield from aligned(rows, set())
    if len(rehearsed.evicted) > _MOST:
        yield f"{INDENT}and {len(rehearsed.evicted) - _MOST} more"


def _drained(drained: Drained, style: Style) -> Iterator[str]:
    yield ""
    end = style.paint("not empty", RED) if drained.blocked else style.paint("empty", GREEN)
    gone = f"{_pods(len(drained.evicted))} evicted, {_pods(len(drained.staying))} of DaemonSets staying"
    yield f"drain of {printable(drained.node)}: {end}; {gone}"
    for pod, budget in drained.blocked:
        yield f"{INDENT}{printable(pod)} stays: disruption budget {printable(budget)} allows no further disruption"
    if drained.unmanaged:
        names = ", ".join(map(printable, drained.unmanaged[:5]))
        more = f" and {len(drained.unmanaged) - 5} more" if len(drained.unmanaged) > 5 else ""
        yield f"{INDENT}{names}{more}: no controller recreates them; kubectl drain demands --force for that"


def _room(rehearsed: Rehearsed) -> Iterator[str]:
    yield ""
    rows = [("what is asked for of what there is", "now", "then")]
    for name, after in rehearsed.after.items():
        before = rehearsed.before.get(name, after)
        if name in _ALWAYS or before.requested or after.requested or after.allocatable:
            rows.append((f"{INDENT}{printable(name)}", _share(name, before.requested, before.allocatable),
                         _share(name, after.requested, after.allocatable)))  # fmt: skip
    yield from aligned(rows, {1, 2})


def _share(name: str, requested: int, allocatable: int) -> str:
    percent = f" ({100 * requested // allocatable} %)" if allocatable else ""
    return f"{amount_text(name, requested)} of {amount_text(name, allocatable)}{percent}"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
