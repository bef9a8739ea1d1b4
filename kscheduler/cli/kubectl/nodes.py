"""`kubectl kscheduler nodes`: how full they are, and who was rejected."""

import argparse
import sys

import msgspec

from kscheduler.cli.cluster_flags import EXIT_CODES, add_cluster_flags, add_objects_file
from kscheduler.cli.kubectl.choosing import add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.service import ServiceProxyClient
from kscheduler.cli.parser import text
from kscheduler.cli.refusal import refusing
from kscheduler.explain.cluster_answers import NodeUses
from kscheduler.explain.node_use_text import ORDERS, unknown_nodes, uses_text
from kscheduler.text import json_line, printable, style_of

_DESCRIPTION = """\
List the nodes: what their pods request of what they have, taints, what is too full, and how many waiting pods each has
rejected, by plugin. Nothing is written to any cluster."""

_EPILOG = f"""\
Exit codes: 0 answered; 1 a NODE that was named is not there; {EXIT_CODES}"""
_NO_SUCH_NODE = 1


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "nodes", help="list the nodes by use", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False
    )
    query = parser.add_argument_group("what is asked")
    query.add_argument("names", nargs="*", type=text, metavar="NODE", help="only these nodes")
    add_objects_file(query)
    add_cluster_flags(parser)
    add_choice(parser)
    shown = parser.add_argument_group("the answer")
    shown.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    shown.add_argument("--sort-by", choices=ORDERS, default=ORDERS[0], help="default: the fullest first")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the nodes, and return the exit code."""
    return answer(args, _ask, _decide, not_of_the_service(args, {"--config": args.config}))


async def _ask(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    return _print(await proxy.get_as(NodeUses, "/nodes"), args)


def _decide(args: argparse.Namespace) -> int:
    return refusing(_decided, args)


def _decided(args: argparse.Namespace) -> int:
    from kscheduler.cli.cluster_input import cluster_input
    from kscheduler.explain.node_use import node_uses
    from kscheduler.scenario.serving import served_cluster

    found = cluster_input(args)
    found.leave_out_unreadable()
    found.note_unfollowed_groups()
    cache, profiles = served_cluster(found.objects, found.served, found.where)
    return _print(node_uses(cache, profiles, found.objects.pods, found.served.config.gates.version, found.notes), args)


def _print(uses: NodeUses, args: argparse.Namespace) -> int:
    """Print the nodes that were asked for; returns the exit code."""
    for note in dict.fromkeys(uses.notes):
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        wanted = tuple(each for each in uses.nodes if not args.names or each.name in args.names)
        print(json_line(msgspec.structs.replace(uses, nodes=wanted)))
    else:
        print(uses_text(uses, args.sort_by, args.names, style_of(sys.stdout)))
    sys.stdout.flush()
    unknown = unknown_nodes(uses, args.names)
    for name in unknown if args.output == "json" else ():  # the text has said it
        print(f"kscheduler: there is no node {printable(name)}", file=sys.stderr)
    return _NO_SUCH_NODE if unknown else 0
