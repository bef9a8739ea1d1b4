"""A rehearsal for programs."""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from kscheduler.simulate.rehearsed import Capacity, Drained, Evicted, Placed, Rehearsed, Room, StillPending

Tree = dict[str, Any]

API_VERSION: Final = "simulate.kscheduler.io/v1"
KIND: Final = "Simulation"


def simulation_schema() -> str:
    """The JSON Schema of the result of `simulation_tree`."""
    return resources.files("kscheduler.simulate").joinpath("simulation.schema.json").read_text("utf-8")


def simulation_tree(rehearsed: Rehearsed, notes: Iterable[str] = ()) -> Tree:
    """The outcome as plain dicts and lists, always with the same keys."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "placed": [{"pod": each.pod, "node": each.node, "origin": each.origin} for each in rehearsed.placed],
        "pending": [
            {
                "pod": each.pod,
                "message": each.message,
                "origin": each.origin,
                "nominatedNode": each.nominated_node or None,
            }
            for each in rehearsed.waiting
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
            for each in rehearsed.evicted
        ],
        "drains": [
            {
                "node": each.node,
                "evicted": list(each.evicted),
                "blocked": [{"pod": pod, "budget": budget} for pod, budget in each.blocked],
                "unmanaged": list(each.unmanaged),
                "staying": list(each.staying),
            }
            for each in rehearsed.drains
        ],
        "addedNodes": list(rehearsed.added_nodes),
        "leftOut": list(rehearsed.left_out),
        "room": {"before": _rooms(rehearsed.before), "after": _rooms(rehearsed.after)},
        "capacity": None
        if rehearsed.capacity is None
        else {
            "pods": rehearsed.capacity.pods,
            "groups": rehearsed.capacity.groups,
            "group": rehearsed.capacity.group or None,
            "isMore": rehearsed.capacity.is_more,
        },
        "complete": rehearsed.is_whole,
        "notes": [*notes, *rehearsed.notes],
    }


def _rooms(rooms: Mapping[str, Room]) -> Tree:
    return {name: {"allocatable": room.allocatable, "requested": room.requested} for name, room in rooms.items()}


def rehearsed_of(tree: Tree) -> Rehearsed:
    """The outcome that `simulation_tree` has written. Raises `KeyError`, `TypeError` for anything else."""
    return Rehearsed(
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
        before=_rooms_of(tree["room"]["before"]),
        after=_rooms_of(tree["room"]["after"]),
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


def _rooms_of(rooms: Tree) -> dict[str, Room]:
    return {name: Room(room["allocatable"], room["requested"]) for name, room in rooms.items()}
