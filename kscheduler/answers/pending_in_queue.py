"""The pods that wait, by reason, as the queue has them: `GET /pending`.

The scheduler makes it; the status page shows it, and kubectl's plugin reads it.
"""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, UnsetType, field

from kscheduler.answers import Names, ReadAnswer
from kscheduler.answers.suggestions import CommonSuggestion

API_VERSION: Final = "pending.kscheduler.io/v1"
_REJECTED: Final = ("unschedulable", "gated", "backoff")
_QUEUES: Final = ["active", "backoff", "unschedulable", "gated", "incomplete", "pending", "underWay"]


class PodInQueue(ReadAnswer, frozen=True, kw_only=True):
    """A pod that waits."""

    namespace: str
    name: str
    priority: int = 0
    attempts: int | None = None
    creation_timestamp: str | None = None
    nominated_node_name: str | None = None

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


class ReasonInQueue(ReadAnswer, frozen=True, kw_only=True):
    """Pods that wait in one place for one reason."""

    queue: Annotated[
        str,
        Meta(
            description="incomplete: of a pod group that lacks something; pending: came while its group was being "
            "tried; underWay: being decided or bound, or waiting for extenders or Permit.",
            extra_json_schema={"enum": _QUEUES},
        ),
    ]
    profile: str = ""
    pod_group: Annotated[
        str | None,
        Meta(description="NAMESPACE/NAME of the group whose members the pods are: those in one queue are one entry."),
    ] = None
    plugins: Annotated[
        Names, Meta(description="Who rejected the pods in their last attempt, or keeps them waiting.")
    ] = ()
    message: Annotated[
        str,
        Meta(
            description="Of the condition PodScheduled at the API server, as the last attempt wrote it; of gated pods "
            "and of an incomplete pod group what keeps them out. Members of a group may have several: at most three, "
            "each with its number of members, that of most first."
        ),
    ]
    count: int
    since: Annotated[str | None, Meta(description="When the oldest was created.")]
    pods: Annotated[tuple[PodInQueue, ...], Meta(description="The oldest 100.")]
    suggestion: Annotated[
        CommonSuggestion | UnsetType | None,
        Meta(
            description="With suggestions=true: the change that frees most of the pods. It was tried for the oldest of "
            "those that are alike, the largest such set among the `looked` oldest pods. Null where none is known."
        ),
    ] = UNSET
    left_off: Annotated[
        str | UnsetType | None,
        Meta(
            description="With suggestions=true: why there may be another change, or why none is known: the pod is too "
            "large, or its part of the time was up. Null where all changes were tried."
        ),
    ] = UNSET

    @property
    def is_rejected(self) -> bool:
        """Whether a change may help: somebody has rejected the pods."""
        return self.queue in _REJECTED

    @property
    def keys(self) -> list[str]:
        """The pods, `namespace/name`, the oldest first."""
        return [pod.key for pod in self.pods]


class PendingInQueue(ReadAnswer, frozen=True, kw_only=True):
    """The pods of the served profiles that have no node."""

    api_version: Literal["pending.kscheduler.io/v1"] = API_VERSION
    kind: Literal["PendingInQueue"] = "PendingInQueue"
    count: int
    by_plugin: Annotated[
        dict[str, int], Meta(description="How many pods each plugin rejects; one that several reject counts for each.")
    ] = field(default_factory=dict)
    by_profile: dict[str, int] = field(default_factory=dict)
    by_namespace: dict[str, int] = field(default_factory=dict)
    reasons: Annotated[tuple[ReasonInQueue, ...], Meta(description="Those of most pods first, at most 200.")]
    reasons_left_off: int = 0
    not_served: Annotated[
        dict[str, int],
        Meta(
            description="How many pods without a node there are of each scheduler that is no profile here; they are in "
            "no other count."
        ),
    ] = field(default_factory=dict)
