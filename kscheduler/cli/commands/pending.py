"""`kscheduler pending`: all pending pods of a cluster by reason, each with the change that would help.

pending                         of the live cluster
pending -n shop                 of one namespace
pending --from FILE             of objects that kubectl has printed
"""

import argparse
import asyncio
import sys
from datetime import UTC, datetime

from kscheduler.api.codec import UndecodableError
from kscheduler.cli.asking_flags import (
    add_cluster,
    add_scheduler,
    by_the_servers_version,
    serving_of,
)
from kscheduler.cli.flags import add_feature_gates
from kscheduler.cli.parser import StoreText
from kscheduler.cli.refusal import refuse
from kscheduler.client.access.connection import load_connection
from kscheduler.client.errors import ClientError, ConfigurationError
from kscheduler.client.rest import APIClient
from kscheduler.config.errors import ConfigError
from kscheduler.explain.as_json import json_line
from kscheduler.explain.pending.as_answer import pending_text, pending_tree
from kscheduler.explain.pending.reasons import pending_reasons
from kscheduler.explain.questions.live import read_cluster
from kscheduler.explain.questions.serving import Serving
from kscheduler.explain.rehearsals.planning import cluster_of_file
from kscheduler.explain.text.layout import style_of
from kscheduler.explain.text.printable import printable
from kscheduler.simulation.objects.defaults.pods import default_new_pod
from kscheduler.upstream.release import VERSION
from kscheduler.whatif.scenario import ClusterObjects, ScenarioError

_ANSWERED, _FAILED, _BAD_INPUT = 0, 1, 2

_DESCRIPTION = """\
List the pods that have no node, by reason: how many, since when, in kube-scheduler's words, and for the oldest of each
the smallest change that would give it a node. Nothing is written to any cluster, and no service has to run."""


def add_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str = "pending"
) -> argparse.ArgumentParser:
    """Add the subcommand; kubectl has another name for it."""
    parser = subparsers.add_parser(
        name, help="list the pending pods by reason", description=_DESCRIPTION, allow_abbrev=False
    )
    question = parser.add_argument_group("what is asked")
    question.add_argument(
        "--from",
        dest="source",
        action=StoreText,
        metavar="FILE",
        help="no live cluster: objects as `kubectl get -o json` or -o yaml prints them; - is standard input",
    )
    question.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="of this namespace; default: of all"
    )
    add_scheduler(parser.add_argument_group("who would schedule"))
    add_feature_gates(parser, f"of a live cluster the newest that is not newer than the API server, else {VERSION}")
    add_cluster(parser.add_argument_group("the live cluster"))
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    answer.add_argument("--no-suggestions", action="store_true", help="do not look for changes that would help")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    try:
        return _run(args)
    except (ScenarioError, ConfigError, ConfigurationError) as problem:
        return _complain(str(problem), _BAD_INPUT)
    except (ClientError, UndecodableError) as problem:
        return _complain(str(problem), _FAILED)


def _run(args: argparse.Namespace) -> int:
    if args.source is not None and (args.kubeconfig or args.master or args.context):
        raise ScenarioError("--kubeconfig, --context and --master go with a live cluster; --from FILE brings its own")
    served = serving_of(args)
    if args.source is not None:
        found = cluster_of_file(args.source, served, default_new_pod)
        objects, notes, where = found.cluster(), found.notes, args.source
    else:
        objects, served, notes = asyncio.run(_read(args, served))
        where = "cluster"
    reasons = pending_reasons(objects, served, where, args.namespace, with_suggestions=not args.no_suggestions)
    for note in dict.fromkeys(notes):
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        print(json_line(pending_tree(reasons, objects, served.config, notes)))
    else:
        print(pending_text(reasons, objects, datetime.now(UTC), style_of(sys.stdout)))
    sys.stdout.flush()
    return _ANSWERED


async def _read(args: argparse.Namespace, served: Serving) -> tuple[ClusterObjects, Serving, list[str]]:
    address = {"master": args.master, "kubeconfig": args.kubeconfig, "context": args.context}
    notes: list[str] = []
    async with APIClient(await load_connection(**address)) as client:
        served = await by_the_servers_version(client, args, served)
        return await read_cluster(client, notes), served, notes


def _complain(problem: str, code: int) -> int:
    refuse("\n".join(printable(line) for line in problem.splitlines()))
    return code
