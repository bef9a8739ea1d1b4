"""`kscheduler explain`: where a pod goes and why, in a live cluster or in a cluster from a file.

    explain POD                      a pod of the live cluster
    explain podgroup/NAME            a pod group, by one of its members
    explain -f pod.yaml              a new pod in the live cluster
    explain --from FILE              scenarios, or each pending pod of the objects that kubectl has printed
    explain --from FILE POD          a pod of those objects
    explain --from FILE -f pod.yaml  a new pod in the cluster of those objects

docs/explain.md describes output, files and exit codes.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Iterator

from kscheduler.api.defaults.pods import default_new_pod
from kscheduler.api.new_objects import objections
from kscheduler.cli.asking_flags import address_of, by_the_servers_version, choose_cluster, serving_of
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
from kscheduler.client.access.connection import current_namespace, load_connection
from kscheduler.client.rest import APIClient
from kscheduler.explain.answering import Answer, answered
from kscheduler.explain.as_json import schema_text
from kscheduler.explain.questions.as_if import NewObjectRules
from kscheduler.explain.questions.from_files import Asked, questions_from
from kscheduler.explain.questions.live import live_question, new_pod_questions
from kscheduler.explain.questions.named import live_group_question, live_pod_of
from kscheduler.explain.questions.question import GroupQuestion, Question
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.files import ScenarioError
from kscheduler.scenario.serving import Serving
from kscheduler.text import Style, json_line, printable, style_of

__all__ = ["add_parser", "run"]
_EXPLAINED = 0
_RULES = NewObjectRules(default_new_pod, objections)

Answered = tuple[Question | GroupQuestion, Decision | GroupDecision]


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
        return _print(asyncio.run(_ask_cluster(args, served)), args)
    group, workload = group_in(args.pod or ""), workload_in(args.pod or "")
    namespace, name = (args.namespace or "default", "") if group or workload else pod_of(args, "default")
    selection = Asked(
        namespace,
        name,
        tuple(args.filename),
        workload,
        group,
        against=args.against or "",
        is_about_a_cluster=bool(args.pod or args.filename or args.config or args.scheduler_name or args.namespace)
        or bool(args.plugin),
    )
    questions = questions_from(args.source, selection, served, _RULES)
    if args.ask_extenders:
        return _print(asyncio.run(_answered(questions, None, args)), args)
    return _print(_answered_in_turn(questions), args)


async def _ask_cluster(args: argparse.Namespace, served: Serving) -> list[Answered]:
    address = address_of(args)
    group, workload = group_in(args.pod or ""), workload_in(args.pod or "")
    is_bare = names_no_namespace(args.pod or "")
    namespace = args.namespace or (current_namespace(**address) if is_bare else "default")
    namespace, name = (namespace, "") if group or workload else pod_of(args, namespace)
    if args.filename:
        documents, not_read = new_objects_of(args)
    async with APIClient(await load_connection(**address)) as client:
        served = await by_the_servers_version(client, args, served)
        if args.filename:
            return await _answered(
                await new_pod_questions(client, documents, not_read, namespace, served, _RULES), client, args
            )
        if workload is not None:
            pod, which = await live_pod_of(client, namespace, workload)
            name = pod.metadata.name
            print(f"kscheduler: {printable(which)}", file=sys.stderr)
        if group:
            question = await live_group_question(client, namespace, group, served)
        else:
            question = await live_question(client, namespace, name, served)
        return await _answered([question], client, args)


async def _answered(
    questions: Iterable[Question | GroupQuestion], client: APIClient | None, args: argparse.Namespace
) -> list[Answered]:
    decides = None
    if args.ask_extenders:
        from kscheduler.scenario.extenders import DecidingWithExtenders  # rarely needed, and large

        decides = DecidingWithExtenders(client)
    answers, problems = [], []
    for question in questions:
        try:
            answers.append((question, await question.answer_asking(client, decides)))
        except ScenarioError as problem:
            problems.append(problem)
    _leave_out(problems, is_all=not answers)
    return answers


def _answered_in_turn(questions: Iterable[Question | GroupQuestion]) -> Iterator[Answered]:
    """Each answer when it is asked for. A pod about which nothing can be decided costs itself, not those after it."""
    problems: list[ScenarioError] = []
    is_all = True
    for question in questions:
        try:
            decision = question.answer()
        except ScenarioError as problem:
            problems.append(problem)
        else:
            is_all = False
            yield question, decision
    _leave_out(problems, is_all=is_all)


def _leave_out(problems: list[ScenarioError], *, is_all: bool) -> None:
    """Raises `ScenarioError` if nothing else was asked."""
    if problems and is_all:
        raise ScenarioError("\n".join(map(str, problems)))
    for problem in problems:
        print(f"kscheduler: {printable(str(problem))}: it is left out", file=sys.stderr)


def _print(answers: Iterable[Answered], args: argparse.Namespace) -> int:
    output: str = args.output
    style, kubectl = style_of(sys.stdout), KubectlFlags.of(args)
    failed, printed_notes = False, set[str]()
    for position, (question, decision) in enumerate(answers):
        answer = answered(question, decision, against_node=args.against or "", with_suggestions=not args.no_suggestions)
        for note in answer.notes:
            if note not in printed_notes:
                print(f"kscheduler: {printable(note)}", file=sys.stderr)
                printed_notes.add(note)
        failed |= bool(decision.error)
        if output == "json":
            print(json_line(kubectl.in_explanation(answer.as_tree())))
        else:
            print(kubectl.in_text(_text(answer, style, is_first=position == 0)))
    sys.stdout.flush()
    return FAILED if failed else _EXPLAINED


def _text(answer: Answer, style: Style, *, is_first: bool) -> str:
    encoding = sys.stdout.encoding or "utf-8"
    shown = answer.as_text(style).encode(encoding, errors="backslashreplace").decode(encoding)
    return shown if is_first or isinstance(answer.decision, GroupDecision) else f"\n{shown}"
