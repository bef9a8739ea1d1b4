"""What `kscheduler replay` answers, as typed values: public, and the same for text and JSON.

    ReplayAnswer          whether every decision came out as recorded
    ReplayedState         cache and queue as they were (`--until`)
    ComparisonAnswer      what another configuration would have made of it (`--config`, `--plugin`)
    PodDecisionsAnswer    what was decided about one pod (`--pod`)

`replay.schema.json` is made from these structs (`kscheduler.server.pages.published`).
"""

from importlib import resources
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from kscheduler.answers import Answer, EmulationVersion, Names, ResourceCapacity
from kscheduler.answers.schema import IN_SCHEMA, definitions, root_schema
from kscheduler.fragments.fragmentation import ResourceFragmentation

API_VERSION: Final = "replay.kscheduler.io/v1"

_Version = Literal["replay.kscheduler.io/v1"]
Count = Annotated[int, Meta(ge=0)]
Time = Annotated[str, Meta(description="UTC, with microseconds.")]


# --- all decisions again ----------------------------------------------------------------------------------------------


class ReplayDifference(Answer, frozen=True):
    """A decision that came out differently."""

    time: Time
    decision: Annotated[Count, Meta(description="Its number, from 1.")]
    pod: Annotated[str, Meta(description="Or the group, or the attempt.")]
    text: Annotated[str, Meta(description="What was recorded, and what came out.")]
    because: Annotated[str | None, Meta(description="The plugin that decides from what is not recorded.")]


class ReplayAnswer(Answer, frozen=True, kw_only=True):
    """What `kscheduler replay -o json` prints."""

    api_version: _Version = API_VERSION
    kind: Literal["Replay"] = "Replay"
    recording: Annotated[str, Meta(description="The file or directory.")]
    recorded_by: Annotated[str, Meta(description="The version of kscheduler that recorded.")]
    is_redacted: Annotated[
        bool, Meta(description="Whether names are hashed, and of messages only the numbers are compared.")
    ] = field(name="redacted")
    is_equal: Annotated[
        bool,
        Meta(
            description="Whether every decision that could be judged came out as recorded, and no part was damaged or "
            "could not be replayed."
        ),
    ] = field(name="equal")
    first: Time = field(name="from")
    last: Time = field(name="until")
    segments: Count
    entries: Count
    decisions: Count
    followed: Annotated[
        dict[str, Count], Meta(description="How many were taken as recorded and not judged, by reason.")
    ]
    differing: Annotated[Count, Meta(description="How many came out differently.")]
    by_plugin: Annotated[
        dict[str, Count],
        Meta(
            description="How many of these are of profiles with plugins that decide from what is not recorded, by "
            "plugin."
        ),
    ] = field(name="ofPluginsWithOwnData")
    differences: Annotated[tuple[ReplayDifference, ...], Meta(description="The first hundred.")]
    digest: Annotated[
        str,
        Meta(
            description="The hash over all decisions, in hexadecimal; empty: there is none.",
            pattern="^([0-9a-f]{32})?$",
        ),
    ]
    batches: Annotated[Count, Meta(description="How many batches of entries had their hash compared.")]
    batches_with_another_digest: Count
    astray: Annotated[Names, Meta(description="Where the replay could not go on before the next snapshot.")]
    lost: Annotated[Count, Meta(description="How many entries could not be recorded.")] = field(name="lostEntries")
    stopped: Annotated[Names, Meta(description="Files that end too early, or are no recordings.")]
    notes: Names


# --- cache and queue at a time ----------------------------------------------------------------------------------------


class ReplayedPod(Answer, frozen=True):
    """A pod on a node."""

    pod: str
    assumed: bool


class ReplayedNode(Answer, frozen=True):
    """A node, or one that has gone and still has pods."""

    name: str
    is_there: Annotated[bool, Meta(description="Whether there is such a node; pods may be on one that has gone.")]
    resources: Annotated[
        dict[str, ResourceCapacity], Meta(description="By name: cpu in thousandths, all else in units.")
    ]
    pods: tuple[ReplayedPod, ...]


class ReplayedWait(Answer, frozen=True):
    """A pod that waits in the queue."""

    pod: str
    place: Annotated[str, Meta(description="active, backoff, unschedulable, or where else it waits.")]
    attempts: Count
    since: Time
    backoff_until: str | None
    plugins: Annotated[Names, Meta(description="Who rejected it.")]
    gate: str | None
    last_error: str | None


class ReplayedNomination(Answer, frozen=True):
    """A pod that is expected on a node."""

    pod: str
    node: str


class ReplayedPermit(Answer, frozen=True):
    """A pod that waits at Permit."""

    pod: str
    node: str
    plugins: Names


class ReplayedPreemption(Answer, frozen=True):
    """Victims that are being evicted."""

    preemptor: str
    node: str
    victims: Names


class ReplayedState(Answer, frozen=True, kw_only=True):
    """What it prints with --until."""

    api_version: _Version = API_VERSION
    kind: Literal["ReplayedState"] = "ReplayedState"
    time: Time
    nodes: Annotated[tuple[ReplayedNode, ...], Meta(description="By name.")]
    queue: Annotated[tuple[ReplayedWait, ...], Meta(description="In the order in which they would be tried or asked.")]
    in_flight: Annotated[Names, Meta(description="Pods that are being tried.")]
    nominated: tuple[ReplayedNomination, ...]
    waiting_for_permit: tuple[ReplayedPermit, ...]
    preemptions: tuple[ReplayedPreemption, ...]


