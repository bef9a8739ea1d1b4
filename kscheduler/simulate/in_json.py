"""A simulation for programs."""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from kscheduler.simulate.simulation_result import (
    Capacity,
    Drained,
    Evicted,
    Placed,
    ResourceCapacity,
    SimulationResult,
    StillPending,
)

Tree = dict[str, Any]

API_VERSION: Final = "simulate.kscheduler.io/v1"
KIND: Final = "Simulation"


def simulation_schema() -> str:
    """The JSON Schema of the result of `simulation_tree`."""
    return resources.files("kscheduler.simulate").joinpath("simulation.schema.json").read_text("utf-8")


def simulation_tree(simulation_result: SimulationResult, notes: Iterable[str] = ()) -> Tree:
    """The outcome as plain dicts and lists, always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "placed": [{"pod": each.pod, "node": each.node, "origin": each.origin} for each in simulation_result.placed],
        "pending": [
            {
                "pod": each.pod,
                "message": each.message,
                "origin": each.origin,
                "nominatedNode": each.nominated_node or None,
            }
            for each in simulation_result.waiting
        ],
        "evicted": [
            {
                "pod": each.pod,
                "node": each.node,
                "by": each.by,
                "priority": each.priority,
                "replacement": each.replacement or None,
                "afterSeconds": each.after_seconds,
            }
            for each in simulation_result.evicted
        ],
        "drains": [
            {
                "node": each.node,
                "evicted": list(each.evicted),
                "blocked": [{"pod": pod, "budget": budget} for pod, budget in each.blocked],
                "unmanaged": list(each.unmanaged),
                "staying": list(each.staying),
            }
            for each in simulation_result.drains
        ],
        "addedNodes": list(simulation_result.added_nodes),
        "leftOut": list(simulation_result.left_out),
        "room": {"before": _capacities(simulation_result.before), "after": _capacities(simulation_result.after)},
        "capacity": None
        if simulation_result.capacity is None
        else {
            "pods": simulation_result.capacity.pods,
            "groups": simulation_result.capacity.groups,
            "group": simulation_result.capacity.group or None,
            "isMore": simulation_result.capacity.is_more,
        },
        "complete": simulation_result.is_whole,
        "notes": [*notes, *simulation_result.notes],
    }


def _capacities(rooms: Mapping[str, ResourceCapacity]) -> Tree:
    return {name: {"allocatable": room.allocatable, "requested": room.requested} for name, room in rooms.items()}


def simulation_result_of(tree: Tree) -> SimulationResult:
    """The outcome that `simulation_tree` has written. Raises `KeyError`, `TypeError` for anything else."""
    return SimulationResult(
        placed=tuple(Placed(each["pod"], each["node"], each["origin"]) for each in tree["placed"]),
        waiting=tuple(
            StillPending(each["pod"], each["message"], each["origin"], each["nominatedNode"] or "")
            for each in tree["pending"]
        ),
        evicted=tuple(
            Evicted(
                each["pod"],
                each["node"],
                each["by"],
                each["priority"],
                each["replacement"] or "",
                each.get("afterSeconds", 0),  # an older service does not know it
            )
            for each in tree["evicted"]
        ),
        drains=tuple(
            Drained(
                each["node"],
                tuple(each["evicted"]),
                tuple((blocked["pod"], blocked["budget"]) for blocked in each["blocked"]),
                tuple(each["unmanaged"]),
                tuple(each["staying"]),
            )
            for each in tree["drains"]
        ),
        before=_capacities_of(tree["room"]["before"]),
        after=_capacities_of(tree["room"]["after"]),
        capacity=_capacity_of(tree["capacity"]),
        notes=tuple(tree["notes"]),
        added_nodes=tuple(tree.get("addedNodes", ())),  # an older service does not name them
        left_out=tuple(tree.get("leftOut", ())),
        is_whole=bool(tree.get("complete", True)),  # an older service always played to the end
    )


def _capacity_of(tree: Tree | None) -> Capacity | None:
    """An older service counts no groups."""
    if tree is None:
        return None
    return Capacity(tree["pods"], bool(tree["isMore"]), tree.get("groups"), tree.get("group") or "")


def _capacities_of(rooms: Tree) -> dict[str, ResourceCapacity]:
    return {name: ResourceCapacity(room["allocatable"], room["requested"]) for name, room in rooms.items()}
