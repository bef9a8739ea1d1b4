"""`kscheduler simulate`: what would happen if; the service's own scheduler over a copy of a cluster.

    simulate -f deployment.yaml                     new pods in the live cluster
    simulate --from FILE --drain node-7             a drain, in the cluster of objects that kubectl has printed
    simulate --add-nodes 3:node-7 --config new.yaml more nodes, another configuration

docs/simulate.md describes what is played and what is not.
"""

import argparse
import sys

import msgspec

from kscheduler.cli.cluster_flags import choose_cluster, namespace_of, serving_of
from kscheduler.cli.cluster_input import cluster_input
from kscheduler.cli.refusal import refusing
from kscheduler.cli.simulate_flags import add_parser, check, read_manifests, requested_changes_of
from kscheduler.simulate.as_text import simulation_text
from kscheduler.simulate.planning import planned
from kscheduler.simulate.requested_changes import templates_in
from kscheduler.simulate.run_simulation import run_simulation
from kscheduler.simulate.simulation_result import schema_text
from kscheduler.text import json_line, printable, style_of, wrapped

__all__ = ["add_parser", "run"]
_PLAYED = 0


def run(args: argparse.Namespace) -> int:
    """Print the answer and return the exit code; a problem is a line on standard error."""
    return refusing(_run, args)


def _run(args: argparse.Namespace) -> int:
    if args.schema:
        sys.stdout.write(schema_text())
        return _PLAYED
    check(args)
    read_manifests(args)
    served = serving_of(args)
    if args.source is None:
        choose_cluster(args, served)
        args.namespace = namespace_of(args)
    has_templates = any(templates_in(args.new_objects, args.namespace))
    has_new = bool(args.new_objects)
    found = cluster_input(
        args, with_groups=True, with_templates=has_templates, with_priority_classes=has_new, served=served
    )
    requested, classes = requested_changes_of(args), found.priority_classes
    plan, of_plan = planned(
        requested, found.objects, found.groups, found.served, found.where, classes, absent=found.absent
    )
    simulation = run_simulation(plan)
    notes = (*dict.fromkeys([*found.notes, *of_plan]), *simulation.notes)
    for note in notes:
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        print(json_line(msgspec.structs.replace(simulation, notes=notes)))
    else:
        style = style_of(sys.stdout)
        print(simulation_text(simulation, style))
        print("\n".join(["", *wrapped(printable(found.served.rules), style.width)]))
    sys.stdout.flush()
    return _PLAYED
