"""`kscheduler pending`: all pending pods of a cluster by reason, each with the change that would help.

pending                         of the live cluster
pending -n shop                 of one namespace
pending --from FILE             of objects that kubectl has printed
"""

import argparse
import sys
from datetime import UTC, datetime

from kscheduler.cli.asked_cluster import EXIT_CODES, asked_cluster, refusing
from kscheduler.cli.asking_flags import add_asked_cluster, add_objects_file
from kscheduler.cli.parser import StoreText
from kscheduler.explain.as_json import json_line
from kscheduler.explain.pending.as_answer import pending_text, pending_tree
from kscheduler.explain.pending.reasons import pending_reasons
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.explain.text.layout import style_of
from kscheduler.explain.text.printable import printable

_ANSWERED = 0

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
    question = parser.add_argument_group("what is asked")
    add_objects_file(question)
    question.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="of this namespace; default: of all"
    )
    add_asked_cluster(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    answer.add_argument("--no-suggestions", action="store_true", help="do not look for changes that would help")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    found = asked_cluster(args)
    found.leave_out_unreadable()
    found.note_unfollowed_groups()
    objects, served, notes = found.objects, found.served, found.notes
    reasons = pending_reasons(objects, served, found.where, args.namespace, with_suggestions=not args.no_suggestions)
    for note in dict.fromkeys([*notes, *served.presumptions()]):
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    kubectl = KubectlFlags.of(args)
    if args.output == "json":
        print(
            json_line(
                kubectl.in_pending(pending_tree(reasons, objects, served.config, [*notes, *served.presumptions()]))
            )
        )
    else:
        print(kubectl.in_text(pending_text(reasons, objects, datetime.now(UTC), style_of(sys.stdout))))
    sys.stdout.flush()
    return _ANSWERED
