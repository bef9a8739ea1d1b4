"""What another configuration would have made of a recording, for people and for programs."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from kscheduler.recorder.alternatives.comparing import PolicyComparison
from kscheduler.recorder.alternatives.run_measurements import RunMeasurements, quantile
from kscheduler.recorder.report.times import time_text
from kscheduler.text import BOLD, INDENT, PLAIN, Style, aligned, printable, wrapped

API_VERSION: Final = "replay.kscheduler.io/v1"
KIND: Final = "PolicyComparison"
# Pods of a kind that are shown; -o json has all.
_MOST: Final = 20


def comparison_tree(compared: PolicyComparison, where: str) -> dict[str, Any]:
    """Always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "recording": where,
        "from": time_text(compared.first),
        "until": time_text(compared.last),
        "recorded": _measured(compared.before),
        "other": _measured(compared.after),
        "elsewhere": [
            {"pod": each.pod, "recorded": each.before or None, "other": each.after or None} for each in compared.moved()
        ],
        "notes": compared.notes,
    }


def _measured(of: RunMeasurements) -> dict[str, Any]:
    waits = of.queue_seconds
    return {
        "placed": len(of.placed),
        "pending": of.pending,
        "evicted": [{"pod": pod, "by": by} for pod, by in of.evicted],
        "decisions": of.decisions,
        "withoutPoints": [
            {
                "plugin": each.plugin,
                "decisions": each.decisions,
                "partly": each.partly,
                "of": of.scored,
                "why": each.cause,
            }
            for each in of.without_points.values()
        ],
        "queueSeconds": {
            "mean": sum(waits) / len(waits) if waits else 0.0,
            "p50": quantile(waits, 0.5),
            "p99": quantile(waits, 0.99),
            "max": waits[-1] if waits else 0.0,
        },
        "nodesInUse": of.mean("in_use"),
        "cpuUse": of.mean("cpu"),
        "memoryUse": of.mean("memory"),
        "zoneSkew": of.mean("zone_skew"),
        "price": of.mean("price") if any(sample.price is not None for sample in of.samples) else None,
    }


def comparison_text(compared: PolicyComparison, style: Style = PLAIN) -> str:
    """Without a final line end."""
    lines = (part.rstrip() for line in _lines(compared, style) for part in wrapped(line, style.width))
    return "\n".join(lines)


def _lines(compared: PolicyComparison, style: Style) -> Iterator[str]:
    before, after = _measured(compared.before), _measured(compared.after)
    yield f"{time_text(compared.first)} to {time_text(compared.last)}, decided by each configuration for itself"
    yield ""
    rows: list[tuple[str, ...]] = [("", "RECORDED", "OTHER")]
    rows += [(words, text(before), text(after)) for words, text in _ROWS]
    if before["price"] is not None or after["price"] is not None:
        rows.append(("price of nodes in use", *(f"{each['price'] or 0:.3f}" for each in (before, after))))
    yield from aligned(rows, {1, 2})
    if compared.before.without_points or compared.after.without_points:
        yield ""
    yield from _without_points("RECORDED", compared.before)
    yield from _without_points("OTHER", compared.after)
    moved = list(compared.moved())
    yield ""
    yield f"{style.paint(f'{len(moved):,} pods would be elsewhere', BOLD)}"
    for each in moved[:_MOST]:
        yield f"{INDENT}{printable(each.pod)}: {_node(each.before)} -> {_node(each.after)}"
    if len(moved) > _MOST:
        yield f"{INDENT}and {len(moved) - _MOST:,} more"
    for words, own, others in (
        ("would wait only here", compared.after.pending, compared.before.pending),
        ("would wait no longer", compared.before.pending, compared.after.pending),
    ):
        yield from _pending(words, {key: text for key, text in own.items() if key not in others})
    for note in compared.notes:
        yield f"note: {printable(note)}"


def _without_points(whose: str, of: RunMeasurements) -> Iterator[str]:
    """A line a plugin: without it, a policy that failed looks like one that makes no difference."""
    for each in of.without_points.values():
        times = [f"in {each.decisions:,} of {of.scored:,} decisions"] if each.decisions else []
        times += [f"to some of the nodes in {each.partly:,} of {of.scored:,} decisions"] if each.partly else []
        yield printable(f"{whose}: {each.plugin} gave no points {', '.join(times)}: {each.cause}")


def _pending(words: str, pods: dict[str, str]) -> Iterator[str]:
    if not pods:
        return
    yield f"{len(pods):,} {words}:"
    for reason, count in Counter(pods.values()).most_common(5):
        yield f"{INDENT}{count:,}: {printable(reason)}"


def _node(name: str) -> str:
    return printable(name) if name else "no node"


_ROWS: Final[tuple[tuple[str, Callable[[dict[str, Any]], str]], ...]] = (
    ("pods that got a node", lambda of: f"{of['placed']:,}"),
    ("pending at the end", lambda of: f"{len(of['pending']):,}"),
    ("evicted", lambda of: f"{len(of['evicted']):,}"),
    ("seconds in the queue, mean", lambda of: f"{of['queueSeconds']['mean']:.2f}"),
    ("  99 of 100 below", lambda of: f"{of['queueSeconds']['p99']:.2f}"),
    ("  at most", lambda of: f"{of['queueSeconds']['max']:.2f}"),
    ("nodes in use, mean", lambda of: f"{of['nodesInUse']:.1f}"),
    ("  cpu requested of theirs", lambda of: f"{of['cpuUse']:.1%}"),
    ("  memory requested of theirs", lambda of: f"{of['memoryUse']:.1%}"),
    ("zone skew", lambda of: f"{of['zoneSkew']:.1f}"),
)