# --- another configuration --------------------------------------------------------------------------------------------


class ComparedEviction(Answer, frozen=True):
    """A victim, and its preemptor."""

    pod: str
    by: str


class WithoutPoints(Answer, frozen=True):
    """A score plugin that failed."""

    plugin: str
    decisions: Annotated[Count, Meta(description="Decisions in which no node got points from it.")]
    partly: Annotated[Count, Meta(description="Decisions in which some of the nodes got none.")]
    of: Annotated[int, Meta(description="All decisions between several nodes.", ge=1)]
    why: Annotated[str, Meta(description="Its first failure, with the line of the plugin's file.")]


class QueueSeconds(Answer, frozen=True):
    """How long pods waited."""

    mean: float
    p50: float
    p99: float
    max: float


class ComparedRun(Answer, frozen=True, kw_only=True):
    """What one of the configurations has made of it."""

    emulation_version: EmulationVersion
    placed: Annotated[Count, Meta(description="Pods that got a node.")]
    pending: Annotated[dict[str, str], Meta(description="By pod, why it waits at the end.")]
    evicted: tuple[ComparedEviction, ...]
    decisions: Count
    without_points: Annotated[
        tuple[WithoutPoints, ...],
        Meta(
            description="Score plugins that failed, of the decisions between several nodes: their points did not count "
            "there."
        ),
    ]
    queue_seconds: Annotated[QueueSeconds, Meta(description="From arrival to node, of the pods that got one.")]
    nodes_in_use: float
    cpu_use: Annotated[float, Meta(description="Requested of what nodes in use have, 0 to 1.")]
    memory_use: float
    zone_skew: float
    price: Annotated[float | None, Meta(description="Of the nodes in use; null: no node has one.")]
    unusable: Annotated[
        dict[str, float],
        Meta(
            description="By resource the share of all that was free and that no pod like those that run or wait could "
            "use, 0 to 1: the mean over the run, of a look an hour and one at the end."
        ),
    ]
    fragmented: Annotated[
        dict[str, float],
        Meta(description="The same of what a typical pod that asks for the resource could not use, on average."),
    ]
    fragments: Annotated[
        tuple[ResourceFragmentation, ...],
        Meta(description="The same at the end, with what these pods lack. Devices by class, driver and shared pool."),
    ]


class PodElsewhere(Answer, frozen=True):
    """A pod with another node."""

    pod: str
    recorded: Annotated[str | None, Meta(description="Its node; null: none.")]
    other: str | None


class ComparisonAnswer(Answer, frozen=True, kw_only=True):
    """What it prints with --config or --plugin."""

    api_version: _Version = API_VERSION
    kind: Literal["PolicyComparison"] = "PolicyComparison"
    recording: str
    first: Time = field(name="from")
    last: Time = field(name="until")
    recorded: ComparedRun
    other: ComparedRun
    elsewhere: tuple[PodElsewhere, ...]
    notes: Names


# --- one pod ----------------------------------------------------------------------------------------------------------


class PodDecisionAnswer(Answer, frozen=True):
    """An entry about the pod."""

    time: Time
    pod: str
    attempt: Annotated[
        int | None,
        Meta(description="null: the entry is about a pod group, or about what came after a decision."),
    ]
    node: str | None
    text: Annotated[str, Meta(description="Why it has no node, or what was going on.")]
    plugins: Annotated[Names, Meta(description="Who rejected it.")]
    victims: Annotated[Names, Meta(description="Who is evicted for it.")]
    victims_on: str | None
    pod_group: Annotated[str | None, Meta(description="The pod group that it was decided about with.")]


class PodDecisionsAnswer(Answer, frozen=True, kw_only=True):
    """What `kscheduler replay --pod NAMESPACE/NAME -o json` prints."""

    api_version: _Version = API_VERSION
    kind: Literal["PodDecisions"] = "PodDecisions"
    recording: str
    pod: Annotated[str, Meta(description="As it was asked for.")]
    first: Time = field(name="from")
    last: Time = field(name="until")
    decisions: Annotated[tuple[PodDecisionAnswer, ...], Meta(description="The oldest first.")]
    stopped: Annotated[Names, Meta(description="Where a file ends too early, and why.")]


# --- their schema -----------------------------------------------------------------------------------------------------


def schema_text() -> str:
    """The JSON Schema of all answers of `kscheduler replay -o json`, as it is published."""
    return resources.files("kscheduler.recorder.report").joinpath("replay.schema.json").read_text("utf-8")


def replay_schema() -> dict[str, Any]:
    """The same, made anew."""
    answers = (ReplayAnswer, ReplayedState, ComparisonAnswer, PodDecisionsAnswer)
    root = {
        "description": "What `kscheduler replay -o json` prints: one of four objects, which `kind` tells apart.",
        "oneOf": [{"$ref": f"{IN_SCHEMA}{answer.__name__}"} for answer in answers],
    }
    return root_schema("replay:v1:answers", "Answers of replay", root, definitions(answers, IN_SCHEMA))
