"""The recorded decisions about one pod, for people and for programs."""

from collections.abc import Iterator

from kscheduler.recorder.replaying.pod_decisions import PodDecisions
from kscheduler.recorder.report.answers import PodDecisionAnswer, PodDecisionsAnswer
from kscheduler.recorder.report.times import parse_time, time_text
from kscheduler.text import BOLD, GREEN, INDENT, PLAIN, Style, printable, wrapped


def pod_decisions_answer(read: PodDecisions, where: str) -> PodDecisionsAnswer:
    """What was decided about the pod. `where`: the recording."""
    return PodDecisionsAnswer(
        recording=where,
        pod=read.pod,
        first=time_text(read.first),
        last=time_text(read.last),
        decisions=tuple(
            PodDecisionAnswer(
                time=time_text(each.micros),
                pod=each.pod,
                attempt=each.attempt,
                node=each.node or None,
                text=each.text,
                plugins=tuple(each.plugins),
                victims=tuple(each.victims),
                victims_on=each.victims_on or None,
                pod_group=each.group or None,
            )
            for each in read.found
        ),
        stopped=tuple(read.problems),
    )


def pod_decisions_text(answer: PodDecisionsAnswer, style: Style = PLAIN) -> str:
    """Without a final line end."""
    return "\n".join(part.rstrip() for line in _lines(answer, style) for part in wrapped(line, style.width))


def _lines(answer: PodDecisionsAnswer, style: Style) -> Iterator[str]:
    found = answer.decisions
    count = "1 decision" if len(found) == 1 else f"{len(found):,} decisions"
    yield f"{style.paint(printable(answer.pod), BOLD)}: {count}, {answer.first} to {answer.last}"
    several = len({each.pod for each in found}) > 1
    for each in found:
        name = f"{printable(each.pod)}, " if several else ""
        how = f"attempt {each.attempt}" if each.attempt is not None else "later"
        if each.pod_group:
            how = f"with pod group {printable(each.pod_group)}"
        yield f"{each.time}  {name}{how}: {_outcome(each, style)}"
        if each.victims:
            victims = ", ".join(map(printable, each.victims))
            yield f"{INDENT}preempts on {printable(each.victims_on or '')}: {victims}"
    if found:
        before = time_text(parse_time(found[-1].time)[1] - 1)
        where = printable(answer.recording)
        yield f"nodes and queue before the last one: kscheduler replay {where} --until {before}"


def _outcome(each: PodDecisionAnswer, style: Style) -> str:
    if each.node:
        return f"node {style.paint(printable(each.node), GREEN)}"
    by = f" ({', '.join(map(printable, each.plugins))})" if each.plugins else ""
    return f"no node{by}: {printable(each.text)}" if each.text else f"no node{by}"
