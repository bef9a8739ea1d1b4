"""What another configuration would have made of a recording, for people and for programs."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from kscheduler.fragments.fragmentation import class_in
from kscheduler.recorder.alternatives.comparing import PolicyComparison
from kscheduler.recorder.alternatives.run_measurements import RunMeasurements, quantile
from kscheduler.recorder.report.answers import (
    ComparedEviction,
    ComparedRun,
    ComparisonAnswer,
    PodElsewhere,
    QueueSeconds,
    WithoutPoints,
)
from kscheduler.recorder.report.times import time_text
from kscheduler.text import BOLD, INDENT, PLAIN, Style, aligned, printable, wrapped

# Pods of a kind that are shown; -o json has all.
_MOST: Final = 20
_MOST_RESOURCES: Final = 6


def comparison_answer(compared: PolicyComparison, where: str) -> ComparisonAnswer:
    """What would have been different. `where`: the recording."""
    return ComparisonAnswer(
        recording=where,
        first=time_text(compared.first),
        last=time_text(compared.last),
        recorded=_measured(compared.before),
        other=_measured(compared.after),
        elsewhere=tuple(PodElsewhere(each.pod, each.before or None, each.after or None) for each in compared.moved()),
        notes=tuple(compared.notes),
    )


def _measured(of: RunMeasurements) -> ComparedRun:
    waits = of.queue_seconds
    return ComparedRun(
        emulation_version=of.version,
        placed=len(of.placed),
        pending=of.pending,
        evicted=tuple(ComparedEviction(pod, by) for pod, by in of.evicted),
        decisions=of.decisions,
        without_points=tuple(
            WithoutPoints(each.plugin, each.decisions, each.partly, of.scored, each.cause)
            for each in of.without_points.values()
        ),
        queue_seconds=QueueSeconds(
            mean=sum(waits) / len(waits) if waits else 0.0,
            p50=quantile(waits, 0.5),
            p99=quantile(waits, 0.99),
            max=waits[-1] if waits else 0.0,
        ),
        nodes_in_use=of.mean("in_use"),
        cpu_use=of.mean("cpu"),
        memory_use=of.mean("memory"),
        zone_skew=of.mean("zone_skew"),
        unusable=of.mean_unusable(),
        fragmented=of.mean_fragmented(),
        fragments=of.fragments[-1] if of.fragments else (),
        price=of.mean("price") if any(sample.price is not None for sample in of.samples) else None,
    )


def comparison_text(answer: ComparisonAnswer, style: Style = PLAIN) -> str:
    """Without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(answer, style) for part in wrapped(line, style.width))


def _lines(answer: ComparisonAnswer, style: Style) -> Iterator[str]:
    before, after = answer.recorded, answer.other
    yield f"{answer.first} to {answer.last}, decided by each configuration for itself"
    yield ""
    rows: list[tuple[str, ...]] = [("", "RECORDED", "OTHER")]
    rows += [(words, text(before), text(after)) for words, text in _ROWS]
    if before.price is not None or after.price is not None:
        rows.append(("price of nodes in use", *(f"{each.price or 0:.3f}" for each in (before, after))))
    rows += _unusable(before, after)
    yield from aligned(rows, {1, 2})
    if before.without_points or after.without_points:
        yield ""
    yield from _without_points("RECORDED", before)
    yield from _without_points("OTHER", after)
    moved = answer.elsewhere
    yield ""
    yield f"{style.paint(f'{len(moved):,} pods would be elsewhere', BOLD)}"
    for each in moved[:_MOST]:
        yield f"{INDENT}{printable(each.pod)}: {_node(each.recorded)} -> {_node(each.other)}"
    if len(moved) > _MOST:
        yield f"{INDENT}and {len(moved) - _MOST:,} more"
    for words, own, others in (
        ("would wait only here", after.pending, before.pending),
        ("would wait no longer", before.pending, after.pending),
    ):
        yield from _pending(words, {key: text for key, text in own.items() if key not in others})
    for note in answer.notes:
        yield f"note: {printable(note)}"


def _unusable(before: ComparedRun, after: ComparedRun) -> Iterator[tuple[str, ...]]:
    """Lines for each resource of which a typical pod could not use all: the devices first, as many as there is room."""
    runs = before, after
    found = {name for run in runs for name, share in run.fragmented.items() if share}
    names = sorted(found, key=lambda name: ("/" not in name, name))[:_MOST_RESOURCES]
    blocks: tuple[tuple[str, Callable[[ComparedRun, str], str]], ...] = (
        ("of all, free but not for a typical pod", lambda run, name: f"{run.fragmented.get(name, 0):.1%}"),
        ("of all, free but not for any of them", lambda run, name: f"{run.unusable.get(name, 0):.1%}"),
        ("of all, free at the end", _free_at_the_end),
    )
    for words, text in blocks if names else ():
        yield words, "", ""
        for name in names:
            yield f"  {_resource(name)}", *(text(run, name) for run in runs)


def _free_at_the_end(run: ComparedRun, name: str) -> str:
    found = [each for each in run.fragments if each.resource == name]
    there = sum(each.allocatable for each in found)
    return f"{sum(each.free for each in found) / there:.1%}" if there else "none"


def _resource(name: str) -> str:
    device_class = class_in(name)
    return printable(f"devices of class {device_class}" if device_class else name)


def _without_points(whose: str, of: ComparedRun) -> Iterator[str]:
    """A line a plugin: without it, a policy that failed looks like one that makes no difference."""
    for each in of.without_points:
        times = [f"in {each.decisions:,} of {each.of:,} decisions"] if each.decisions else []
        times += [f"to some of the nodes in {each.partly:,} of {each.of:,} decisions"] if each.partly else []
        yield printable(f"{whose}: {each.plugin} gave no points {', '.join(times)}: {each.why}")


def _pending(words: str, pods: dict[str, str]) -> Iterator[str]:
    if not pods:
        return
    yield f"{len(pods):,} {words}:"
    for reason, count in Counter(pods.values()).most_common(5):
        yield f"{INDENT}{count:,}: {printable(reason)}"


def _node(name: str | None) -> str:
    return printable(name) if name else "no node"


_ROWS: Final[tuple[tuple[str, Callable[[ComparedRun], str]], ...]] = (
    ("pods that got a node", lambda of: f"{of.placed:,}"),
    ("pending at the end", lambda of: f"{len(of.pending):,}"),
    ("evicted", lambda of: f"{len(of.evicted):,}"),
    ("seconds in the queue, mean", lambda of: f"{of.queue_seconds.mean:.2f}"),
    ("  99 of 100 below", lambda of: f"{of.queue_seconds.p99:.2f}"),
    ("  at most", lambda of: f"{of.queue_seconds.max:.2f}"),
    ("nodes in use, mean", lambda of: f"{of.nodes_in_use:.1f}"),
    ("  cpu requested of theirs", lambda of: f"{of.cpu_use:.1%}"),
    ("  memory requested of theirs", lambda of: f"{of.memory_use:.1%}"),
    ("zone skew", lambda of: f"{of.zone_skew:.1f}"),
)
