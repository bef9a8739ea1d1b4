"""The reasons of pending pods for people."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from kscheduler.explain.cluster_answers import PendingPodsAnswer, PendingReason, PendingVerdict
from kscheduler.scenario.fields import nearest
from kscheduler.text import BOLD, DIM, INDENT, PLAIN, Style, age_of, nodes, printable, wrapped

_NAMED: Final = 3


def pending_text(answer: PendingPodsAnswer, served: Sequence[str], now: datetime, style: Style = PLAIN) -> str:
    """The reasons with examples, and the change that helps most of the pods of each.

    `served`: the scheduler names that are served, for pods of others.
    """
    return "\n".join(_lines(answer, served, now, style))


def _lines(answer: PendingPodsAnswer, served: Sequence[str], now: datetime, style: Style) -> Iterator[str]:
    if not answer.count:
        yield "no pod is pending"
        return
    is_or_are = "pod is" if answer.count == 1 else "pods are"
    yield style.paint(f"{answer.count} {is_or_are} pending", BOLD)
    for reason in answer.reasons:
        yield ""
        yield from _reason_lines(reason, served, now, style)


def _reason_lines(reason: PendingReason, served: Sequence[str], now: datetime, style: Style) -> Iterator[str]:
    names = ", ".join(printable(pod.key) for pod in reason.pods[:_NAMED])
    more = f" and {reason.count - _NAMED} more" if reason.count > _NAMED else ""
    age = f", the oldest for {age_of(reason.since, now)}" if reason.since else ""
    yield from wrapped(f"{reason.count}  {reason.verdict.value}{age}: {names}{more}", style.width)
    yield from wrapped(f"{INDENT}{printable(reason.message)}", style.width)
    if reason.pod_groups:
        yield from _of_groups(reason.pod_groups, style)
    if reason.verdict is PendingVerdict.NOT_SERVED:
        yield from _of_other_scheduler(reason.pods[0].scheduler_name, served, style)
    if reason.left_off:
        yield from wrapped(f"{INDENT}{printable(reason.left_off)}", style.width)
    if (found := reason.suggestion) is not None:
        text = f"{found.text} ({nodes(found.nodes)}{found.freed(reason.count)})"
        yield from wrapped(f"{INDENT}{printable(found.pod)} would fit: {printable(text)}", style.width)
        if found.command:
            yield f"{INDENT}{style.paint(printable(found.command), DIM)}"
        if found.command_note:
            yield from wrapped(f"{INDENT}({printable(found.command_note)})", style.width)


def _of_groups(groups: Sequence[str], style: Style) -> Iterator[str]:
    listed = ", ".join(map(printable, groups[:_NAMED]))
    rest = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
    which = "pod group" if len(groups) == 1 else f"{len(groups)} pod groups:"
    namespace, _, name = groups[0].partition("/")
    yield from wrapped(f"{INDENT}{which} {listed}{rest}", style.width)
    yield f"{INDENT}{style.paint(printable(f'kscheduler explain podgroup/{name} -n {namespace}'), DIM)}"


def _of_other_scheduler(name: str, served: Sequence[str], style: Style) -> Iterator[str]:
    near = nearest(name, served)
    yield from wrapped(f"{INDENT}do you mean {printable(near)}?", style.width) if near else ()
    flag = f"--scheduler-name {printable(shlex.quote(name))}"
    yield from wrapped(
        f"{INDENT}if that is your scheduler: {flag}, or --config with the file it runs with", style.width
    )
    names = " or ".join(map(printable, served))
    fix = f"if that scheduler does not run: the pods need schedulerName: {names}, in the template that makes them"
    yield from wrapped(f"{INDENT}{fix}", style.width)
