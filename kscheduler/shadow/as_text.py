"""A shadow's report for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kscheduler.explain.answer import Against, PluginPoints
from kscheduler.shadow.report import ShadowExample, ShadowReason, ShadowReport
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


def shadow_text(report: ShadowReport, style: Style = PLAIN) -> str:
    """The report, without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(report, style) for part in wrapped(line, style.width))


def _lines(report: ShadowReport, style: Style) -> Iterator[str]:
    follows = report.follows
    names = ", ".join(map(printable, follows.schedulers))
    yield style.paint(f"shadow of {names} ({follows.program}), {report.seconds:.0f} s", BOLD)
    configuration = printable(report.config or "the default configuration")
    yield f"{INDENT}decided by {configuration}, as kube-scheduler {report.emulation_version}"
    yield from _counts(report, style)
    yield from _reasons(report.reasons, style)
    yield from _examples(report.examples, style)
    yield from _sums(report, style)


def _counts(report: ShadowReport, style: Style) -> Iterator[str]:
    compared = report.compared
    yield ""
    if not report.has_begun:
        yield f"{INDENT}nothing was compared: the first lists of the cluster have not arrived"
        return
    if not compared:
        yield f"{INDENT}no pod was bound since the start"
        return
    agreement = report.agreement
    share = "" if agreement is None else f": agreement {percent_text(agreement)}"
    title = f"{compared} bindings compared, {report.differences} differences{share}"
    yield f"{INDENT}{style.paint(title, BOLD)}"
    kinds = report.kinds
    rows = [(str(kinds[kind]), kind, meaning) for kind, meaning in KINDS.items() if kinds[kind]]
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {0}))
    for count, text in (
        (
            report.without_search,
            "differences for which the search for an order was cut short: earlier searches found none, or time was up",
        ),
        (report.not_compared, "pods were first seen on a node, and not compared"),
    ):
        if count:
            yield f"{INDENT}{INDENT}{count} {text}"


def percent_text(share: float) -> str:
    """Never 100 where something differs."""
    return f"{share:.2%}" if share in (0.0, 1.0) or share < 0.9999 else f"{min(share, 0.999999):.4%}"


def _reasons(reasons: Sequence[ShadowReason], style: Style) -> Iterator[str]:
    if not reasons:
        return
    yield ""
    yield f"{INDENT}{style.paint('why pods would have gone elsewhere', BOLD)}"
    rows = [
        (
            str(each.pods),
            each.kind,
            f"{printable(each.reason)} ({', '.join(map(printable, each.examples))})",
        )
        for each in reasons
    ]
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {0}))


def _examples(examples: Mapping[str, Sequence[ShadowExample]], style: Style) -> Iterator[str]:
    for kind in KINDS:
        shown = examples.get(kind, ())[-SHOWN_EXAMPLES:]
        if shown:
            yield ""
            yield f"{INDENT}{style.paint(f'{kind}: the last of them', BOLD)}"
        for example in shown:
            yield from (f"{INDENT}{INDENT}{line}" for line in _example(example))


def _example(example: ShadowExample) -> Iterator[str]:
    theirs, ours = printable(example.theirs), printable(example.ours or "no node")
    yield f"{printable(example.pod)}: it went to {theirs}; ours: {ours}"
    if example.order is not None:
        yield f"{INDENT}{printable(example.order.text)} (found at try {example.order.tries})"
    if example.ours is None and example.message:
        yield f"{INDENT}{printable(example.message)}"
    against = example.against
    if against is None:
        return
    rejected = against.status
    if rejected is not None:
        yield f"{INDENT}{rejected.plugin or 'PreFilter'} rejects {theirs}: {printable(rejected.message)}"
        yield from (f"{INDENT}- {printable(detail)}" for detail in rejected.details)
    yield from (f"{INDENT}{line}" for line in points_table(against))


def points_table(against: Against) -> list[str]:
    """Points by plugin of both nodes; empty where there are none, or all are equal."""
    different = [each for each in against.points if each.chosen != each.other]
    if not different:
        return []
    head = ("points", f"ours: {printable(against.chosen or '')}", f"theirs: {printable(against.node)}")
    rows: list[tuple[str, ...]] = [head]
    rows += [(_plugin(each), str(each.chosen), str(each.other)) for each in different]
    return list(aligned(rows, {1, 2}))


def _plugin(points: PluginPoints) -> str:
    name = printable(points.plugin)
    return name if points.weight == 1 else f"{name} (weight {points.weight})"


def _sums(report: ShadowReport, style: Style) -> Iterator[str]:
    left, placed = report.left_pending, report.placements
    yield ""
    yield f"{INDENT}{style.paint('in total', BOLD)}"
    if left.ever:
        pods = ", ".join(f"{printable(each.pod)} (to {printable(each.node)})" for each in left.pods[:3])
        counts = f"{left.now} now, {left.ever} in all"
        yield f"{INDENT}{INDENT}left pending, though we would place them: {counts}: {pods}"
    nominations = {word: count for word, count in report.nominations.items() if count}
    if nominations:
        words = ", ".join(f"{word} {count}" for word, count in nominations.items())
        yield f"{INDENT}{INDENT}their nominations, and what we would have done: {words}"
        yield f"{INDENT}{INDENT}pods evicted: theirs {report.evictions.theirs}, ours {report.evictions.ours}"
    rows = [
        ("", "theirs", "ours"),
        ("nodes used", str(placed.theirs.nodes_used), str(placed.ours.nodes_used)),
        ("skew of zones, pods", str(placed.theirs.zone_skew), str(placed.ours.zone_skew)),
    ]
    yield from (f"{INDENT}{INDENT}{line}" for line in aligned(rows, {1, 2}))
    yield f"{INDENT}{INDENT}of {placed.pods} compared pods that run, {placed.elsewhere} would be elsewhere"
    for name, room in report.room.items():
        if room.allocatable:
            share = room.requested / room.allocatable
            yield f"{INDENT}{INDENT}{printable(name)}: {share:.1%} of what nodes have is requested"
    behind = report.behind_seconds
    overdue = f"; the oldest that waits is {behind:.1f} s overdue" if behind >= LEAST_OVERDUE_SECONDS else ""
    yield f"{INDENT}{INDENT}changes are held back for {report.settle_seconds:g} s{overdue}"
