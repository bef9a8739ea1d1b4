"""`kubectl kscheduler pending`."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from kscheduler.cli.kubectl.choosing import WHO_DECIDES, add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.service import InvalidQueryError, ServiceProxyClient
from kscheduler.cli.pending_flags import add_parser as add_flags
from kscheduler.cli.pending_flags import namespace_queried
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.explain.pending.freed import freed_text
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.text import BOLD, DIM, INDENT, Style, age_of, json_line, nodes, printable, style_of, wrapped

Tree = dict[str, Any]

# Reasons without a change whose oldest pod may wait with a group: each is a question of its own.
MAX_EXPLAINED: Final = 5
_NAMED: Final = 3
# `kind` of an answer about a pod group.
_OF_A_GROUP: Final = "PodGroupExplanation"
_QUEUES: Final = {
    "active": "in the queue",
    "backoff": "in back-off",
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


async def _ask(args: argparse.Namespace, door: ServiceProxyClient) -> int:
    namespace = namespace_queried(args)
    params = {"namespace": namespace} if namespace else {}
    if not args.no_suggestions:
        params["suggestions"] = "true"
    tree = await door.get_json("/pending", **params)
    if not args.no_suggestions:
        for alike in _paragraphs(tree["reasons"])[:MAX_EXPLAINED]:
            if not alike[0].get("leftOff"):  # else it is asked about alone, and more is too much
                alike[0]["suggestion"] = alike[0]["suggestion"] or await _of_its_group(alike[0], door)
    tree = KubectlFlags.of(args).in_pending(tree)  # the service does not know how its users reach the cluster
    if args.output == "json":
        print(json_line(tree))
    else:
        print("\n".join(pending_lines(tree, datetime.now(UTC), style_of(sys.stdout))))
    sys.stdout.flush()
    return 0


async def _of_its_group(reason: Tree, door: ServiceProxyClient) -> Tree | None:
    """The smallest change for the pod group of a reason's oldest pod: what is not found for pods one by one."""
    # A group that was rejected is never parked: it backs off until it is tried again.
    places = ("unschedulable", "gated", "backoff") if reason.get("podGroup") else ("unschedulable", "gated")
    if reason["queue"] not in places or not reason["pods"]:
        return None
    pod = f"{reason['pods'][0]['namespace']}/{reason['pods'][0]['name']}"
    try:
        explained = await door.get_json("/explain", pod=pod)
    except InvalidQueryError:
        return None  # it is gone meanwhile
    found = explained.get("suggestions") if explained["kind"] == _OF_A_GROUP else None
    return {"pod": pod, **found[0]} if found else None


def pending_lines(tree: Tree, now: datetime, style: Style) -> Iterator[str]:
    """The answer of `/pending` in words. Its reasons may be older than the cluster, which is said."""
    total = tree["count"]
    if not total:
        yield "no pod is pending"
        yield from _not_served(tree, style)
        return
    total_text = f"{total} pod is pending" if total == 1 else f"{total} pods are pending"
    yield f"{style.paint(total_text, BOLD)} (reasons as the last attempt left them; {_how_to_judge(tree)})"
    for alike in _paragraphs(tree["reasons"]):
        yield ""
        yield from _reason_lines(alike, now, style)
    if tree["reasonsLeftOff"]:
        yield f"and {tree['reasonsLeftOff']} reasons more"
    yield from _not_served(tree, style)


def _paragraphs(reasons: list[Tree]) -> list[list[Tree]]:
    """The reasons that are told together: those of pod groups that differ in nothing but the group's name."""
    alike: dict[tuple[Any, ...], list[Tree]] = {}
    for number, reason in enumerate(reasons):
        key: tuple[Any, ...] = (number,)
        if reason.get("podGroup"):
            key = (reason["queue"], reason.get("profile"), *reason["plugins"], _without_name(reason))
        alike.setdefault(key, []).append(reason)
    return list(alike.values())


def _without_name(reason: Tree) -> str:
    """The message without the group's own name, which stands in some of them: `2 of 4 members of pod group …`."""
    namespace, _, name = reason["podGroup"].partition("/")
    # The name as a word of its own, with or without its namespace; another name may contain it.
    return re.sub(rf"(?<![\w./-])(?:{re.escape(namespace)}/)?{re.escape(name)}(?![\w/-]|\.\w)", "…", reason["message"])


