"""`kubectl kscheduler whatif`."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.answers import whose_rules
from kscheduler.cli import simulate_flags
from kscheduler.cli.cluster_flags import namespace_of
from kscheduler.cli.kubectl.choosing import WHO_DECIDES, add_choice, answer, not_of_the_service
from kscheduler.cli.kubectl.manifests import referenced_objects
from kscheduler.cli.kubectl.service import InvalidQueryError, ServiceProxyClient
from kscheduler.cli.refusal import refusing
from kscheduler.config.reading.yaml_tree import parse_yaml
from kscheduler.scenario.errors import ScenarioError
from kscheduler.simulate.as_text import simulation_text
from kscheduler.simulate.requested_changes import NewObjects, RequestedChanges
from kscheduler.simulate.simulation_result import Simulation
from kscheduler.text import json_line, printable, style_of

Tree = dict[str, Any]

_WHO_ANSWERS: Final = (
    f"{WHO_DECIDES[0].upper()}{WHO_DECIDES[1:]}. The service ends a simulation after 6 s; `kscheduler simulate` takes "
    "the same flags, asks no service and goes on to the end."
)
_FIELD: Final = re.compile(r"(?P<field>[a-zA-Z]+)(\[\d+\])?(\.[a-z]+)?: ")
_OBJECT: Final = re.compile(r"^objects\[([0-9]{1,6})\]", re.MULTILINE)
# By field of the request, which flag it comes from.
_FLAGS: Final = {
    "replicas": "--replicas",
    "namespace": "--namespace",
    "addNodes": "--add-nodes",
    "removeNodes": "--remove-node",
    "cordon": "--cordon",
    "drain": "--drain",
    "labels": "--label-node",
    "taints": "--taint-node",
}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """The flags of `kscheduler simulate`, and who answers."""
    parser = simulate_flags.add_parser(subparsers, "whatif", _WHO_ANSWERS)
    add_choice(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Print what would happen, and return the exit code."""
    return refusing(_response, args)


def _decide(args: argparse.Namespace) -> int:
    from kscheduler.cli.commands.simulate import run as decide  # with the scheduler's rules, which are large

    return decide(args)


def _response(args: argparse.Namespace) -> int:
    if not args.schema:
        simulate_flags.check(args)
        simulate_flags.read_manifests(args)  # here: service and command need them alike
    return answer(args, _ask, _decide, not_of_the_service(args, {"--schema": args.schema}))


async def _ask(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    args.namespace = namespace_of(args)
    request = _request(args)
    referenced = await referenced_objects(args.new_objects, args.namespace, proxy)
    if referenced:
        request["objects"] = [*request["objects"], *referenced]
    try:
        simulation = await proxy.post_as(Simulation, "/simulate", request)
    except InvalidQueryError as problem:
        raise InvalidQueryError(by_its_place(by_its_flag(str(problem)), args.new_objects)) from None
    of_files = dict.fromkeys(note for given in args.new_objects for note in given.notes)
    of_service = [by_its_place(note, args.new_objects) for note in simulation.notes]
    notes = (*of_files, *(note for note in of_service if note not in of_files))
    for note in notes:
        print(f"kscheduler: {printable(note)}", file=sys.stderr)
    if args.output == "json":
        print(json_line(msgspec.structs.replace(simulation, notes=notes)))
    else:
        print(simulation_text(simulation, style_of(sys.stdout)))
        if simulation.emulation_version:  # an older service does not say it
            print(f"\n{printable(whose_rules(simulation.emulation_version))}")
    sys.stdout.flush()
    return 0


def by_its_place(text: str, new_objects: Sequence[NewObjects]) -> str:
    """What the service says of `objects[3]`, with the file and document that it is from."""
    places = [document.where for given in new_objects for document in given.documents]

    def place(found: re.Match[str]) -> str:
        index = int(found[1])
        return places[index] if index < len(places) else found[0]

    return _OBJECT.sub(place, text)


def by_its_flag(problem: str) -> str:
    """What the service says of a field of the request, with the flag that the field comes from."""
    found = _FIELD.match(problem)
    flag = _FLAGS.get(found["field"]) if found is not None else None
    return problem if found is None or flag is None else f"{flag}: {problem[found.end() :]}"


def _request(args: argparse.Namespace) -> Tree:
    """The flags as `POST /simulate` has them. Raises `ScenarioError`, `ConfigError`."""
    requested_changes = simulate_flags.requested_changes_of(args)
    fields: Tree = {
        "namespace": requested_changes.namespace,
        "objects": [document.tree for given in requested_changes.new_objects for document in given.documents],
        "replicas": requested_changes.replicas,
        "addNodes": [{"count": each.count, "like": each.like} for each in requested_changes.more_nodes],
        "removeNodes": requested_changes.gone_nodes,
        "cordon": requested_changes.cordoned,
        "drain": requested_changes.drained,
        "labels": [
            {"node": each.node, "labels": each.labels} for each in requested_changes.edits if each.labels is not None
        ],
        "taints": list(_taints(requested_changes)),
        "capacity": requested_changes.capacity,
        "config": _config(args.config) if args.config else None,
    }
    return {name: value for name, value in fields.items() if value}


def _taints(requested_changes: RequestedChanges) -> Iterator[Tree]:
    for each in requested_changes.edits:
        if each.taint is not None:
            fields = {"key": each.taint.key, "value": each.taint.value, "effect": each.taint.effect}
            yield {"node": each.node, **fields, "remove": each.removes_taint}


def _config(path: str) -> Any:
    try:
        return parse_yaml(Path(path).read_bytes(), path)
    except OSError as problem:
        raise ScenarioError(f"{path}: cannot be read: {problem.strerror}") from None
