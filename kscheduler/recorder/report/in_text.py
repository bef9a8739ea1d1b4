"""The outcome of a replay for people."""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.framework.reasons.wording import share_texts
from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.report.times import time_text
from kscheduler.text import BOLD, GREEN, INDENT, PLAIN, RED, YELLOW, Style, aligned, printable, wrapped

# Differences that are shown; -o json has more.
_MOST: Final = 10


def replay_text(report: Report, style: Style = PLAIN) -> str:
    """Without a final line end."""
    return _folded(_lines(report, style), style)


def state_text(tree: dict[str, Any], style: Style = PLAIN) -> str:
    """Cache and queue; without a final line end. Rows of its tables are not folded, as kubectl's are not."""
    return "\n".join(line.rstrip() for line in _state(tree, style))


def _folded(lines: Iterator[str], style: Style) -> str:
    return "\n".join(part.rstrip() for line in lines for part in wrapped(line, style.width))


def _lines(report: Report, style: Style) -> Iterator[str]:
    span = f"{time_text(report.first)} to {time_text(report.last)}"
    lost = f" ({style.paint(f'{report.lost:,} more were lost', YELLOW)})" if report.lost else ""
    size = f"{report.entries:,} entries{lost}, {_number(report.segments, 'segment')}"
    yield f"{report.decisions:,} decisions, {size}: {span}"
    own = sum(report.by_plugin.values())
    if report.is_equal and not own:
        judged = report.decisions - sum(report.followed.values())
        equal = "all that was recorded came out the same" if report.lost else "all came out as recorded"
        outcome = style.paint(equal, YELLOW if report.lost else GREEN)
        yield f"{outcome} ({judged:,} judged), hash {report.digest}"
    elif report.differing:
        yield f"{style.paint(f'{report.differing:,} came out differently', RED if report.differing - own else YELLOW)}"
    else:
        yield f"{style.paint('none came out differently, but a part could not be replayed', RED)}: see below"
    yield from _differences(report, style)
    for plugin, count in report.by_plugin.items():
        yield f"{count:,} of them cannot be replayed: {plugin} decides from data that are not in the recording"
    for reason, count in report.followed.items():
        yield f"{count:,} were taken from the recording and not judged: {reason}"
    for text in report.astray:
        yield f"{style.paint('not replayed', RED)}: {text}; all is left out from here to the next snapshot"
    if report.lost:
        yield f"{style.paint('gap', YELLOW)}: {report.lost:,} entries are lost; what depends on them is not compared"
    for text in report.stopped:
        yield f"{style.paint('cut', YELLOW)}: {text}; nothing after it is replayed until the next snapshot"
    if report.is_redacted:
        yield "names are hashed in this recording; of the texts of conditions only the numbers are compared"
    for text in dict.fromkeys(report.notes):
        yield f"note: {printable(text)}"


def _differences(report: Report, style: Style) -> Iterator[str]:
    for each in report.differences[:_MOST]:
        when = f"at {time_text(each.micros)}, decision {each.decision:,}"
        yield f"{INDENT}{style.paint(printable(each.pod), BOLD)} {when}"
        yield f"{INDENT}{INDENT}{printable(each.text)}"
    if report.differing > _MOST:
        yield f"{INDENT}and {report.differing - _MOST:,} more"


def _number(count: int, word: str) -> str:
    return f"{count:,} {word}" if count == 1 else f"{count:,} {word}s"


def _state(tree: dict[str, Any], style: Style) -> Iterator[str]:
    nodes, queue = tree["nodes"], tree["queue"]
    yield f"{style.paint(tree['time'], BOLD)}: {_number(len(nodes), 'node')}, {_number(len(queue), 'waiting pod')}"
    yield from aligned([("NODE", "PODS", "ASSUMED", "CPU", "MEMORY"), *map(_node_row, nodes)], set())
    if queue:
        yield ""
        head = ("POD", "PLACE", "ATTEMPTS", "SINCE", "UNTIL", "TURNED DOWN BY")
        yield from aligned([head, *map(_queue_row, queue)], set())
    if tree["inFlight"]:
        yield f"being tried: {', '.join(map(printable, tree['inFlight']))}"
    for each in tree["nominated"]:
        yield f"{printable(each['pod'])} is expected on {printable(each['node'])}"
    for each in tree["waitingForPermit"]:
        yield f"{printable(each['pod'])} waits for {', '.join(each['plugins'])} on {printable(each['node'])}"
    for each in tree["preemptions"]:
        victims = ", ".join(map(printable, each["victims"]))
        yield f"{printable(each['preemptor'])} preempts on {printable(each['node'])}: {victims}"


def _node_row(node: dict[str, Any]) -> tuple[str, ...]:
    assumed = sum(pod["assumed"] for pod in node["pods"])
    name = node["name"] if node["isThere"] else f"{node['name']} (gone)"
    used = (_used(node["resources"], resource) for resource in ("cpu", "memory"))
    return printable(name), str(len(node["pods"])), str(assumed or ""), *used


def _queue_row(waiting: dict[str, Any]) -> tuple[str, ...]:
    rejectors = waiting["gate"] or ", ".join(waiting["plugins"])
    backoff = waiting["backoffUntil"] or ""
    return (
        printable(waiting["pod"]),
        waiting["place"],
        str(waiting["attempts"]),
        waiting["since"],
        backoff,
        rejectors,
    )


def _used(resources: dict[str, Any], name: str) -> str:
    found = resources.get(name)
    if found is None:
        return ""
    used, all_of_it = share_texts(name, found["requested"], found["allocatable"])
    return f"{used} of {all_of_it}"
