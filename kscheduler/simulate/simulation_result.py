"""What came of it, as typed values: public, and the same for text and JSON.

`simulation.schema.json` is made from these structs (`kscheduler.server.pages.published`).
"""

from importlib import resources
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from kscheduler.answers import EmulationVersion, Names, ReadAnswer, ResourceCapacity
from kscheduler.answers.schema import IN_SCHEMA, definitions, root_schema

API_VERSION: Final = "simulate.kscheduler.io/v1"
NEW: Final = "new"
# Where pods come from, besides those that replace others.
PENDING: Final = "pending"
DRAIN: Final = "drain"
REMOVAL: Final = "removal"
# Why pods are evicted, besides for a preemptor.
TAINT: Final = "taint"
# Behind the name of a class, as a ResourceQuota names its devices.
DEVICES_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


class Placed(ReadAnswer, frozen=True):
    """A pod that has got a node."""

    pod: Annotated[str, Meta(description="namespace/name.")]
    node: str
    origin: Annotated[
        str,
        Meta(
            description="`pending`: it waits in the cluster; `new`: it was asked about; else the pod that it replaces."
        ),
    ]
    score: Annotated[
        int | None,
        Meta(description="The node's points, of all score plugins; null: no other node fitted, so none was scored."),
    ] = None


class StillPending(ReadAnswer, frozen=True):
    """A pod that stays pending."""

    pod: str
    message: Annotated[str, Meta(description="Why, as its condition would say.")]
    origin: Annotated[str, Meta(description="As for placed pods.")]
    nominated_node: str | None


class Evicted(ReadAnswer, frozen=True):
    """A pod that had to go."""

    pod: str
    node: str
    by: Annotated[str, Meta(description="The preemptor; `drain`, `removal`, or `taint` (of the effect NoExecute).")]
    priority: int
    replacement: Annotated[
        str | None, Meta(description="The pod that its controller makes instead; null: nobody makes one.")
    ]
    after_seconds: Annotated[
        int, Meta(description="For how long it tolerates the taint; 0 for all that go at once.")
    ] = 0


class BlockedEviction(ReadAnswer, frozen=True):
    """A pod that stays, and the disruption budget that allows no further disruption."""

    pod: str
    budget: str


class Drained(ReadAnswer, frozen=True):
    """What `kubectl drain --ignore-daemonsets` of a node comes to."""

    node: str
    evicted: Names
    blocked: Annotated[
        tuple[BlockedEviction, ...],
        Meta(description="Pods that stay because a disruption budget allows no further disruption."),
    ]
    unmanaged: Annotated[
        Names, Meta(description="Evicted pods that no controller makes anew: kubectl drain wants --force for them.")
    ]
    staying: Annotated[Names, Meta(description="Pods of DaemonSets and of the node itself.")]


class RoomOfNodes(ReadAnswer, frozen=True):
    """By resource, before and after."""

    before: dict[str, ResourceCapacity]
    after: dict[str, ResourceCapacity]


class Capacity(ReadAnswer, frozen=True, kw_only=True):
    """How many more would fit."""

    pods: Annotated[int, Meta(description="Of gangs, their members.")]
    groups: Annotated[
        int | None,
        Meta(description="How many whole gangs that are; null: the first new pod is in none."),
    ] = None
    group: Annotated[
        str | None,
        Meta(description="The gang that they are like, namespace/name; null: the first new pod is in none."),
    ] = None
    is_more: Annotated[bool, Meta(description="The count was ended: at least so many.")]


class Simulation(ReadAnswer, frozen=True, kw_only=True):
    """What `kscheduler simulate -o json` prints: what would happen."""

    api_version: Literal["simulate.kscheduler.io/v1"] = API_VERSION
    kind: Literal["Simulation"] = "Simulation"
    placed: Annotated[
        tuple[Placed, ...], Meta(description="The pods that would get a node, in the order of the bindings.")
    ]
    waiting: Annotated[
        tuple[StillPending, ...],
        Meta(description="The pods that would stay pending, of the schedulers that are served."),
    ] = field(name="pending")
    evicted: Annotated[tuple[Evicted, ...], Meta(description="The pods that would go, in the order in which they go.")]
    drains: Annotated[tuple[Drained, ...], Meta(description="What the drains come to, in the order of the flags.")]
    added_nodes: Annotated[Names, Meta(description="The nodes that came, by name.")] = ()
    left_out: Annotated[
        Names,
        Meta(
            description="Objects of the cluster that cannot be read and were left out, such as `node web-1`; the notes "
            "say why."
        ),
    ] = ()
    room: Annotated[
        RoomOfNodes,
        Meta(
            description="What all nodes together have and what is asked of it, by resource; cpu in thousandths, the "
            "rest in units. Before: of the cluster as it is, without nodes that come and with those that go."
        ),
    ]
    capacity: Annotated[
        Capacity | None,
        Meta(
            description="How many more pods like the first new one, or gangs like its own, would fit in the end; null: "
            "not asked."
        ),
    ] = None
    is_whole: Annotated[
        bool,
        Meta(
            description="Whether the simulation reached its end. False: the time for an answer was up, and a note says "
            "so."
        ),
    ] = field(default=True, name="complete")
    emulation_version: EmulationVersion = ""
    notes: Annotated[Names, Meta(description="What could not be read or had to be assumed.")]


def schema_text() -> str:
    """The JSON Schema of `kscheduler simulate -o json`, as it is published."""
    return resources.files("kscheduler.simulate").joinpath("simulation.schema.json").read_text("utf-8")


def simulation_schema() -> dict[str, Any]:
    """The same, made anew."""
    found = definitions([Simulation], IN_SCHEMA)
    return root_schema("simulate:v1:simulation", "Simulation", found.pop("Simulation"), found)
