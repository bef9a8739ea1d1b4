"""What came of it, as typed values: public, and the same for text and JSON.

`compaction.schema.json` is made from these structs (`kscheduler.server.pages.published`).
"""

from importlib import resources
from math import ceil
from statistics import median_low
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from kscheduler.answers import EmulationVersion, Names, ReadAnswer
from kscheduler.answers.schema import IN_SCHEMA, definitions, root_schema
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.simulate.simulation_result import StillPending

API_VERSION: Final = "compact.kscheduler.io/v1"


class ProfileCompaction(ReadAnswer, frozen=True, kw_only=True):
    """On how few nodes one profile places the pods."""

    profile: Annotated[str, Meta(description="The schedulerName of the profile that places all pods.")]
    trials: Annotated[
        tuple[int, ...],
        Meta(description="How many nodes each trial needed. Empty: the pods do not even fit on all nodes."),
    ] = ()
    kept: Annotated[Names, Meta(description="The nodes of the trial that needed fewest, by name.")] = ()
    unplaced: Annotated[
        tuple[StillPending, ...],
        Meta(description="Pods that find no place when all are rescheduled on all nodes; there are no trials then."),
    ] = ()

    @property
    def fewest(self) -> int:
        """Of the best trial. Raises `ValueError` without trials."""
        return min(self.trials)

    @property
    def median(self) -> int:
        """Of an even number of trials the lower one of the two in the middle. Raises `ValueError` without trials."""
        return median_low(self.trials)

    @property
    def percentile_90(self) -> int:
        """Nine of ten trials needed no more: the figure that Borg's authors compared. Raises `IndexError`."""
        return sorted(self.trials)[ceil(0.9 * len(self.trials)) - 1]


class Compaction(ReadAnswer, frozen=True, kw_only=True):
    """What `kscheduler compact -o json` prints: on how few nodes the pods would run."""

    api_version: Literal["compact.kscheduler.io/v1"] = API_VERSION
    kind: Literal["Compaction"] = "Compaction"
    nodes: Annotated[int, Meta(description="How many nodes there are.")]
    nodes_in_use: Annotated[int, Meta(description="How many of them have a pod that can move.")]
    moving: Annotated[int, Meta(description="Pods that are rescheduled.")]
    staying: Annotated[int, Meta(description="Pods of DaemonSets and static pods: they go with their node.")]
    waiting: Annotated[int, Meta(description="Pods without a node, which are left out.")] = field(name="pending")
    at_least: Annotated[
        int,
        Meta(
            description="Fewer nodes do not have as much as the pods request, whatever places them; more than `nodes`: "
            "all of them do not."
        ),
    ]
    terminating: Annotated[int, Meta(description="Pods that are being deleted, which are left out.")] = 0
    seed: Annotated[int, Meta(description="The same seed draws the same nodes.")]
    profiles: Annotated[tuple[ProfileCompaction, ...], Meta(description="In the order of the configuration.")]
    fragments: Annotated[
        tuple[ResourceFragmentation, ...],
        Meta(description="Of the pods as they are placed today, by resource that a typical pod requests."),
    ] = ()
    left_out: Annotated[Names, Meta(description="Objects that cannot be read, such as `node web-1`.")] = ()
    emulation_version: EmulationVersion = ""
    notes: Annotated[Names, Meta(description="What could not be read or had to be assumed.")] = ()


def schema_text() -> str:
    """The JSON Schema of `kscheduler compact -o json`, as it is published."""
    return resources.files("kscheduler.compact").joinpath("compaction.schema.json").read_text("utf-8")


def compaction_schema() -> dict[str, Any]:
    """The same, generated from the structs."""
    found = definitions([Compaction], IN_SCHEMA)
    return root_schema("compact:v1:compaction", "Compaction", found.pop("Compaction"), found)
