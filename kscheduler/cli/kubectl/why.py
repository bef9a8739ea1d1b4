"""`kubectl kscheduler why POD`."""

import argparse
import sys
from typing import TYPE_CHECKING

from kscheduler.cli import explain_flags
from kscheduler.cli.cluster_flags import namespace_of
from kscheduler.cli.kubectl.choosing import WHO_DECIDES, add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.service import ServiceProxyClient, TooManyQueriedError
from kscheduler.cli.refusal import refusing
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.text import json_line, printable

if TYPE_CHECKING:
    from kscheduler.cli.kubectl.new_pod_questions import Question


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """The flags of `kscheduler explain`, and who answers."""
    parser = explain_flags.add_parser(subparsers, "why", WHO_DECIDES)
    add_choice(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print why, and return the exit code."""
    return refusing(_response, args)


def _decide(args: argparse.Namespace) -> int:
    from kscheduler.cli.commands.explain import run as decide  # with the scheduler's rules, which are large

    return decide(args)


def _response(args: argparse.Namespace) -> int:
    if not args.schema:
        explain_flags.check(args)
    if args.filename and not args.schema:
        explain_flags.new_objects_of(args)  # here: service and command need them alike
    also = {
        "--config": args.config,
        "--ask-extenders": args.ask_extenders,
        "--schema": args.schema,
    }
    return answer(args, _ask, _decide, not_of_the_service(args, also))


async def _subject(args: argparse.Namespace, proxy: ServiceProxyClient) -> dict[str, str]:
    """The parameter that says whom the question is about: of a workload one of its pods, which is read in your name."""
    if group := explain_flags.group_in(args.pod or ""):
        return {"podGroup": f"{namespace_of(args)}/{group}"}
    if workload := explain_flags.workload_in(args.pod or ""):
        from kscheduler.explain.queries.named_workloads import live_pod_of

        async with proxy.own_client() as client:
            pod, which = await live_pod_of(client, namespace_of(args), workload)
        print(f"kscheduler: {printable(which)}", file=sys.stderr)
        return {"pod": pod.key}
    namespace, name = explain_flags.pod_of(args, namespace_of(args))
    return {"pod": f"{namespace}/{name}"}


async def _ask(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    if args.filename:
        return await _ask_about_new(args, proxy)
    params = await _subject(args, proxy)
    if args.against:
        params["against"] = args.against
    if args.no_suggestions:
        params["suggestions"] = "false"
    kubectl = KubectlFlags.of(args)  # the service does not know how its users reach the cluster
    if args.output == "json":
        print(json_line(kubectl.in_explanation(await proxy.explained(**params))))
    else:
        text = (await proxy.get("/explain", accept="text/plain", **params)).decode()
        print(kubectl.in_text("\n".join(printable(line) for line in text.splitlines())))
    sys.stdout.flush()
    return 0


async def _ask_about_new(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    """Pods that do not exist yet: their manifests go to the service."""
    from kscheduler.cli.kubectl.manifests import explanation_requests  # most questions have no manifests

    documents, not_read = explain_flags.new_objects_of(args)
    notes = [*not_read]
    questions = await explanation_requests(documents, namespace_of(args), notes, proxy)
    options = {"against": args.against or "", "suggestions": not args.no_suggestions}
    kubectl = KubectlFlags.of(args)

    async def answers_to(question: "Question") -> list[str]:
        body = {**question.body, **options}
        try:
            if args.output == "json":
                items = (await proxy.post_json("/explain", body))["items"]
                return [
                    json_line(kubectl.in_explanation({**item, "notes": [*notes, *item["notes"]]})) for item in items
                ]
            text = (await proxy.post("/explain", body, accept="text/plain")).decode()
            return [kubectl.in_text("\n".join(printable(line) for line in text.splitlines()))]
        except TooManyQueriedError:
            if not question.parts:
                raise
        return [answer for part in question.parts for answer in await answers_to(part)]

    answers = [answer for question in questions for answer in await answers_to(question)]
    for note in dict.fromkeys(notes):
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    print(*answers, sep="\n" if args.output == "json" else "\n\n")
    sys.stdout.flush()
    return 0
