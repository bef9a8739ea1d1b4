"""`kscheduler explain`: where a pod goes and why, in a live cluster or in a cluster from a file.

    explain POD                      a pod of the live cluster
    explain podgroup/NAME            a pod group, by one of its members
    explain -f pod.yaml              a new pod, or a new pod group, in the live cluster
    explain --from FILE              scenarios, or each pending pod of the objects that kubectl has printed
    explain --from FILE POD          a pod of those objects
    explain --from FILE -f pod.yaml  a new pod in the cluster of those objects

docs/explain.md describes output, files and exit codes.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

from kscheduler.cli.cluster_flags import address_of, choose_cluster, live_client, served_as_the_service, serving_of
from kscheduler.cli.explain_flags import (
    add_parser,
    check,
    group_in,
    names_no_namespace,
    new_objects_of,
    pod_of,
    workload_in,
)
from kscheduler.cli.refusal import FAILED, refusing
from kscheduler.client.access.connection import current_namespace
from kscheduler.client.rest import APIClient
from kscheduler.explain.explanation import Explanation, answered
from kscheduler.explain.group_answer import with_commands
from kscheduler.explain.outcome import cycle_outcome
from kscheduler.explain.queries.explain_query import ExplainQuery, GroupExplainQuery
from kscheduler.explain.queries.from_files import PodSelection, queries_from
from kscheduler.explain.queries.live import live_query, new_pod_queries
from kscheduler.explain.queries.named_groups import live_group_query
from kscheduler.explain.queries.named_workloads import live_pod_of
from kscheduler.explain.schema import schema_text
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.serving import Serving
from kscheduler.text import Style, json_line, printable, style_of, wrapped

__all__ = ["add_parser", "run"]
_EXPLAINED = 0

Answered = tuple[ExplainQuery | GroupExplainQuery, Decision | GroupDecision]


def run(args: argparse.Namespace) -> int:
    """Print the answers and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(schema_text())
        return _EXPLAINED
    check(args)
    served = serving_of(args)
    if args.source is None:
        choose_cluster(args, served)
        answers, served = asyncio.run(_ask_cluster(args, served))
        return _print(answers, args, served)
    group, workload = group_in(args.pod or ""), workload_in(args.pod or "")
    namespace, name = (args.namespace or "default", "") if group or workload else pod_of(args, "default")
    selection = PodSelection(
        namespace,
        name,
        tuple(args.filename),
        workload,
        group,
        against=args.against or "",
        is_about_a_cluster=bool(args.pod or args.filename or args.config or args.scheduler_name or args.namespace)
        or bool(args.plugin),
    )
    queries = queries_from(args.source, selection, served)
    if args.ask_extenders:
        return _print(asyncio.run(_answered(queries, None, args)), args, served)
    return _print(_answered_in_turn(queries), args, served)


async def _ask_cluster(args: argparse.Namespace, served: Serving) -> tuple[list[Answered], Serving]:
    """The answers, and who schedules by the rules of the cluster's version."""
    address = address_of(args)
    group, workload = group_in(args.pod or ""), workload_in(args.pod or "")
    is_bare = names_no_namespace(args.pod or "")
    namespace = args.namespace or (current_namespace(**address) if is_bare else "default")
    namespace, name = (namespace, "") if group or workload else pod_of(args, namespace)
    if args.filename:
        documents, not_read = new_objects_of(args)
    async with live_client(args) as client:
        served = await served_as_the_service(client, args, served)
        if args.filename:
            queries = await new_pod_queries(client, documents, not_read, namespace, served)
            return await _answered(queries, client, args), served
        if workload is not None:
            pod, which = await live_pod_of(client, namespace, workload)
            name = pod.metadata.name
            print(f"kscheduler: {printable(which)}", file=sys.stderr)
        if group:
            query = await live_group_query(client, namespace, group, served)
        else:
            query = await live_query(client, namespace, name, served)
        return await _answered([query], client, args), served


async def _answered(
    queries: Iterable[ExplainQuery | GroupExplainQuery], client: APIClient | None, args: argparse.Namespace
) -> list[Answered]:
    decides = None
    if args.ask_extenders:
        from kscheduler.scenario.extenders import ExtenderDecider  # rarely needed, and large

        decides = ExtenderDecider(client)
    answers, problems = [], []
    for query in queries:
        try:
            answers.append((query, await query.fetch_and_decide(client, decides)))
        except ScenarioError as problem:
            problems.append(problem)
    _leave_out(problems, is_all=not answers)
    return answers


def _answered_in_turn(queries: Iterable[ExplainQuery | GroupExplainQuery]) -> Iterator[Answered]:
    """Each answer when it is asked for. A pod about which nothing can be decided costs itself, not those after it."""
    problems: list[ScenarioError] = []
    is_all = True
    for query in queries:
        try:
            decision = query.decide()
        except ScenarioError as problem:
            problems.append(problem)
        else:
            is_all = False
            yield query, decision
    _leave_out(problems, is_all=is_all)


def _leave_out(problems: list[ScenarioError], *, is_all: bool) -> None:
    """Raises `ScenarioError` if nothing else was asked."""
    if problems and is_all:
        raise ScenarioError("\n".join(map(str, problems)))
    for problem in problems:
        print(f"kscheduler: {printable(str(problem))}: it is left out", file=sys.stderr)


def _print(answers: Iterable[Answered], args: argparse.Namespace, served: Serving) -> int:
    output: str = args.output
    style, kubectl = style_of(sys.stdout), KubectlFlags.of(args)
    failed, is_decided, printed_notes = False, False, set[str]()
    for position, (query, decision) in enumerate(answers):
        explanation = answered(
            query, decision, against_node=args.against or "", with_suggestions=not args.no_suggestions
        )
        if served.is_other_version and output == "json":
            explanation = replace(explanation, notes=(*explanation.notes, served.rules))
        for note in explanation.notes:
            if note not in printed_notes:
                print(f"kscheduler: {printable(note)}", file=sys.stderr)
                printed_notes.add(note)
        failed |= bool(decision.error)
        is_decided |= isinstance(decision, GroupDecision) or cycle_outcome(decision) is not None
        if output == "json":
            print(json_line(with_commands(explanation.answer, kubectl.in_command)))
        else:
            print(kubectl.in_text(_text(explanation, style, is_first=position == 0)))
    if output == "text" and is_decided:
        print("\n".join(["", *wrapped(printable(served.rules), style.width)]))
    sys.stdout.flush()
    return FAILED if failed else _EXPLAINED


def _text(explanation: Explanation, style: Style, *, is_first: bool) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    shown = explanation.as_text(style).encode(encoding, errors="backslashreplace").decode(encoding)
    return shown if is_first or isinstance(explanation.decision, GroupDecision) else f"\n{shown}"
