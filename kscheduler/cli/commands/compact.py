"""`kscheduler compact`: on how few nodes would the pods of a cluster run, if all of them were rescheduled?

    compact                                 the live cluster, by the default profile and those for packing
    compact --from FILE --config new.yaml   objects that kubectl has printed, by each profile of a file
    compact --profile best-fit --trials 3   sooner, by one of them

docs/packing.md describes what is measured.
"""

import argparse
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from kscheduler.cli.cluster_flags import EXIT_CODES, add_cluster_flags, add_objects_file
from kscheduler.cli.cluster_input import cluster_input
from kscheduler.cli.parser import AppendText
from kscheduler.cli.refusal import refusing
from kscheduler.compact.as_text import compaction_text
from kscheduler.compact.compaction import MOST_TRIALS, TRIALS, check_trials, compact
from kscheduler.compact.compaction_result import schema_text
from kscheduler.compact.profiles import READY, profiles_of, ready_profiles
from kscheduler.scenario.errors import ScenarioError
from kscheduler.text import json_line, printable, style_of, wrapped

_PLAYED: Final = 0
_DESCRIPTION: Final = """\
Show on how few nodes the running pods would fit if all of them were rescheduled, by each profile: nodes are removed
at random until the pods no longer fit, as Borg's policies were compared. The scheduler's own queue and cycle run over
a copy of the cluster in memory. Nothing is written to any cluster."""
_EPILOG: Final = f"""\
Exit codes: 0 answered, also where the pods do not fit; {EXIT_CODES}"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Declare the flags."""
    parser = subparsers.add_parser(
        "compact",
        help="tell on how few nodes the pods would run, by profile",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    query = parser.add_argument_group("what is asked")
    add_objects_file(query)
    query.add_argument(
        "--profile",
        action=AppendText,
        default=[],
        metavar="NAME",
        help="the schedulerName of a profile; may be given more than once; default: all of --config; without that "
        f"and --plugin {', '.join(READY)} of `kscheduler config policies`",
    )
    query.add_argument(
        "--trials",
        type=int,
        default=TRIALS,
        metavar="N",
        help=f"how many random orders of the nodes are tried, from 1 to {MOST_TRIALS} (default {TRIALS})",
    )
    query.add_argument(
        "--seed", type=int, default=1, metavar="N", help="the same seed draws the same nodes (default 1)"
    )
    add_cluster_flags(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    answer.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and exit")
    return parser


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(schema_text())
        return _PLAYED
    check_trials(args.trials, "--trials")
    if args.scheduler_name:
        raise ScenarioError("--scheduler-name: each profile places all pods, whatever they name; --profile chooses one")
    if not (args.config or args.plugin):
        args.config, args.profile = ready_profiles(), args.profile or READY
    found = cluster_input(args, with_groups=True, with_templates=True)
    profiles = profiles_of(found.served, args.profile, "--profile ")
    with _Progress(profiles, args.trials) as progress:
        compaction = compact(found, profiles, trials=args.trials, seed=args.seed, progress=progress)
    for note in compaction.notes:
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        print(json_line(compaction))
    else:
        style = style_of(sys.stdout)
        print(compaction_text(compaction, style))
        print("\n".join(["", *wrapped(printable(found.served.rules), style.width)]))
    sys.stdout.flush()
    return _PLAYED


class _Progress:
    """A line on a terminal that tells how far it is: trials take seconds to minutes."""

    def __init__(self, profiles: Sequence[str], trials: int) -> None:
        self._profiles, self._trials = list(profiles), trials
        self._is_shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        self._show("all nodes")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The line goes, also where somebody has lost patience."""
        self._show("")

    def __call__(self, profile: str, made: int, nodes: int) -> None:
        """A trial has been made, and left these nodes."""
        which = f", profile {self._profiles.index(profile) + 1} of {len(self._profiles)}"
        self._show(f"{profile}{which}: trial {made} of {self._trials}, {nodes} nodes")

    def _show(self, text: str) -> None:
        if self._is_shown:
            print(f"\r\x1b[K{printable(text)}", end="", file=sys.stderr, flush=True)
