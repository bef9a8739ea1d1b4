"""A rehearsal for programs."""

from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, Final

from kscheduler.whatif.rehearsal.rehearsed import Rehearsed, Room

Tree = dict[str, Any]

API_VERSION: Final = "simulate.kscheduler.io/v1"
KIND: Final = "Simulation"


def simulation_schema() -> str:
    """The JSON Schema of the result of `simulation_tree`."""
    return resources.files("kscheduler.explain.rehearsals").joinpath("simulation.schema.json").read_text("utf-8")


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
        "room": {"before": _rooms(rehearsed.before), "after": _rooms(rehearsed.after)},
        "capacity": None
        if rehearsed.capacity is None
        else {"pods": rehearsed.capacity, "isMore": rehearsed.capacity_is_more},
        "notes": [*notes, *rehearsed.notes],
    }


def _rooms(rooms: Mapping[str, Room]) -> Tree:
    return {name: {"allocatable": room.allocatable, "requested": room.requested} for name, room in rooms.items()}
