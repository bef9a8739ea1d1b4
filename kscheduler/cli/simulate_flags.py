"""The flags of `kscheduler simulate` and `kubectl kscheduler whatif`, and what they ask for; not what answers it."""

import argparse
import re
from typing import Final

from kscheduler.api.core import Taint
from kscheduler.cli.cluster_flags import EXIT_CODES, add_cluster_flags, add_objects_file, refuse_standard_input_twice
from kscheduler.cli.parser import AppendText, StoreText
from kscheduler.scenario.errors import ScenarioError
from kscheduler.simulate.requested_changes import (
    MAX_NEW_PODS,
    RequestedChanges,
    new_objects_of,
)
from kscheduler.simulate.requested_nodes import EFFECTS, MoreNodes, NodeEdit, refuse_too_many_nodes

_COUNT: Final = re.compile(r"[0-9]{1,100}")
_TAINT: Final = re.compile(r"(?P<key>[^=:-][^=:]*?)(=(?P<value>[^:]*))?:(?P<effect>[A-Za-z]+)(?P<removes>-?)")

_DESCRIPTION = """\
Show what would happen if pods of -f came, or nodes came, went, were changed, cordoned or drained: the scheduler's own
queue, cycle and preemption run over a copy of the cluster in memory. Nothing is written to any cluster."""
_EPILOG = f"""\
Exit codes: 0 simulated, whatever stays pending; {EXIT_CODES}"""


def add_parser(
    subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str = "simulate", who_answers: str = ""
) -> argparse.ArgumentParser:
    """Add the subcommand; kubectl has another name for it, and says who answers."""
    parser = subparsers.add_parser(
        name,
        help="simulate more pods, other nodes, a drain, or another configuration",
        description=f"{_DESCRIPTION} {who_answers}",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    _add_cluster_changes(parser.add_argument_group("what if"))
    add_cluster_flags(parser)
    answer = parser.add_argument_group("the answer")
    answer.add_argument("-o", "--output", choices=("text", "json"), default="text", help="json: one object")
    answer.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and exit")
    parser.set_defaults(new_objects=None)  # of `read_manifests`
    return parser


def _add_cluster_changes(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "-f",
        "--filename",
        action=AppendText,
        default=[],
        metavar="FILE",
        help="pods that do not exist yet: Pods, Deployments, StatefulSets, Jobs ... with their replicas; a file, a "
        "folder or a pattern, may be given more than once; - is standard input",
    )
    group.add_argument("--replicas", type=int, metavar="N", help="this many pods of each, whatever the manifests say")
    add_objects_file(group)
    group.add_argument(
        "-n", "--namespace", action=StoreText, metavar="NAME", default="", help="of manifests that name none"
    )
    for flag, metavar, text in (
        ("--add-nodes", "N:NODE", "N more nodes like this one"),
        ("--remove-node", "NODE", "the node and its pods are gone; controllers recreate the pods"),
        ("--cordon", "NODE", "no further pod goes there"),
        ("--drain", "NODE", "cordoned, and its pods evicted as far as disruption budgets allow"),
        ("--label-node", "NODE:KEY=VALUE", "add a label, or remove one: NODE:KEY-"),
        ("--taint-node", "NODE:KEY=VALUE:EFFECT", "add a taint, or remove one: NODE:KEY:EFFECT-"),
    ):
        group.add_argument(flag, action="append", default=[], metavar=metavar, help=text)
    group.add_argument(
        "--capacity", action="store_true", help="count how many more pods like the first new one would fit in the end"
    )


def check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be used, before any file or cluster is read. Raises `ScenarioError`."""
    if args.replicas is not None and args.replicas < 1:
        raise ScenarioError("--replicas: a number above 0 was expected")
    if args.replicas is not None and args.replicas > MAX_NEW_PODS:
        raise ScenarioError(f"--replicas: {args.replicas} is not from 1 to {MAX_NEW_PODS}")
    if args.replicas is not None and not args.filename:
        raise ScenarioError("--replicas is how many pods each manifest of -f FILE makes: give one")
    if args.capacity and not args.filename:
        raise ScenarioError("--capacity counts pods like the first of -f FILE: give one")
    refuse_standard_input_twice(args)
    refuse_too_many_nodes([_more_nodes(text) for text in args.add_nodes], "--add-nodes")
    for read, given in ((_label_edit, args.label_node), (_taint_edit, args.taint_node)):
        for text in given:
            read(text)


def read_manifests(args: argparse.Namespace) -> None:
    """Read what -f names, unless it has been read: standard input can be read only once. Raises `ScenarioError`."""
    if args.new_objects is None:
        args.new_objects = new_objects_of(args.filename)


def requested_changes_of(args: argparse.Namespace) -> RequestedChanges:
    """What the flags ask for, with the manifests as they were read. Raises `ScenarioError`."""
    return RequestedChanges(
        new_objects=args.new_objects,
        replicas=args.replicas,
        namespace=args.namespace or "default",
        more_nodes=tuple(map(_more_nodes, args.add_nodes)),
        gone_nodes=tuple(args.remove_node),
        cordoned=tuple(args.cordon),
        drained=tuple(args.drain),
        edits=(*map(_label_edit, args.label_node), *map(_taint_edit, args.taint_node)),
        capacity=args.capacity,
    )


# Changes of nodes as flags spell them. Each function raises `ScenarioError` for a text that it cannot read.


def _more_nodes(text: str) -> MoreNodes:
    """`COUNT:NODE`."""
    count, colon, like = text.partition(":")
    if not (colon and like and _COUNT.fullmatch(count) and int(count)):
        raise ScenarioError(f"--add-nodes {text}: COUNT:NODE was expected, such as 3:node-7")
    return MoreNodes(int(count), like)


def _label_edit(text: str) -> NodeEdit:
    """`NODE:KEY=VALUE` or `NODE:KEY-`."""
    node, colon, label = text.partition(":")
    key, equals, value = label.partition("=")
    if not (node and colon and key) or (not equals and not key.endswith("-")):
        raise ScenarioError(f"--label-node {text}: NODE:KEY=VALUE or NODE:KEY- was expected")
    return NodeEdit(node, labels={key: value} if equals else {key.removesuffix("-"): None})


def _taint_edit(text: str) -> NodeEdit:
    """`NODE:KEY=VALUE:EFFECT`, with a minus sign at its end to take it away."""
    node, colon, taint = text.partition(":")
    found = _TAINT.fullmatch(taint)
    if not (node and colon) or found is None or found["effect"] not in EFFECTS:
        effects = ", ".join(EFFECTS)
        raise ScenarioError(f"--taint-node {text}: NODE:KEY=VALUE:EFFECT was expected, with one of {effects}")
    chosen = Taint(key=found["key"], value=found["value"] or "", effect=found["effect"])
    return NodeEdit(node, taint=chosen, removes_taint=bool(found["removes"]))
