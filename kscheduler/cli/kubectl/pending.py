"""`kubectl kscheduler pending`."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from kscheduler.answers import ReadAnswer
from kscheduler.answers.pending_in_queue import PendingInQueue, ReasonInQueue
from kscheduler.answers.suggestions import CommonSuggestion, SuggestionAnswer
from kscheduler.cli.kubectl.choosing import WHO_DECIDES, add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.service import InvalidQueryError, ServiceProxyClient
from kscheduler.cli.pending_flags import add_parser as add_flags
from kscheduler.cli.pending_flags import namespace_queried
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.text import (
    BOLD,
    DIM,
    INDENT,
    Style,
    age_of,
    json_line,
    nodes,
    printable,
    style_of,
    without_empty_answer,
    wrapped,
)

# Reasons without a change whose oldest pod may wait with a group: each is a question of its own.
MAX_EXPLAINED: Final = 5
_NAMED: Final = 3
# `kind` of an answer about a pod group.
_OF_A_GROUP: Final = "PodGroupExplanation"
_QUEUES: Final = {
    "active": "in the queue",
    "backoff": "in backoff",
    "unschedulable": "unschedulable",
    "gated": "gated",
    "incomplete": "in an incomplete pod group",
    "pending": "in a pod group under way",
    "underWay": "under way",
}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """The flags of `kscheduler pending`, and who answers."""
    parser = add_flags(subparsers, "pending", WHO_DECIDES)
    add_choice(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the reasons, and return the exit code."""
    return answer(args, _ask, _decide, not_of_the_service(args, {"--config": args.config}))


def _decide(args: argparse.Namespace) -> int:
    from kscheduler.cli.commands.pending import run as decide  # with the scheduler's rules, which are large

    return decide(args)


