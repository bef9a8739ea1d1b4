"""`kscheduler compact`: on how few nodes would the pods of a cluster run, if all of them were placed anew?

    compact                                 the live cluster, by the default profile and those for packing
    compact --from FILE --config new.yaml   objects that kubectl has printed, by each profile of a file
    compact --profile best-fit --trials 3   sooner, by one of them

docs/packing.md describes what is measured.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.cli.cluster_flags import EXIT_CODES, add_cluster_flags, add_objects_file
from kscheduler.cli.cluster_input import cluster_input
from kscheduler.cli.parser import AppendText
from kscheduler.cli.refusal import refusing
from kscheduler.compact.as_text import compaction_text
from kscheduler.compact.compaction import TRIALS, compacted
from kscheduler.compact.compaction_result import Compaction, schema_text
from kscheduler.compact.fragments import fragments
from kscheduler.compact.moving_pods import MovingPods, stays_with_its_node
from kscheduler.compact.repacking import FreeRoom, Repacking
from kscheduler.config.types import OWN_SCHEDULER_NAME
from kscheduler.scenario.cluster_input import ClusterInput
from kscheduler.scenario.decide import cluster_cache
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.unreadable import notes_of, readable
from kscheduler.text import json_line, printable, style_of, wrapped

# Of `kscheduler config policies`, for packing.
PACKING: Final = ("best-fit", "fragmentation-aware", "dominant-most-allocated")
_PLAYED: Final = 0
_MOST_TRIALS: Final = 1000
_DESCRIPTION: Final = """\
Show on how few nodes the running pods would fit if all of them were placed anew, by each profile: nodes are taken away
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
        f"{OWN_SCHEDULER_NAME}, {', '.join(PACKING)} of `kscheduler config policies`",
    )
    query.add_argument(
        "--trials", type=int, default=TRIALS, metavar="N", help=f"how often nodes are drawn anew (default {TRIALS})"
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
    if not 1 <= args.trials <= _MOST_TRIALS:
        raise ScenarioError(f"--trials: {args.trials} is not from 1 to {_MOST_TRIALS}")
    if not (args.config or args.scheduler_name or args.plugin):
        args.config, args.profile = _ready_profiles(), args.profile or [OWN_SCHEDULER_NAME, *PACKING]
    found = cluster_input(args, with_groups=True, with_templates=True)
    compaction = _compaction(found, args)
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


def _ready_profiles() -> str:
    """The file of `kscheduler config policies`."""
    return str(files("kscheduler.config").joinpath("policies.yaml"))


def _compaction(found: ClusterInput, args: argparse.Namespace) -> Compaction:
    """All profiles in turn. Raises `ScenarioError`."""
    objects, left_out = readable(found.objects)
    if not objects.nodes:
        raise ScenarioError(f"{found.where}: there are no nodes")
    pods = MovingPods.of(objects)
    if not pods.moving:
        raise ScenarioError(f"{found.where}: no pod runs that could move to another node")
    gates = found.served.config.gates
    room = FreeRoom(pods, gates, found.where)
    played = []
    for profile in _profiles(found, args.profile):
        repacking = Repacking(
            pods, found.served.config, profile, found.where, tuple(found.groups), found.served.registry
        )
        progress = _Progress(profile, args.trials)
        played.append(compacted(repacking, room, trials=args.trials, seed=args.seed, progress=progress))
    return Compaction(
        nodes=len(objects.nodes),
        nodes_in_use=len(pods.nodes_in_use),
        moving=len(pods.moving),
        staying=sum(map(len, pods.staying.values())),
        waiting=pods.waiting,
        at_least=room.fewest,
        seed=args.seed,
        profiles=tuple(played),
        fragments=fragments(cluster_cache(objects, None, gates, found.where), *_running_and_waiting(objects.pods)),
        left_out=tuple(each.name for each in left_out),
        emulation_version=found.served.config.gates.version,
        notes=tuple(dict.fromkeys([*found.notes, *notes_of(left_out, found.where)])),
    )


def _running_and_waiting(pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    """The pods whose requests are typical of those to come: without those of DaemonSets and of nodes."""
    left = [pod for pod in pods if not (pod.is_terminal or stays_with_its_node(pod))]
    return [pod for pod in left if pod.spec.node_name], [pod for pod in left if not pod.spec.node_name]


def _profiles(found: ClusterInput, chosen: Sequence[str]) -> Sequence[str]:
    """The profiles to be played; those that only follow a scheduler name of a pod are like the first one."""
    served = found.served
    names = [name for name in served.names if name not in served.followed]
    for name in chosen:
        if name not in names:
            raise ScenarioError(f"--profile {name}: {served.source} has {', '.join(names)}")
    return list(dict.fromkeys(chosen)) or names


class _Progress:
    """A line on a terminal that tells how far it is: trials take seconds to minutes."""

    def __init__(self, profile: str, trials: int) -> None:
        self._profile, self._trials = profile, trials
        self._is_shown = sys.stderr.isatty()

    def __call__(self, made: int, nodes: int) -> None:
        """A trial has been made, and left these nodes."""
        if self._is_shown:
            text = f"{self._profile}: trial {made} of {self._trials}, {nodes} nodes"
            print(
                f"\r\x1b[K{printable(text)}",
                end="\r\x1b[K" if made == self._trials else "",
                file=sys.stderr,
                flush=True,
            )
