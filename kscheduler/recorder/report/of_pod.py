"""The recorded decisions about one pod, for people and for programs."""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.recorder.replaying.pod_decisions import PodDecision, PodDecisions
from kscheduler.recorder.report.in_json import API_VERSION
from kscheduler.recorder.report.times import time_text
from kscheduler.text import BOLD, GREEN, INDENT, PLAIN, Style, printable, wrapped

Tree = dict[str, Any]
KIND: Final = "PodDecisions"


def pod_decisions_tree(read: PodDecisions, where: str) -> Tree:
    """Always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "recording": where,
        "pod": read.pod,
        "from": time_text(read.first),
        "until": time_text(read.last),
        "decisions": [
            {
                "time": time_text(each.micros),
                "pod": each.pod,
                "attempt": each.attempt,
                "node": each.node or None,
                "text": each.text,
                "plugins": list(each.plugins),
                "victims": list(each.victims),
                "victimsOn": each.victims_on or None,
                "podGroup": each.group or None,
            }
            for each in read.found
        ],
        "stopped": read.problems,
    }


def pod_decisions_text(read: PodDecisions, where: str, style: Style = PLAIN) -> str:
    """Without a final line end. `where`: the recording, for the command that shows more."""
    return "\n".join(part.rstrip() for line in _lines(read, where, style) for part in wrapped(line, style.width))


def _lines(read: PodDecisions, where: str, style: Style) -> Iterator[str]:
    count = "1 decision" if len(read.found) == 1 else f"{len(read.found):,} decisions"
    yield f"{style.paint(printable(read.pod), BOLD)}: {count}, {time_text(read.first)} to {time_text(read.last)}"
    several = len({each.pod for each in read.found}) > 1
    for each in read.found:
        name = f"{printable(each.pod)}, " if several else ""
        how = f"attempt {each.attempt}" if each.attempt is not None else "later"
        if each.group:
            how = f"with pod group {printable(each.group)}"
        yield f"{time_text(each.micros)}  {name}{how}: {_outcome(each, style)}"
        if each.victims:
            victims = ", ".join(map(printable, each.victims))
            yield f"{INDENT}preempts on {printable(each.victims_on)}: {victims}"
    if read.found:
        before = time_text(read.found[-1].micros - 1)
        yield f"nodes and queue before the last one: kscheduler replay {printable(where)} --until {before}"


def _outcome(each: PodDecision, style: Style) -> str:
    if each.node:
        return f"node {style.paint(printable(each.node), GREEN)}"
    by = f" ({', '.join(map(printable, each.plugins))})" if each.plugins else ""
    return f"no node{by}: {printable(each.text)}" if each.text else f"no node{by}"
