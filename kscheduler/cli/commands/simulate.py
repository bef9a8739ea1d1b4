"""`kscheduler simulate`: what would happen if; the service's own scheduler over a copy of a cluster.

    simulate -f deployment.yaml                     new pods in the live cluster
    simulate --from FILE --drain node-7             a drain, in the cluster of objects that kubectl has printed
    simulate --add-nodes 3:node-7 --config new.yaml more nodes, another configuration

docs/simulate.md describes what is played and what is not.
"""

import argparse
import sys

from kscheduler.cli.asked_cluster import asked_cluster
from kscheduler.cli.asking_flags import namespace_of, refuse_standard_input_twice
from kscheduler.cli.refusal import refusing
from kscheduler.cli.simulate_flags import add_parser
from kscheduler.explain.rehearsals.from_flags import labelled, more_nodes, tainted
from kscheduler.explain.rehearsals.in_json import simulation_schema, simulation_tree
from kscheduler.explain.rehearsals.in_text import simulation_text
from kscheduler.explain.rehearsals.planning import (
    MOST_NEW_PODS,
    NewObjectRules,
    Wishes,
    new_objects_of,
    planned,
    templates_in,
)
from kscheduler.explain.text.layout import style_of
from kscheduler.explain.text.printable import json_line, printable
from kscheduler.simulation.objects.defaults.pods import default_new_pod
from kscheduler.simulation.objects.new_objects import objections
from kscheduler.whatif.rehearsal.plan import refuse_too_many_nodes
from kscheduler.whatif.rehearsal.rehearse import rehearse
from kscheduler.whatif.scenario import ScenarioError

__all__ = ["add_parser", "check", "read_manifests", "run", "wishes_of"]
_PLAYED = 0


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(simulation_schema())
        return _PLAYED
    check(args)
    read_manifests(args)
    if args.source is None:
        args.namespace = namespace_of(args)
    has_templates = any(templates_in(args.new_objects, args.namespace))
    has_new = bool(args.new_objects)
    found = asked_cluster(args, with_groups=True, with_templates=has_templates, with_priority_classes=has_new)
    rules = NewObjectRules(default_new_pod, objections, classes=found.priority_classes)
    plan, of_plan = planned(wishes_of(args), found.objects, found.groups, found.served, found.where, rules)
    rehearsed = rehearse(plan)
    notes = list(dict.fromkeys([*found.notes, *of_plan]))
    for note in (*notes, *rehearsed.notes):
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        print(json_line(simulation_tree(rehearsed, notes)))
    else:
        print(simulation_text(rehearsed, style_of(sys.stdout)))
    sys.stdout.flush()
    return _PLAYED


def check(args: argparse.Namespace) -> None:
    """Refuse flags that cannot be used, before any file or cluster is read. Raises `ScenarioError`."""
    if args.replicas is not None and args.replicas < 1:
        raise ScenarioError("--replicas: a number above 0 was expected")
    if args.replicas is not None and args.replicas > MOST_NEW_PODS:
        raise ScenarioError(f"--replicas: {args.replicas} is not from 1 to {MOST_NEW_PODS}")
    if args.replicas is not None and not args.filename:
        raise ScenarioError("--replicas is how many pods each manifest of -f FILE makes: give one")
    if args.capacity and not args.filename:
        raise ScenarioError("--capacity counts pods like the first of -f FILE: give one")
    refuse_standard_input_twice(args)
    refuse_too_many_nodes([more_nodes(text) for text in args.add_nodes], "--add-nodes")
    for read, given in ((labelled, args.label_node), (tainted, args.taint_node)):
        for text in given:
            read(text)


def read_manifests(args: argparse.Namespace) -> None:
    """Read what -f names, unless it has been read: standard input has it once. Raises `ScenarioError`."""
    if args.new_objects is None:
        args.new_objects = new_objects_of(args.filename)


def wishes_of(args: argparse.Namespace) -> Wishes:
    """What the flags ask for, with the manifests as they were read. Raises `ScenarioError`."""
    return Wishes(
        new_objects=args.new_objects,
        replicas=args.replicas,
        namespace=args.namespace or "default",
        more_nodes=tuple(map(more_nodes, args.add_nodes)),
        gone_nodes=tuple(args.remove_node),
        cordoned=tuple(args.cordon),
        drained=tuple(args.drain),
        edits=(*map(labelled, args.label_node), *map(tainted, args.taint_node)),
        capacity=args.capacity,
    )
