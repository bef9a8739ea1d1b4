"""A shadow's report for people."""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.shadow.as_tree import Tree
from kscheduler.text import BOLD, INDENT, PLAIN, Style, aligned, printable, wrapped

# Of each kind, the newest.
SHOWN_EXAMPLES: Final = 3
# Less is no delay that one could see in the text.
LEAST_OVERDUE_SECONDS: Final = 0.05
# What each kind means, in the order of the report.
KINDS: Final = {
    "same": "the same node",
    "order": "the same node, if bindings in flight are counted in another order",
    "tie": "another node with as many points",
    "sampled": "a node with fewer points; the better ones may have been missing in its sample",
    "different score": "a node with fewer points",
    "not feasible": "a node that we reject",
    "unknown rule": "decided by something that a shadow cannot repeat",
}


def shadow_text(tree: Tree, style: Style = PLAIN) -> str:
    """The report, without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(tree, style) for part in wrapped(line, style.width))


def _lines(tree: Tree, style: Style) -> Iterator[str]:
    follows = tree["follows"]
    names = ", ".join(map(printable, follows["schedulers"]))
    yield style.paint(f"shadow of {names} ({follows['program']}), {tree['seconds']:.0f} s", BOLD)
    yield f"{INDENT}decided by {printable(tree['config'] or 'the default configuration')}"
    yield from _counts(tree, style)
    yield from _reasons(tree["reasons"], style)
    yield from _examples(tree["examples"], style)
    yield from _sums(tree, style)


def _counts(tree: Tree, style: Style) -> Iterator[str]:
    compared = tree["compared"]
    yield ""
    if not tree["hasBegun"]:
        yield f"{INDENT}nothing was compared: the first lists of the cluster have not arrived"
        return
    if not compared:
        yield f"{INDENT}no pod was bound since the start"
        return
    agreement = tree["agreement"]
    share = "" if agreement is None else f": agreement {percent_text(agreement)}"
    title = f"{compared} bindings compared, {tree['differences']} differences{share}"
    yield f"{INDENT}{style.paint(title, BOLD)}"
    kinds = tree["kinds"]
    rows = [(str(kinds[kind]), kind, meaning) for kind, meaning in KINDS.items() if kinds[kind]]
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {0}))
    for key, text in (
        (
            "withoutSearch",
            "differences for which the search for an order was cut short: earlier searches found none, or time was up",
        ),
        ("notCompared", "pods were first seen on a node, and not compared"),
    ):
        if tree[key]:
            yield f"{INDENT}{INDENT}{tree[key]} {text}"


def percent_text(share: float) -> str:
    """Never 100 where something differs."""
    return f"{share:.2%}" if share in (0.0, 1.0) or share < 0.9999 else f"{min(share, 0.999999):.4%}"


def _reasons(reasons: list[Tree], style: Style) -> Iterator[str]:
    if not reasons:
        return
    yield ""
    yield f"{INDENT}{style.paint('why pods would have gone elsewhere', BOLD)}"
    rows = [
        (
            str(each["pods"]),
            each["kind"],
            f"{printable(each['reason'])} ({', '.join(map(printable, each['examples']))})",
        )
        for each in reasons
    ]
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {0}))


def _examples(examples: dict[str, list[Tree]], style: Style) -> Iterator[str]:
    for kind in KINDS:
        shown = examples.get(kind, [])[-SHOWN_EXAMPLES:]
        if shown:
            yield ""
            yield f"{INDENT}{style.paint(f'{kind}: the last of them', BOLD)}"
        for verdict in shown:
            yield from (f"{INDENT}{INDENT}{line}" for line in _example(verdict))


def _example(verdict: Tree) -> Iterator[str]:
    theirs, ours = printable(verdict["theirs"]), printable(verdict["ours"] or "no node")
    yield f"{printable(verdict['pod'])}: it went to {theirs}; ours: {ours}"
    if verdict["order"] is not None:
        yield f"{INDENT}{printable(verdict['order']['text'])} (found at try {verdict['order']['tries']})"
    if verdict["ours"] is None and verdict["message"]:
        yield f"{INDENT}{printable(verdict['message'])}"
    against = verdict["against"]
    if against is None:
        return
    rejected = against["turnedDown"]
    if rejected is not None:
        plugin = rejected["plugin"] or "PreFilter"
        yield f"{INDENT}{plugin} rejects {theirs}: {printable(', '.join(rejected['reasons']))}"
        yield from (f"{INDENT}- {printable(detail)}" for detail in rejected["details"])
    yield from (f"{INDENT}{line}" for line in points_table(against))


def points_table(against: Tree) -> list[str]:
    """Points by plugin of both nodes; empty where there are none, or all are equal."""
    different = [each for each in against["points"] if each["chosen"] != each["other"]]
    if not different:
        return []
    head = ("points", f"ours: {printable(against['chosen'] or '')}", f"theirs: {printable(against['node'])}")
    rows: list[tuple[str, ...]] = [head]
    rows += [(_plugin(each), str(each["chosen"]), str(each["other"])) for each in different]
    return list(aligned(rows, {1, 2}))


def _plugin(points: dict[str, Any]) -> str:
    name, weight = printable(points["plugin"]), points["weight"]
    return name if weight == 1 else f"{name} (weight {weight})"


def _sums(tree: Tree, style: Style) -> Iterator[str]:
    left, placed = tree["leftPending"], tree["placements"]
    yield ""
    yield f"{INDENT}{style.paint('in total', BOLD)}"
    if left["ever"]:
        pods = ", ".join(f"{printable(each['pod'])} (to {printable(each['node'])})" for each in left["pods"][:3])
        counts = f"{left['now']} now, {left['ever']} in all"
        yield f"{INDENT}{INDENT}left pending, though we would place them: {counts}: {pods}"
    nominations = {word: count for word, count in tree["nominations"].items() if count}
    if nominations:
        words = ", ".join(f"{word} {count}" for word, count in nominations.items())
        evictions = tree["evictions"]
        yield f"{INDENT}{INDENT}their nominations, and what we would have done: {words}"
        yield f"{INDENT}{INDENT}pods evicted: theirs {evictions['theirs']}, ours {evictions['ours']}"
    rows = [("", "theirs", "ours")]
    for label, key in (("nodes used", "nodesUsed"), ("skew of zones, pods", "zoneSkew")):
        rows.append((label, str(placed["theirs"][key]), str(placed["ours"][key])))
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {1, 2}))
    yield f"{INDENT}{INDENT}of {placed['pods']} compared pods that run, {placed['elsewhere']} would be elsewhere"
    for name, room in tree["room"].items():
        if room["allocatable"]:
            share = room["requested"] / room["allocatable"]
            yield f"{INDENT}{INDENT}{printable(name)}: {share:.1%} of what nodes have is requested"
    behind, settle = tree["behindSeconds"], tree["settleSeconds"]
    overdue = f"; the oldest that waits is {behind:.1f} s overdue" if behind >= LEAST_OVERDUE_SECONDS else ""
    yield f"{INDENT}{INDENT}changes are held back for {settle:g} s{overdue}"
