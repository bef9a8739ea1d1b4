"""The explanation of a pod, as `explain -o json` prints it, made ready for a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Tree = dict[str, Any]

BEST_NODES: Final = 5
EXAMPLES: Final = 4
MOST_REJECTIONS: Final = 40
MOST_DETAILS: Final = 6
"""Groups of nodes that are shown for a plugin, as `kscheduler explain` does."""
_VERDICTS: Final = {
    "Gated": "It is kept out of the queue.",
    "Error": "It cannot be decided.",
    "Finished": "It has ended; nobody schedules it any more.",
    "Terminating": "It is being deleted; nobody schedules it any more.",
}


@dataclass(frozen=True, slots=True)
class RejectionRow:
    """Nodes that one plugin rejected for the same reason."""

    plugin: str
    reason: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DetailRow:
    """What exactly was wrong with nodes that a plugin rejected."""

    plugin: str
    text: str
    """As `kscheduler explain` says it."""
    count: int
    """How many nodes; 0: the pod was rejected for all nodes at once."""
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What the page shows of it."""

    verdict: str
    message: str
    nodes: int
    feasible: int
    chosen: str
    best_nodes: tuple[str, ...]
    points: tuple[tuple[str, tuple[int, ...]], ...]
    """By plugin, in the order of the best nodes; the sum last, as `total`."""
    rejections: tuple[RejectionRow, ...]
    preemption: str
    suggestions: tuple[Tree, ...]
    looked: bool
    """Whether suggestions were looked for."""
    notes: tuple[str, ...]
    details: tuple[DetailRow, ...] = ()
    left_off: int = 0
    """Details that are not shown."""


def shown_answer(tree: Tree, pod_name: str) -> ShownAnswer:
    """Reads the tree leniently: keys that are missing count as empty."""
    if tree.get("podGroup"):
        return _of_group(tree, pod_name)
    rejected: Tree = tree.get("filter") or {}
    feasible = tree.get("feasible") or []
    scores: Tree = tree.get("scores") or {}
    best = sorted(scores, key=lambda name: (-scores[name]["_total"], name))[:BEST_NODES]
    chosen = tree.get("best") or []
    gate = tree.get("preEnqueue") or tree.get("preFilter") or {}
    details = [*_details(tree)]
    shown = [each for each in details if each is not None]
    return ShownAnswer(
        verdict=_VERDICTS.get(tree.get("outcome") or "", "" if rejected or feasible else "No node was looked at."),
        message=tree.get("error") or tree.get("message") or ", ".join(gate.get("reasons", ())),
        nodes=len(rejected) + len(feasible),
        feasible=len(feasible),
        chosen=chosen[0] if len(chosen) == 1 else "",
        best_nodes=tuple(best or feasible[:BEST_NODES]),
        points=_points(scores, best),
        rejections=_rejections(rejected),
        preemption=_preemption(tree.get("preemption") or {}),
        suggestions=tuple(tree.get("suggestions") or ()),
        looked=tree.get("suggestions") is not None,
        notes=tuple(tree.get("notes") or ()),
        details=tuple(shown),
        left_off=len(details) - len(shown),
    )


def _details(tree: Tree) -> Iterator[DetailRow | None]:
    """By plugin, in the order in which they ran; `None` for each that would be too much."""
    of_all = tree.get("preFilterDetails") or []
    by_plugin = [((tree.get("preFilter") or {}).get("plugin") or "", of_all)] if of_all else []
    by_plugin += [(each["plugin"], each["details"]) for each in tree.get("rejections") or ()]
    for plugin, details in by_plugin:
        for number, each in enumerate(details):
            nodes, beside = each["nodes"], each["besideNominatedPods"]
            text = (
                f"beside {', '.join(beside[:EXAMPLES])} (nominated there): {each['text']}" if beside else each["text"]
            )
            row = DetailRow(plugin, text, len(nodes), tuple(nodes[:EXAMPLES]))
            yield row if number < MOST_DETAILS else None


def _of_group(tree: Tree, pod_name: str) -> ShownAnswer:
    """Of a pod that is decided about together with its group: what becomes of both."""
    member = ((tree.get("podGroupOutcome") or {}).get("pods") or {}).get(pod_name) or {}
    verdict, message = _group_verdict(tree, gets_node="node" in member)
    own = member.get("message") or ""
    return ShownAnswer(
        verdict=verdict,
        message=f"{message}\n{own}".strip() if own != message else message,
        nodes=0,
        feasible=0,
        chosen=member.get("node") or "",
        best_nodes=(),
        points=(),
        rejections=(),
        preemption=_group_preemption(tree.get("preemption") or {}),
        suggestions=tuple(tree.get("suggestions") or ()),
        looked=tree.get("suggestions") is not None,
        notes=tuple(tree.get("notes") or ()),
    )


def _group_verdict(tree: Tree, *, gets_node: bool) -> tuple[str, str]:
    """A sentence, and the text that says why."""
    name, outcome = f"pod group {tree['podGroup']}", tree.get("podGroupOutcome") or {}
    if tree.get("error"):
        return f"Its {name} cannot be decided.", tree["error"]
    if gates := outcome.get("preEnqueue"):
        held = [
            f"{pod}: {', '.join(gate['reasons'])} ({gate['plugin']})" for pod, gate in gates.items() if gate is not None
        ]
        more = f"; and {len(held) - EXAMPLES} more" if len(held) > EXAMPLES else ""
        why = "; ".join(held[:EXAMPLES]) + more
        return f"Its {name} was not tried: some of its members may not enter the queue.", why
    condition = outcome.get("condition") or {}
    if not condition:
        return f"Its {name} was not tried.", ""
    if condition["status"] == "True":
        own = "and it as well" if gets_node else "but not this pod"
        return f"Its {name} would get its nodes, {own}.", condition.get("message") or ""
    return f"It is decided with its {name}, which would not get its nodes.", condition.get("message") or ""


def _group_preemption(found: Tree) -> str:
    victims = [f"{each['namespace']}/{each['name']}" for each in found.get("victims") or ()]
    if not victims:
        return ""
    more = f", and {len(victims) - EXAMPLES} more" if len(victims) > EXAMPLES else ""
    return f"Preemption would make room for the group by evicting {', '.join(victims[:EXAMPLES])}{more}."


def _points(scores: Tree, best: list[str]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    plugins = [name for name in (scores[best[0]] if best else ()) if name != "_total"]
    rows = [(name, tuple(scores[node].get(name, 0) for node in best)) for name in plugins]
    total = [("total", tuple(scores[node]["_total"] for node in best))] if best else []
    return (*rows, *total)


def _rejections(rejected: Tree) -> tuple[RejectionRow, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for node, verdict in rejected.items():
        found.setdefault((verdict["plugin"], ", ".join(verdict["reasons"])), []).append(node)
    rows = [
        RejectionRow(plugin, reason, len(nodes), tuple(nodes[:EXAMPLES])) for (plugin, reason), nodes in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.count, row.plugin))[:MOST_REJECTIONS])


def _preemption(found: Tree) -> str:
    if node := found.get("nominatedNode"):
        victims = found.get("victims") or []
        more = f", and {len(victims) - EXAMPLES} more" if len(victims) > EXAMPLES else ""
        return f"Preemption would make room on {node} by evicting {', '.join(victims[:EXAMPLES])}{more}."
    return ""
