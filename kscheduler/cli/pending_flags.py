"""The flags of `kscheduler pending` and `kubectl kscheduler pending`, without what answers them."""

import argparse

from kscheduler.cli.cluster_flags import EXIT_CODES, add_cluster_flags, add_objects_file
from kscheduler.cli.parser import StoreText

_DESCRIPTION = """\
List the pods that have no node, by reason: how many, since when, in kube-scheduler's words, and for each the
change that would give most of its pods a node. Nothing is written to any cluster, and {}."""

_EPILOG = f"""\
Exit codes: 0 answered, whatever is pending; {EXIT_CODES}"""


def add_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str = "pending",
    who: str = "no service has to run",
) -> argparse.ArgumentParser:
    """Add the subcommand; kubectl has another name for it. `who` decides: the end of the description."""
    parser = subparsers.add_parser(
        name,
        help="list the pending pods by reason",
        description=_DESCRIPTION.format(who),
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    query = parser.add_argument_group("what is asked")
    add_objects_file(query)
    query.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="of this namespace; default: of all"
    )
    query.add_argument(
        "-A",
        "--all-namespaces",
        action="store_true",
        help="of all namespaces, as without -n; where both are given this counts, as in kubectl",
    )
    add_cluster_flags(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    answer.add_argument("--no-suggestions", action="store_true", help="do not look for changes that would help")
    return parser


def namespace_queried(args: argparse.Namespace) -> str:
    """The namespace whose pods are listed; empty: all of them."""
    return "" if args.all_namespaces else args.namespace
