"""The explanation of a pod, as `explain -o json` prints it, made ready for a page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

Tree = dict[str, Any]

BEST_NODES: Final = 5
EXAMPLES: Final = 4
MOST_REJECTIONS: Final = 40
# Groups of nodes that are shown for a plugin, as `kscheduler explain` does.
MOST_DETAILS: Final = 6
_VERDICTS: Final = {
    "Gated": "It is gated.",
    "Error": "It cannot be evaluated.",
    "Finished": "It has finished; no scheduler handles it any more.",
    "Terminating": "It is being deleted; no scheduler handles it any more.",
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
class HelpfulChange:
    """A change that would help, and others of its kind that would also help."""

    best: Tree
    others: tuple[Tree, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownExplanation:
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
    victims: tuple[str, ...]
    """Whom it would evict: keys of pods, or names of those in the pod's own answer."""
    suggestions: tuple[HelpfulChange, ...]
    looked: bool
    """Whether suggestions were looked for."""
    notes: tuple[str, ...]
    missing: tuple[str, ...] = ()
    """What does not exist and the pod waits for, a sentence each."""
    details: tuple[DetailRow, ...] = ()
    left_off: int = 0
    """Details that are not shown."""


def shown_explanation(tree: Tree, pod_name: str) -> ShownExplanation:
    """Reads the tree leniently: keys that are missing count as empty."""
    if tree.get("podGroup"):
        return _of_group(tree, pod_name)
    rejected: Tree = tree.get("filter") or {}
    feasible = tree.get("feasible") or []
    scores: Tree = tree.get("scores") or {}
    best = sorted(scores, key=lambda name: (-scores[name]["_total"], name))[:BEST_NODES]
    chosen = tree.get("best") or []
    gate = tree.get("preEnqueue") or tree.get("preFilter") or {}
    preemption, victims = _preemption(tree.get("preemption") or {})
    details = [*_details(tree)]
    shown = [each for each in details if each is not None]
    return ShownExplanation(
        verdict=_VERDICTS.get(tree.get("outcome") or "", "" if rejected or feasible else "No node was evaluated."),
        message=tree.get("error") or tree.get("message") or ", ".join(gate.get("reasons", ())),
        nodes=len(rejected) + len(feasible),
        feasible=len(feasible),
        chosen=chosen[0] if len(chosen) == 1 else "",
        best_nodes=tuple(best or feasible[:BEST_NODES]),
        points=_points(scores, best),
        rejections=_rejections(rejected),
        preemption=preemption,
        victims=victims,
        suggestions=_helping(tree.get("suggestions") or ()),
        looked=tree.get("suggestions") is not None,
        notes=tuple(tree.get("notes") or ()),
        missing=tuple(tree.get("missing") or ()),
        details=tuple(shown),
        left_off=len(details) - len(shown),
    )


def _helping(suggestions: Sequence[Tree]) -> tuple[HelpfulChange, ...]:
    """Each change of what the pod asks for; of nodes to change, and of pods to delete, the best with its like."""
    from kscheduler.explain.suggestions.suggestion import OF_THE_POD  # not at the start: nobody has asked yet

    of_the_pod = {kind.value for kind in OF_THE_POD}

    def alike(numbered: tuple[int, Tree]) -> object:
        number, found = numbered
        if of_the_pod.issuperset(found["kind"].split("+")):
            return number
        return found["kind"], [bool(step["facts"].get("comeAgain")) for step in found["steps"]]

    runs = ([found for _, found in run] for _, run in groupby(enumerate(suggestions), alike))
    return tuple(HelpfulChange(best, tuple(others)) for best, *others in runs)


