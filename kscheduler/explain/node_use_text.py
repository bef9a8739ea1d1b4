"""The use of nodes for people."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kscheduler.api.well_known import NOT_READY, UNSCHEDULABLE
from kscheduler.explain.cluster_answers import NodeUse, NodeUses
from kscheduler.framework.reasons.wording import share_texts
from kscheduler.scenario.fields import nearest_node
from kscheduler.text import BOLD, PLAIN, RED, YELLOW, Style, aligned, nodes, printable

ORDERS: Final = ("use", "name", "rejected")
_COLUMNS: Final = ("cpu", "memory", "pods")


def uses_text(uses: NodeUses, order: str = "use", names: Iterable[str] = (), style: Style = PLAIN) -> str:
    """A line per node; of `names` alone if there are any."""
    return "\n".join(_lines(uses, order, tuple(names), style))


def _lines(uses: NodeUses, order: str, names: tuple[str, ...], style: Style) -> Iterator[str]:
    listed = [each for each in uses.nodes if not names or each.name in names]
    listed.sort(key=lambda each: _sort_key(each, order))
    waiting = uses.waiting_pods
    judged = f"{waiting} waiting pods were judged" if waiting != 1 else "1 waiting pod was judged"
    number = uses.pods_not_judged
    others = f", {number} not (gated, in a pod group, or of another scheduler)" if number else ""
    yield style.paint(f"{nodes(len(listed))}; {judged}{others}", BOLD)
    if listed:
        columns = (*_COLUMNS, *_others_in_use(listed))
        classes = sorted({each.device_class for node in listed for each in node.devices} - {""})
        titles = ("node", *map(printable, (*columns, *classes)), "state", "rejected")
        shares = zip(*(_shares(listed, name) for name in columns), *_device_shares(listed, classes), strict=True)
        table = [
            (printable(each.name), *cells, _state(each), _rejected_pods(each))
            for each, cells in zip(listed, shares, strict=True)
        ]
        head, *rows = aligned([titles, *table], set(range(1, len(columns) + len(classes) + 1)))
        yield style.paint(head, BOLD)
        for each, row in zip(listed, rows, strict=True):
            yield style.paint(row, RED) if each.overfilled else row if each.is_ready else style.paint(row, YELLOW)
    yield from (f"there is no node {printable(text)}" for text in unknown_nodes(uses, names))


def unknown_nodes(uses: NodeUses, names: Iterable[str]) -> list[str]:
    """Of these names those that no node has: `node-7: do you mean node-007?`."""
    known = {each.name for each in uses.nodes}
    return [f"{name}{nearest_node(name, known)}" for name in sorted(set(names) - known)]


def _sort_key(node: NodeUse, order: str) -> tuple[float | str, ...]:
    if order == "use":
        return -node.use, node.name
    if order == "rejected":
        return -sum(node.rejected_pods.values()), node.name
    return (node.name,)


def _others_in_use(listed: Iterable[NodeUse]) -> list[str]:
    """Resources besides those of every table of which somebody requests something: one of them may be the fullest."""
    return sorted({name for node in listed for name, used in node.requested.items() if used} - {*_COLUMNS})


def _shares(listed: Sequence[NodeUse], resource: str) -> list[str]:
    """The column of a resource: what is requested of what the node has, the strokes below each other."""
    parts = []
    for node in listed:
        has, used = node.allocatable.get(resource), node.requested.get(resource, 0)
        if has is None:
            parts.append(("", "", ""))
        else:
            parts.append((*share_texts(resource, used, has), f" {100 * used // has:>3} %" if has else ""))
    used_width, has_width, percent_width = (max(map(len, texts)) for texts in zip(*parts, strict=True))
    return [
        f"{used:>{used_width}}/{has:<{has_width}}{percent:<{percent_width}}" if has else "-"
        for used, has, percent in parts
    ]


def _device_shares(listed: Sequence[NodeUse], classes: Iterable[str]) -> Iterator[list[str]]:
    """A column per device class: how many of its devices are taken, of how many that the node reaches."""
    for name in classes:
        cells = []
        for node in listed:
            here = [each for each in node.devices if each.device_class == name]
            taken, there = sum(each.taken for each in here), sum(each.devices for each in here)
            cells.append((str(taken), str(there)) if there else ("", ""))
        width, whole_width = (max(map(len, texts)) for texts in zip(*cells, strict=True))
        yield [f"{taken:>{width}}/{there:<{whole_width}}" if there else "-" for taken, there in cells]


def _state(node: NodeUse) -> str:
    words = [] if node.is_ready else ["not ready"]
    words += ["cordoned"] if node.is_cordoned else []
    words += [f"too full of {each.resource}" for each in node.overfilled]
    words += [f"{printable(each.key)}:{each.effect}" for each in node.taints if not _is_of_state(each.key)]
    words += _device_states(node)
    return ", ".join(words) or "-"


def _device_states(node: NodeUse) -> Iterator[str]:
    """What is wrong with devices. A device in two classes is counted in each, so the count is by class."""
    tainted = [(each.device_class or each.driver, each.tainted) for each in node.devices if each.tainted]
    if tainted:
        yield f"devices tainted ({', '.join(f'{printable(name)} {count}' for name, count in tainted)})"
    yield from (f"pool {printable(pool)} incomplete" for pool in node.incomplete_pools)
    yield from (f"pool {printable(pool)} invalid" for pool in node.invalid_pools)


def _is_of_state(key: str) -> bool:
    """Taints that say again what `not ready` and `cordoned` say."""
    return key in (UNSCHEDULABLE, NOT_READY)


def _rejected_pods(node: NodeUse) -> str:
    by_count = sorted(node.rejected_pods.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{printable(plugin)} {count}" for plugin, count in by_count) or "-"
