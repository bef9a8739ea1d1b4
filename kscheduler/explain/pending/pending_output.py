"""The reasons of pending pods, for people and for programs."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from kscheduler.explain.pending.freed import freed_text
from kscheduler.explain.pending.reasons import PendingVerdict, Reason, counted
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.as_json import suggestion_trees
from kscheduler.explain.suggestions.as_lines import suggestion_text
from kscheduler.explain.suggestions.commands import command_note, command_of
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.text import BOLD, DIM, INDENT, PLAIN, Style, age_of, nodes, printable, wrapped

Tree = dict[str, Any]

API_VERSION: Final = "pending.kscheduler.io/v1"
KIND: Final = "PendingPods"
_NAMED: Final = 3
# Pods of a reason that JSON lists; `count` has all.
_MAX_LISTED: Final = 1_000


def pending_text(reasons: Sequence[Reason], objects: ClusterObjects, now: datetime, style: Style = PLAIN) -> str:
    """The reasons with examples, and the change that helps most of the pods of each."""
    return "\n".join(_lines(reasons, objects, now, style))


def _lines(reasons: Sequence[Reason], objects: ClusterObjects, now: datetime, style: Style) -> Iterator[str]:
    total = sum(len(each.pods) for each in reasons)
    if not total:
        yield "no pod is pending"
        return
    is_or_are = "pod is" if total == 1 else "pods are"
    yield style.paint(f"{total} {is_or_are} pending", BOLD)
    for reason in reasons:
        names = ", ".join(printable(pod.key) for pod in reason.pods[:_NAMED])
        more = f" and {len(reason.pods) - _NAMED} more" if len(reason.pods) > _NAMED else ""
        age = f", the oldest for {age_of(reason.since, now)}" if reason.since else ""
        yield ""
        yield from wrapped(f"{len(reason.pods)}  {reason.verdict.value}{age}: {names}{more}", style.width)
        yield from wrapped(f"{INDENT}{printable(reason.message)}", style.width)
        if reason.groups:
            listed = ", ".join(map(printable, reason.groups[:_NAMED]))
            rest = f" and {len(reason.groups) - _NAMED} more" if len(reason.groups) > _NAMED else ""
            which = "pod group" if len(reason.groups) == 1 else f"{len(reason.groups)} pod groups:"
            namespace, _, name = reason.groups[0].partition("/")
            command = printable(f"kscheduler explain podgroup/{name} -n {namespace}")
            yield from wrapped(f"{INDENT}{which} {listed}{rest}", style.width)
            yield f"{INDENT}{style.paint(command, DIM)}"
        if reason.verdict is PendingVerdict.NOT_SERVED:
            near = nearest(reason.pods[0].spec.scheduler_name, reason.served)
            yield from wrapped(f"{INDENT}do you mean {printable(near)}?", style.width) if near else ()
            name = printable(shlex.quote(reason.pods[0].spec.scheduler_name))
            advice = f"if that is your scheduler: --scheduler-name {name}, or --config with the file it runs with"
            yield from wrapped(f"{INDENT}{advice}", style.width)
            names = " or ".join(printable(served) for served in reason.served)
            fix = (
                f"if that scheduler does not run: the pods need schedulerName: {names}, in the template that makes them"
            )
            yield from wrapped(f"{INDENT}{fix}", style.width)
        if reason.left_off:
            yield from wrapped(f"{INDENT}{printable(reason.left_off)}", style.width)
        if reason.suggestion is not None and reason.example is not None:
            text = f"{suggestion_text(reason.suggestion)} ({nodes(reason.suggestion.nodes)}{_freed(reason)})"
            yield from wrapped(f"{INDENT}{printable(reason.example.key)} would fit: {printable(text)}", style.width)
            if command := command_of(reason.suggestion, reason.example, objects, NO_SITUATION):
                yield f"{INDENT}{style.paint(printable(command), DIM)}"
            note = command_note(reason.suggestion, reason.example, objects, NO_SITUATION)
            yield from wrapped(f"{INDENT}({printable(note)})", style.width) if note else ()


def _freed(reason: Reason) -> str:
    helped = reason.help
    if helped is None:
        return ""
    return freed_text(helped.frees, helped.tried, len(reason.pods), helped.alike, reason.looked)


def pending_tree(
    reasons: Sequence[Reason], objects: ClusterObjects, served_config: Any, notes: Iterable[str] = ()
) -> Tree:
    """As plain dicts and lists, always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "count": sum(len(each.pods) for each in reasons),
        "byPlugin": counted(reasons),
        "reasons": [_reason(each, objects, served_config) for each in reasons],
        "notes": list(notes),
    }


def _reason(reason: Reason, objects: ClusterObjects, config: Any) -> Tree:
    suggestion = None
    if reason.suggestion is not None and reason.example is not None:
        scenario = Scenario(objects, reason.example, config)
        (tree,) = suggestion_trees((reason.suggestion,), scenario, NO_SITUATION)
        helped = reason.help
        freed = (
            {}
            if helped is None
            else {"frees": helped.frees, "tried": helped.tried, "alike": helped.alike, "looked": reason.looked}
        )
        suggestion = {"pod": reason.example.key, **tree, **freed}
    return {
        "verdict": reason.verdict.value,
        "message": reason.message,
        "plugins": list(reason.plugins),
        "podGroups": list(reason.groups[:_MAX_LISTED]),
        "count": len(reason.pods),
        "since": reason.since or None,
        "pods": [
            {
                "namespace": pod.metadata.namespace,
                "name": pod.metadata.name,
                "schedulerName": pod.spec.scheduler_name,
                "priority": pod.spec.priority or 0,
                "creationTimestamp": pod.metadata.creation_timestamp,
            }
            for pod in reason.pods[:_MAX_LISTED]
        ],
        "suggestion": suggestion,
        "leftOff": reason.left_off or None,
    }
