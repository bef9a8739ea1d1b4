"""What is answered about all pending pods, and about all nodes, of a cluster: `kscheduler pending` and `GET /nodes`.

As with `kscheduler.explain.answer`, JSON is the encoding of these structs. What the service says of pending pods, from
its queue, is another answer (`kscheduler.answers.pending_in_queue`).
"""

from enum import Enum
from typing import Annotated, Final, Literal

from msgspec import Meta, field

from kscheduler.answers import Answer, EmulationVersion, Names, ReadAnswer
from kscheduler.answers.pending_in_queue import API_VERSION
from kscheduler.answers.suggestions import CommonSuggestion

NODES_VERSION: Final = "nodes.kscheduler.io/v1"


# --- pending pods -----------------------------------------------------------------------------------------------------


class PendingVerdict(Enum):
    """What the cycle says of a pending pod now."""

    FITS = "Fits"
    """It would get a node; it may be in the queue, in backoff, or wait for a plugin."""
    UNSCHEDULABLE = "Unschedulable"
    PREEMPTING = "Preempting"
    """Preemption would make room."""
    GATED = "Gated"
    IN_A_GROUP = "InAGroup"
    """It waits with its pod group and is not judged alone."""
    NOT_SERVED = "NotServed"
    """No profile here has its scheduler's name."""
    ERROR = "Error"


class PendingPod(Answer, frozen=True):
    """A pod without a node."""

    namespace: str
    name: str
    scheduler_name: str
    priority: int
    creation_timestamp: str | None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class PendingReason(Answer, frozen=True):
    """Pods that are pending for one reason."""

    verdict: PendingVerdict
    message: str
    plugins: Annotated[Names, Meta(description="Who rejected nodes, or the pod; sorted.")]
    pod_groups: Annotated[Names, Meta(description="The pod groups that they wait with, as NAMESPACE/NAME.")]
    count: int
    since: Annotated[str | None, Meta(description="When the oldest was created.")]
    pods: Annotated[tuple[PendingPod, ...], Meta(description="The oldest first; a thousand at most.")]
    suggestion: CommonSuggestion | None
    left_off: Annotated[
        str | None, Meta(description="Why there is no suggestion, or perhaps a better one: the search was left off.")
    ]


class PendingPodsAnswer(Answer, frozen=True, kw_only=True):
    """All pending pods of a cluster, by reason: `kscheduler pending -o json`."""

    api_version: Literal["pending.kscheduler.io/v1"] = API_VERSION
    kind: Literal["PendingPods"] = "PendingPods"
    count: int
    by_plugin: Annotated[
        dict[str, int], Meta(description="How many pods each plugin rejects; one that several reject counts for each.")
    ]
    reasons: tuple[PendingReason, ...]
    emulation_version: EmulationVersion
    notes: Names


# --- nodes ------------------------------------------------------------------------------------------------------------


class NodeTaint(ReadAnswer, frozen=True):
    """A taint."""

    key: str
    value: str
    effect: str


class Overfilled(ReadAnswer, frozen=True):
    """A resource of which more is requested than there is."""

    resource: str
    requested: int
    allocatable: int


class DeviceCounts(ReadAnswer, frozen=True):
    """Devices of one class and driver that a node reaches."""

    device_class: Annotated[str, Meta(description="Empty: the devices that no class has.")] = field(name="class")
    driver: str
    devices: int
    taken: Annotated[
        int, Meta(description="Held by a claim; of a device that several claims may share, one share is enough.")
    ]
    tainted: Annotated[int, Meta(description="With a taint of effect NoSchedule or NoExecute.")]
    free: Annotated[int, Meta(description="Neither taken nor tainted.")]


class NodeUse(ReadAnswer, frozen=True):
    """How full a node is, and whom it has rejected."""

    name: str
    is_ready: bool = field(name="ready")
    is_cordoned: bool = field(name="cordoned")
    taints: tuple[NodeTaint, ...]
    allocatable: Annotated[dict[str, int], Meta(description="In the scheduler's units: cpu in thousandths.")]
    requested: dict[str, int]
    use: Annotated[float, Meta(description="The largest share of a resource that is requested.")]
    overfilled: tuple[Overfilled, ...]
    rejected_pods: Annotated[
        dict[str, int], Meta(description="By plugin: how many waiting pods it has rejected here.")
    ] = field(name="turnedAway")
    admits: Annotated[int, Meta(description="How many waiting pods would fit.")] = field(name="letsIn")
    devices: Annotated[
        tuple[DeviceCounts, ...],
        Meta(
            description="The devices that the node reaches, by class and driver; one in several classes is in several "
            "entries. Those of incomplete and invalid pools are left out."
        ),
    ]
    incomplete_pools: Annotated[
        Names,
        Meta(description="Driver/pool: not all ResourceSlices are published, and nothing is allocated of it."),
    ]
    invalid_pools: Annotated[
        Names, Meta(description="Driver/pool: it contradicts itself, and nothing is allocated of it.")
    ]
    unclear_classes: Annotated[
        Names,
        Meta(
            description="Classes whose selectors fail, or take long, for a device of the node: their devices may be "
            "more than is said."
        ),
    ]


class NodeUses(ReadAnswer, frozen=True, kw_only=True):
    """All nodes by name: `GET /nodes`."""

    api_version: Literal["nodes.kscheduler.io/v1"] = NODES_VERSION
    kind: Literal["NodeUses"] = "NodeUses"
    nodes: tuple[NodeUse, ...]
    waiting_pods: Annotated[int, Meta(description="Those that were judged.")]
    pods_not_judged: Annotated[
        int,
        Meta(
            description="Served by nobody here, gated, waiting with their group, or of a kind beyond the 200 most "
            "frequent."
        ),
    ]
    emulation_version: EmulationVersion = ""
    notes: Names