def _how_to_judge(tree: Tree) -> str:
    """The flags with which this command judges the pods itself: it serves one name, by default not the service's."""
    flags = [_direct_flags(name) for name in tree.get("byProfile") or (OWN_SCHEDULER_NAME,)]
    one_by_one = ", by scheduler name" if len(flags) > 1 else ""
    return f"{' or '.join(flags)} judges now{one_by_one}"


def _direct_flags(name: str) -> str:
    served = "" if name == OWN_SCHEDULER_NAME else f" --scheduler-name {printable(shlex.quote(name))}"
    return f"--direct{served}"


def _not_served(tree: Tree, style: Style) -> Iterator[str]:
    """How many pods are not shown; an older service does not count them."""
    others: dict[str, int] = tree.get("notServed", {})
    if others:
        names = ", ".join(f"{printable(name)} ({count})" for name, count in others.items())
        yield ""
        text = f"not shown: pods without a node of schedulers that are not served here: {names}; --direct lists them"
        yield from wrapped(text, style.width)
        for name in [*others][:_NAMED]:  # a line each, not broken: to be pasted
            yield f"{INDENT}as if {printable(name)} were served: {_direct_flags(name)}"


def _reason_lines(alike: list[Tree], now: datetime, style: Style) -> Iterator[str]:
    reason, groups = alike[0], [each["podGroup"] for each in alike if each.get("podGroup")]
    count = sum(each["count"] for each in alike)
    if len(groups) > 1:
        pods = sorted(
            (pod for each in alike for pod in each["pods"]), key=lambda pod: pod.get("creationTimestamp") or "~"
        )
        message = reason["message"] if len({each["message"] for each in alike}) == 1 else _without_name(reason)
    else:
        pods, message = reason["pods"], reason["message"]
    names = [f"{pod['namespace']}/{pod['name']}" for pod in pods[:_NAMED]]
    more = f" and {count - len(names)} more" if count > len(names) else ""
    since = min((each["since"] for each in alike if each["since"]), default=None)
    age = f", the oldest for {age_of(since, now)}" if since else ""
    place = _QUEUES.get(reason["queue"], reason["queue"])
    if groups:
        place = f"{place}, {'a member' if count == 1 else 'members'} of {_named_groups(groups)}"
    by = f" ({', '.join(map(printable, reason['plugins']))})" if reason["plugins"] else ""
    yield from wrapped(f"{count}  {place}{by}{age}: {', '.join(map(printable, names))}{more}", style.width)
    if message:
        yield from wrapped(f"{INDENT}{printable(message)}", style.width)
    suggestion = next((each["suggestion"] for each in alike if each.get("suggestion") is not None), None)
    if reason.get("leftOff"):
        yield from wrapped(f"{INDENT}{printable(reason['leftOff'])}", style.width)
    if suggestion is not None:
        text = f"{suggestion['text']} ({nodes(suggestion['nodes'])}{_freed(suggestion, count)})"
        yield from wrapped(f"{INDENT}{printable(suggestion['pod'])} would fit: {printable(text)}", style.width)
        if suggestion["command"]:
            yield f"{INDENT}{style.paint(printable(suggestion['command']), DIM)}"
        if suggestion["commandNote"]:
            yield from wrapped(f"{INDENT}({printable(suggestion['commandNote'])})", style.width)
    if groups and names:
        which = "the whole group" if len(groups) == 1 else "one whole group"
        yield f"{INDENT}{which}: kubectl kscheduler why {printable(names[0])}"


def _named_groups(groups: list[str]) -> str:
    if len(groups) == 1:
        return f"pod group {printable(groups[0])}"
    more = f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else ""
    return f"{len(groups)} pod groups, {', '.join(map(printable, groups[:_NAMED]))}{more}"


def _freed(suggestion: Tree, count: int) -> str:
    """Nothing of a group's; an older service does not count those that are alike."""
    if "frees" not in suggestion:
        return ""
    return freed_text(
        suggestion["frees"], suggestion["tried"], count, suggestion.get("alike"), suggestion.get("looked")
    )
