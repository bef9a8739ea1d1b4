"""A simulation for people."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from kscheduler.answers import ResourceCapacity
from kscheduler.framework.reasons.wording import amounts_text
from kscheduler.simulate.simulation_result import (
    DEVICES_OF_CLASS,
    DRAIN,
    NEW,
    PENDING,
    REMOVAL,
    TAINT,
    Capacity,
    Drained,
    Evicted,
    Placed,
    Simulation,
    StillPending,
)
from kscheduler.text import (
    BOLD,
    GREEN,
    INDENT,
    PLAIN,
    RED,
    YELLOW,
    Style,
    aligned,
    nodes,
    printable,
    without_empty_answer,
    wrapped,
)
from kscheduler.text import pods as pods_text

# Lines of a kind; the rest is counted.
_MOST: Final = 20
# By reason of evictions that take pods off a whole node, what is said of the node; drains are told with more.
_EMPTYING: Final = {REMOVAL: ", removed", TAINT: " with its taint"}
_ALWAYS: Final = ("cpu", "memory", "pods")


def simulation_text(simulation: Simulation, style: Style = PLAIN) -> str:
    """The whole answer, without a final line end."""
    lines = (part.rstrip() for line in _lines(simulation, style) for part in wrapped(line, style.width))
    return "\n".join(lines)


def _lines(simulation: Simulation, style: Style) -> Iterator[str]:
    if left_out := simulation.left_out:
        names = ", ".join(map(printable, left_out[:_MOST])) + (
            f" and {len(left_out) - _MOST} more" if left_out[_MOST:] else ""
        )
        yield f"{style.paint('left out', RED)}, as it cannot be read: {names}"
        yield ""
    if added := simulation.added_nodes:
        names = ", ".join(map(printable, added[:_MOST])) + (f" and {len(added) - _MOST} more" if added[_MOST:] else "")
        yield f"{nodes(len(added))} added: {names}"
        yield ""
    if simulation.drains or any(each.by in _EMPTYING for each in simulation.evicted):
        yield from _of_emptied_nodes(simulation, style)
    else:
        yield from _placed(simulation.placed, style)
        yield from _waiting(simulation.waiting, style)
        yield from _evicted(simulation, style)
    yield from _room(simulation)
    if simulation.capacity is not None:
        yield ""
        yield f"{style.paint('capacity for more', BOLD)}: {_more(simulation.capacity)}"


def _of_emptied_nodes(simulation: Simulation, style: Style) -> Iterator[str]:
    """Where nodes are drained, tainted or removed, what becomes of their pods comes first."""
    for drained in simulation.drains:
        yield from _drained(drained, simulation, style)
    for by, words in _EMPTYING.items():
        gone = [each for each in simulation.evicted if each.by == by]
        for node in sorted({each.node for each in gone}):
            of_node = [each for each in gone if each.node == node]
            yield f"{printable(node)}{words}: {_eviction_summary(of_node, simulation)}"
    yield from _evicted(simulation, style)
    yield ""
    yield from _placed(simulation.placed, style)
    yield from _waiting(tuple(each for each in simulation.waiting if each.origin != PENDING), style)
    yield from _waiting(tuple(each for each in simulation.waiting if each.origin == PENDING), style, ", as now")


def _drained(drained: Drained, simulation: Simulation, style: Style) -> Iterator[str]:
    end = style.paint("would not be empty", RED) if drained.blocked else style.paint("would be empty", GREEN)
    staying = (
        f" but for {pods_text(len(drained.staying))} of DaemonSets" if drained.staying and not drained.blocked else ""
    )
    keys = set(drained.evicted)
    summary = _eviction_summary(
        [each for each in simulation.evicted if each.by == DRAIN and each.pod in keys], simulation
    )
    yield f"{printable(drained.node)} {end}{staying}: {summary}"
    for each in drained.blocked:
        budget = printable(each.budget)
        yield f"{INDENT}{printable(each.pod)} stays: disruption budget {budget} allows no further disruption"
    if drained.unmanaged:
        names = ", ".join(map(printable, drained.unmanaged[:5]))
        more = f" and {len(drained.unmanaged) - 5} more" if len(drained.unmanaged) > 5 else ""
        yield f"{INDENT}{names}{more}: no controller recreates them; kubectl drain demands --force for that"


def _eviction_summary(gone: Sequence[Evicted], simulation: Simulation) -> str:
    """`3 pods are evicted, 2 get a node, 1 stays pending`."""
    nodes_by_pod = _nodes_of_replacements(simulation)
    moved = sum(each.pod in nodes_by_pod for each in gone)
    lost = sum(not each.replacement for each in gone)
    counts = (
        (moved, "gets a node", "get a node"),
        (len(gone) - moved - lost, "stays pending", "stay pending"),
        (lost, "is not recreated", "are not recreated"),
    )
    whole = f"{pods_text(len(gone))} {'is' if len(gone) == 1 else 'are'} evicted"
    return ", ".join([whole, *(f"{count} {one if count == 1 else more}" for count, one, more in counts if count)])


def _nodes_of_replacements(simulation: Simulation) -> dict[str, str]:
    """By the pod that went, the node of the pod that its controller makes instead."""
    return {each.origin: each.node for each in simulation.placed}


def _placed(placed: tuple[Placed, ...], style: Style) -> Iterator[str]:
    count = Counter(each.node for each in placed)
    where = f" on {nodes(len(count))}" if count else ""
    yield f"{style.paint(pods_text(len(placed)), GREEN if placed else BOLD)} would get a node{where}"
    rows = [(f"{INDENT}{printable(each.pod)}", printable(each.node), _origin(each.origin)) for each in placed[:_MOST]]
    if rows:
        yield from aligned(rows, set())
    if len(placed) > _MOST:
        most = ", ".join(f"{printable(node)} ({number})" for node, number in count.most_common(3))
        yield f"{INDENT}and {len(placed) - _MOST} more; most on {most}"


def _origin(origin: str) -> str:
    if origin == NEW:
        return "new"
    return "" if origin == PENDING else f"in place of {printable(origin)}"


def _waiting(waiting: tuple[StillPending, ...], style: Style, end: str = "") -> Iterator[str]:
    if not waiting:
        return
    yield ""
    yield f"{style.paint(pods_text(len(waiting)), RED)} would stay pending{end}"
    reasons: dict[str, list[str]] = {}
    for each in waiting:
        reasons.setdefault(without_empty_answer(each.message), []).append(each.pod)
    for message, pods in sorted(reasons.items(), key=lambda entry: -len(entry[1])):
        names = ", ".join(map(printable, pods[:3])) + (f" and {len(pods) - 3} more" if len(pods) > 3 else "")
        yield f"{INDENT}{names}: {printable(message)}"


def _evicted(simulation: Simulation, style: Style) -> Iterator[str]:
    if not simulation.evicted:
        return
    yield ""
    whose = "its" if len(simulation.evicted) == 1 else "their"
    yield f"{style.paint(pods_text(len(simulation.evicted)), YELLOW)} would lose {whose} node"
    nodes_by_pod = _nodes_of_replacements(simulation)
    rows = []
    for each in simulation.evicted[:_MOST]:
        again = "not recreated"
        if each.replacement:
            node = nodes_by_pod.get(each.pod)
            again = f"recreated as {printable(each.replacement)}, {f'on {printable(node)}' if node else 'pending'}"
        priority = f"priority {each.priority}"
        rows.append((f"{INDENT}{printable(each.pod)}", printable(each.node), priority, _why_evicted(each), again))
    yield from aligned(rows, set())
    if len(simulation.evicted) > _MOST:
        yield f"{INDENT}and {len(simulation.evicted) - _MOST} more"


def _why_evicted(evicted: Evicted) -> str:
    if evicted.by not in (DRAIN, REMOVAL, TAINT):
        return f"for {printable(evicted.by)}"
    return f"{evicted.by}, after {evicted.after_seconds} s" if evicted.after_seconds else evicted.by


def _room(simulation: Simulation) -> Iterator[str]:
    yield ""
    rows = [("requested of allocatable", "now", "then")]
    for name, after in simulation.room.after.items():
        before = simulation.room.before.get(name, after)
        if name in _ALWAYS or before.requested or after.requested or after.allocatable:
            amounts = (before.requested, before.allocatable, after.requested, after.allocatable)
            had, of_had, has, of_has = amounts_text(name, amounts)
            now = f"{had} of {of_had}{_percent(before)}"
            rows.append((f"{INDENT}{printable(_row_name(name))}", now, f"{has} of {of_has}{_percent(after)}"))
    yield from aligned(rows, {1, 2})


def _row_name(resource: str) -> str:
    """Devices of a class have a shorter name for people."""
    return resource if not resource.endswith(DEVICES_OF_CLASS) else f"{resource.removesuffix(DEVICES_OF_CLASS)} devices"


def _more(capacity: Capacity) -> str:
    least = "at least " if capacity.is_more else ""
    if capacity.groups is None:
        return f"{least}{capacity.pods} more like the first new one"
    count = "1 more whole group" if capacity.groups == 1 else f"{capacity.groups} more whole groups"
    return f"{least}{count} like {printable(capacity.group or '')} ({pods_text(capacity.pods)})"


def _percent(room: ResourceCapacity) -> str:
    return f" ({100 * room.requested // room.allocatable} %)" if room.allocatable else ""
