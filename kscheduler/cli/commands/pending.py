"""`kscheduler pending`: all pending pods of a cluster by reason, each with the change that would help.

pending                         of the live cluster
pending -n shop                 of one namespace
pending --from FILE             of objects that kubectl has printed
"""

import argparse
import sys
from datetime import UTC, datetime

import msgspec

from kscheduler.cli.cluster_input import cluster_input
from kscheduler.cli.pending_flags import add_parser, namespace_queried
from kscheduler.cli.refusal import refusing
from kscheduler.explain.pending import listed, pending_pods
from kscheduler.explain.pending_text import pending_text
from kscheduler.explain.suggestions.kubectl_flags import KubectlFlags
from kscheduler.text import json_line, printable, style_of, wrapped

__all__ = ["add_parser", "run"]
_ANSWERED = 0


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    found = cluster_input(args)
    found.leave_out_unreadable()
    found.note_unfollowed_groups()
    objects, served, notes = found.objects, found.served, found.notes
    namespace = namespace_queried(args)
    answer = pending_pods(objects, served, found.where, namespace, with_suggestions=not args.no_suggestions)
    notes = list(dict.fromkeys([*notes, *(served.presumptions(found.where) if answer.reasons else ())]))
    for note in notes:
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    kubectl = KubectlFlags.of(args)
    if args.output == "json":
        print(json_line(kubectl.in_pending(msgspec.structs.replace(listed(answer), notes=tuple(notes)))))
    else:
        style = style_of(sys.stdout)
        print(kubectl.in_text(pending_text(answer, served.names, datetime.now(UTC), style)))
        if answer.count:
            print("\n".join(["", *wrapped(printable(served.rules), style.width)]))
    sys.stdout.flush()
    return _ANSWERED
