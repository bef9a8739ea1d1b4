"""The use of nodes for people, from the answer for programs."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kscheduler.explain.text.layout import BOLD, PLAIN, RED, YELLOW, Style, aligned, nodes
from kscheduler.explain.text.printable import printable
from kscheduler.framework.reasons.wording import amount_text

Tree = dict[str, Any]

ORDERS: Final = ("use", "name", "turned-away")
_COLUMNS: Final = ("cpu", "memory", "pods")
_HEAD: Final = ("node", *_COLUMNS, "state", "turned away")


def uses_text(tree: Tree, order: str = "use", names: Iterable[str] = (), style: Style = PLAIN) -> str:
    """A line per node of the answer's JSON; of `names` alone if there are any."""
    return "\n".join(_lines(tree, order, tuple(names), style))


def _lines(tree: Tree, order: str, names: tuple[str, ...], style: Style) -> Iterator[str]:
    listed = [each for each in tree["nodes"] if not names or each["name"] in names]
    listed.sort(key=lambda each: _sort_key(each, order))
    waiting = tree["waitingPods"]
    judged = f"{waiting} waiting pods were judged" if waiting != 1 else "1 waiting pod was judged"
    others = f", {tree['podsNotJudged']} were not" if tree["podsNotJudged"] else ""
    yield style.paint(f"{nodes(len(listed))}; {judged}{others}", BOLD)
    if listed:
        head, *rows = aligned([_HEAD, *map(_row, listed)], {1, 2, 3})
        yield style.paint(head, BOLD)
        for each, row in zip(listed, rows, strict=True):
            yield style.paint(row, RED) if each["overfilled"] else row if each["ready"] else style.paint(row, YELLOW)
    for name in sorted(set(names) - {each["name"] for each in listed}):
        yield f"there is no node {printable(name)}"


def _sort_key(node: Tree, order: str) -> tuple[Any, ...]:
    if order == "use":
        return -node["use"], node["name"]
    if order == "turned-away":
        return -sum(node["turnedAway"].values()), node["name"]
    return (node["name"],)


def _row(node: Tree) -> tuple[str, ...]:
    return (printable(node["name"]), *(_share(node, name) for name in _COLUMNS), _state(node), _turned_away(node))


def _share(node: Tree, resource: str) -> str:
    has, used = node["allocatable"].get(resource), node["requested"].get(resource, 0)
    if has is None:
        return "-"
    percent = f" {100 * used // has:>3} %" if has else ""
    return f"{amount_text(resource, used)}/{amount_text(resource, has)}{percent}"


def _state(node: Tree) -> str:
    words = [] if node["ready"] else ["not ready"]
    words += ["cordoned"] if node["cordoned"] else []
    words += [f"too full of {each['resource']}" for each in node["overfilled"]]
    words += [f"{printable(each['key'])}:{each['effect']}" for each in node["taints"] if not _is_of_state(each["key"])]
    return ", ".join(words) or "-"


def _is_of_state(key: str) -> bool:
    """Taints that say again what `not ready` and `cordoned` say."""
    return key in ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready")


def _turned_away(node: Tree) -> str:
    by_count = sorted(node["turnedAway"].items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{printable(plugin)} {count}" for plugin, count in by_count) or "-"
