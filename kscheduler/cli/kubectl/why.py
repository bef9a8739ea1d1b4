"""`kubectl kscheduler why POD`."""

import argparse
import asyncio
import sys

from kscheduler.cli import explain_flags
from kscheduler.cli.asking_flags import namespace_of
from kscheduler.cli.kubectl.choosing import WHO_DECIDES, add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.service import ServiceDoor
from kscheduler.cli.refusal import refusing
from kscheduler.client.access.connection import load_connection
from kscheduler.client.rest import APIClient
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.explain.text.printable import json_line, printable


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """The flags of `kscheduler explain`, and who answers."""
    parser = explain_flags.add_parser(subparsers, "why", WHO_DECIDES)
    add_choice(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print why, and return the exit code."""
    return refusing(_answer, args)


def _decide(args: argparse.Namespace) -> int:
    from kscheduler.cli.commands.explain import run as decide  # with the scheduler's rules, which are large

    return decide(args)


def _answer(args: argparse.Namespace) -> int:
    if not args.schema:
        explain_flags.check(args)
    group = explain_flags.group_in(args.pod or "")
    if group and args.source is None:
        args.namespace = asyncio.run(_namespace_of_group(args, group))
    also = {
        "-f": args.filename,  # a pod that does not exist
        "--config": args.config,
        "--ask-extenders": args.ask_extenders,
        "--schema": args.schema,
    }
    return answer(args, _ask, _decide, not_of_the_service(args, also))


async def _namespace_of_group(args: argparse.Namespace, group: str) -> str:
    """Where the group is asked about. Raises `UnknownPodError` if it has no members there."""
    from kscheduler.explain.questions.named_group import member_in_cluster  # with much that few questions need

    connection = await load_connection(master=args.master, kubeconfig=args.kubeconfig, context=args.context)
    async with APIClient(connection) as client:
        return (await member_in_cluster(client, namespace_of(args), group)).metadata.namespace


def _whom(args: argparse.Namespace) -> dict[str, str]:
    """The parameter that says whom the question is about."""
    if group := explain_flags.group_in(args.pod or ""):
        return {"podGroup": f"{namespace_of(args)}/{group}"}
    namespace, name = explain_flags.pod_of(args, namespace_of(args))
    return {"pod": f"{namespace}/{name}"}


async def _ask(args: argparse.Namespace, door: ServiceDoor) -> int:
    params = _whom(args) if not args.against else {**_whom(args), "against": args.against}
    if args.no_suggestions:
        params["suggestions"] = "false"
    kubectl = KubectlFlags.of(args)  # the service does not know how its users reach the cluster
    if args.output == "json":
        print(json_line(kubectl.in_explanation(await door.explained(**params))))
    else:
        text = (await door.get("/explain", accept="text/plain", **params)).decode()
        print(kubectl.in_text("\n".join(printable(line) for line in text.splitlines())))
    sys.stdout.flush()
    return 0