def _details(tree: Tree) -> Iterator[DetailRow | None]:
    """By plugin, in the order in which they ran; `None` for each that would be too much."""
    of_all = tree.get("preFilterDetails") or []
    by_plugin = [((tree.get("preFilter") or {}).get("plugin") or "", of_all)] if of_all else []
    by_plugin += [(each["plugin"], each["details"]) for each in tree.get("rejections") or ()]
    for plugin, details in by_plugin:
        by_text: dict[str, list[str]] = {}  # groups of nodes with one sentence are one row
        for each in details:
            beside = each["besideNominatedPods"]
            text = (
                f"beside {', '.join(beside[:EXAMPLES])} (nominated there): {each['text']}" if beside else each["text"]
            )
            by_text.setdefault(text, []).extend(each["nodes"])
        for number, (text, nodes) in enumerate(by_text.items()):
            row = DetailRow(plugin, text, len(nodes), tuple(nodes[:EXAMPLES]))
            yield row if number < MOST_DETAILS else None


def _of_group(tree: Tree, pod_name: str) -> ShownExplanation:
    """Of a pod that is decided about together with its group: what becomes of both."""
    preemption, victims = _group_preemption(tree.get("preemption") or {})
    member = ((tree.get("podGroupOutcome") or {}).get("pods") or {}).get(pod_name) or {}
    verdict, message = _group_verdict(tree, gets_node="node" in member)
    own = member.get("message") or ""
    return ShownExplanation(
        verdict=verdict,
        message=f"{message}\n{own}".strip() if own != message else message,
        nodes=0,
        feasible=0,
        chosen=member.get("node") or "",
        best_nodes=(),
        points=(),
        rejections=(),
        preemption=preemption,
        victims=victims,
        suggestions=_helping(tree.get("suggestions") or ()),
        looked=tree.get("suggestions") is not None,
        notes=tuple(tree.get("notes") or ()),
    )


def _group_verdict(tree: Tree, *, gets_node: bool) -> tuple[str, str]:
    """A sentence, and the text that says why."""
    name, outcome = f"pod group {tree['podGroup']}", tree.get("podGroupOutcome") or {}
    if tree.get("error"):
        return f"Its {name} cannot be decided.", tree["error"]
    if gates := outcome.get("preEnqueue"):
        return f"Its {name} was not tried: some of its members may not enter the queue.", _held_back(gates)
    condition = outcome.get("condition") or {}
    if not condition:
        return f"Its {name} was not tried.", ""
    if condition["status"] == "True":
        own = "and it as well" if gets_node else "but not this pod"
        return f"Its {name} would get its nodes, {own}.", condition.get("message") or ""
    return f"It is decided with its {name}, which would not get its nodes.", condition.get("message") or ""


def _held_back(gates: Tree) -> str:
    """By reason, which members it keeps out: `m-0, m-1: waiting for scheduling gates: [a] (SchedulingGates)`."""
    held: dict[str, list[str]] = {}
    for pod, gate in gates.items():
        if gate is not None:
            held.setdefault(f"{', '.join(gate['reasons'])} ({gate['plugin']})", []).append(pod)
    reported = [f"{_named(pods)}: {why}" for why, pods in held.items()]
    more = f"; and {len(reported) - EXAMPLES} more reasons" if len(reported) > EXAMPLES else ""
    return "; ".join(reported[:EXAMPLES]) + more


def _named(pods: Sequence[str]) -> str:
    more = f" and {len(pods) - EXAMPLES} more" if len(pods) > EXAMPLES else ""
    return ", ".join(pods[:EXAMPLES]) + more


def _group_preemption(found: Tree) -> tuple[str, tuple[str, ...]]:
    """A sentence without its end, and whom it is about."""
    victims = tuple(f"{each['namespace']}/{each['name']}" for each in found.get("victims") or ())
    return ("Preemption would make room for the group by evicting", victims) if victims else ("", ())


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


def _preemption(found: Tree) -> tuple[str, tuple[str, ...]]:
    """As of a group."""
    if node := found.get("nominatedNode"):
        return f"Preemption would make room on {node} by evicting", tuple(found.get("victims") or ())
    return "", ()