async def _ask(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    namespace = namespace_queried(args)
    params = {"namespace": namespace} if namespace else {}
    if not args.no_suggestions:
        params["suggestions"] = "true"
    pending = await proxy.get_as(PendingInQueue, "/pending", **params)
    if not args.no_suggestions:
        pending = await _with_changes_of_groups(pending, proxy)
    pending = KubectlFlags.of(args).in_pending(pending)  # the service does not know how its users reach the cluster
    if args.output == "json":
        print(json_line(pending))
    else:
        print("\n".join(pending_lines(pending, datetime.now(UTC), style_of(sys.stdout))))
    sys.stdout.flush()
    return 0


async def _with_changes_of_groups(pending: PendingInQueue, proxy: ServiceProxyClient) -> PendingInQueue:
    """With what would help a pod group, where nothing was found for pods one by one."""
    reasons = list(pending.reasons)
    for alike in _paragraphs(pending.reasons)[:MAX_EXPLAINED]:
        first = alike[0]
        if not (first.suggestion or first.left_off):  # left off: it is asked about alone, and more is too much
            change = await _of_its_group(first, proxy)
            reasons[reasons.index(first)] = msgspec.structs.replace(first, suggestion=change)
    return msgspec.structs.replace(pending, reasons=tuple(reasons))


class _Explained(ReadAnswer, frozen=True):
    """Of an explanation of a pod, or of its group."""

    kind: str
    suggestions: tuple[SuggestionAnswer, ...] | None = None


async def _of_its_group(reason: ReasonInQueue, proxy: ServiceProxyClient) -> CommonSuggestion | None:
    """The smallest change for the pod group of a reason's oldest pod: what is not found for pods one by one."""
    # A group that was rejected is never parked: it backs off until it is tried again.
    places = ("unschedulable", "gated", "backoff") if reason.pod_group else ("unschedulable", "gated")
    if reason.queue not in places or not reason.pods:
        return None
    pod = reason.pods[0].key
    try:
        explained = await proxy.get_as(_Explained, "/explain", pod=pod)
    except InvalidQueryError:
        return None  # it is gone meanwhile
    found = explained.suggestions if explained.kind == _OF_A_GROUP else None
    return CommonSuggestion.of(pod, found[0]) if found else None


def pending_lines(pending: PendingInQueue, now: datetime, style: Style) -> Iterator[str]:
    """The answer of `/pending` in words. Its reasons may be older than the cluster, which is said."""
    total = pending.count
    if not total:
        yield "no pod of the schedulers that are served here is pending" if pending.not_served else "no pod is pending"
        yield from _not_served(pending, style)
        return
    total_text = f"{total} pod is pending" if total == 1 else f"{total} pods are pending"
    yield f"{style.paint(total_text, BOLD)} (reasons as the last attempt left them; {_how_to_judge(pending)})"
    for alike in _paragraphs(pending.reasons):
        yield ""
        yield from _reason_lines(alike, now, style)
    if pending.reasons_left_off:
        yield f"and {pending.reasons_left_off} reasons more"
    yield from _not_served(pending, style)


def _paragraphs(reasons: Sequence[ReasonInQueue]) -> list[list[ReasonInQueue]]:
    """The reasons that are told together: those of pod groups that differ in nothing but the group's name."""
    alike: dict[tuple[Any, ...], list[ReasonInQueue]] = {}
    for number, reason in enumerate(reasons):
        key: tuple[Any, ...] = (number,)
        if reason.pod_group:
            key = (reason.queue, reason.profile, *reason.plugins, _without_name(reason.message, reason.pod_group))
        alike.setdefault(key, []).append(reason)
    return list(alike.values())


def _without_name(message: str, group: str) -> str:
    """The message without the group's own name, which stands in some of them: `2 of 4 members of pod group …`."""
    namespace, _, name = group.partition("/")
    # The name as a word of its own, with or without its namespace; another name may contain it.
    return re.sub(rf"(?<![\w./-])(?:{re.escape(namespace)}/)?{re.escape(name)}(?![\w/-]|\.\w)", "…", message)


def _how_to_judge(pending: PendingInQueue) -> str:
    """The flags with which this command judges the pods itself: it serves one name, by default not the service's."""
    flags = [_direct_flags(name) for name in pending.by_profile or (OWN_SCHEDULER_NAME,)]
    one_by_one = ", by scheduler name" if len(flags) > 1 else ""
    return f"{' or '.join(flags)} judges now{one_by_one}"


def _direct_flags(name: str) -> str:
    served = "" if name == OWN_SCHEDULER_NAME else f" --scheduler-name {printable(shlex.quote(name))}"
    return f"--direct{served}"


def _not_served(pending: PendingInQueue, style: Style) -> Iterator[str]:
    """How many pods are not shown; an older service does not count them."""
    others = pending.not_served
    if others:
        names = ", ".join(f"{printable(name)} ({count})" for name, count in others.items())
        yield ""
        text = f"not shown: pods without a node of schedulers that are not served here: {names}; --direct lists them"
        yield from wrapped(text, style.width)
        for name in [*others][:_NAMED]:  # a line each, not broken: to be pasted
            yield f"{INDENT}as if {printable(name)} were served: {_direct_flags(name)}"


def _reason_lines(alike: Sequence[ReasonInQueue], now: datetime, style: Style) -> Iterator[str]:
    reason, groups = alike[0], [each.pod_group for each in alike if each.pod_group]
    count = sum(each.count for each in alike)
    pods, message = reason.pods, reason.message
    if len(groups) > 1:
        every = (pod for each in alike for pod in each.pods)
        pods = tuple(sorted(every, key=lambda pod: pod.creation_timestamp or "~"))
        message = message if len({each.message for each in alike}) == 1 else _without_name(message, groups[0])
    names = [pod.key for pod in pods[:_NAMED]]
    more = f" and {count - len(names)} more" if count > len(names) else ""
    since = min((each.since for each in alike if each.since), default=None)
    age = f", the oldest for {age_of(since, now)}" if since else ""
    place = _QUEUES.get(reason.queue, reason.queue)
    if groups:
        place = f"{place}, {'a member' if count == 1 else 'members'} of {_named_groups(groups)}"
    by = f" ({', '.join(map(printable, reason.plugins))})" if reason.plugins else ""
    yield from wrapped(f"{count}  {place}{by}{age}: {', '.join(map(printable, names))}{more}", style.width)
    if message:
        yield from wrapped(f"{INDENT}{printable(without_empty_answer(message))}", style.width)
    if reason.left_off:
        yield from wrapped(f"{INDENT}{printable(reason.left_off)}", style.width)
    if found := next((each.suggestion for each in alike if each.suggestion), None):
        text = f"{found.text} ({nodes(found.nodes)}{found.freed(count)})"
        yield from wrapped(f"{INDENT}{printable(found.pod)} would fit: {printable(text)}", style.width)
        if found.command:
            yield f"{INDENT}{style.paint(printable(found.command), DIM)}"
        if found.command_note:
            yield from wrapped(f"{INDENT}({printable(found.command_note)})", style.width)
    if groups and names:
        which = "the whole group" if len(groups) == 1 else "one whole group"
        yield f"{INDENT}{which}: kubectl kscheduler why {printable(names[0])}"


def _named_groups(groups: list[str]) -> str:
    if len(groups) == 1:
        return f"pod group {printable(groups[0])}"
    more = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
    return f"{len(groups)} pod groups, {', '.join(map(printable, groups[:_NAMED]))}{more}"
