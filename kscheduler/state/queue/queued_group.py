"""A pod group in the scheduling queue: its waiting members move and are tried as one.

Of a composite group: the waiting members of all groups below it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo


class GroupOutcome(Enum):
    """How an attempt to place a group has ended; the queue decides by this when the rest of it is tried again."""

    SUCCESS = "success"
    """Members have got nodes: those that have none are tried again at once."""
    REJECTED = "rejected"
    ERROR = "error"


@dataclass(slots=True, eq=False)
class QueuedPodGroup:
    """kube-scheduler's QueuedPodGroupInfo. Times are wall-clock seconds."""

    definition: GroupDefinition
    members: dict[str, QueuedPodInfo] = field(default_factory=dict)
    """By key (`namespace/name`)."""
    timestamp: float = 0.0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    initial_attempt_timestamp: float | None = None
    arrived: float = 0.0
    """When it could be tried for the first time: no two groups of a queue have the same; 0 before that."""
    woken_at: float = -math.inf
    """When room that had become free last ended its backoff."""
    wakes: int = 0
    """How often in a row it did so in vain, as far as that counts."""
    backoff_expiration: float = 0.0
    place: str = ""
    gating_plugin: str = ""
    """The PreEnqueue plugin that keeps a member out, and with it the group."""
    was_flushed: bool = False
    flushed_at: float = 0.0

    unschedulable_plugins: ClassVar[frozenset[str]] = frozenset()
    pending_plugins: ClassVar[frozenset[str]] = frozenset()
    """Members have plugins that rejected them; a rejected group waits for the end of its backoff, not for events."""
    refusals: ClassVar[int] = 0
    bugs: ClassVar[int] = 0

    def __len__(self) -> int:
        return len(self.members)

    @property
    def key(self) -> GroupKey:
        """Which group it is; no pod and no equivalence group has such a key."""
        return self.definition.key

    @property
    def is_costly(self) -> bool:
        """Whether deciding about one of the members may take long."""
        return any(member.is_costly for member in self.members.values())

    @property
    def overruns(self) -> int:
        """Attempts in a row in which deciding about its members took too long."""
        return max((member.overruns for member in self.members.values()), default=0)

    @property
    def pod(self) -> PodInfo:
        """One of the members, for logs."""
        return next(iter(self.members.values())).pod

    @property
    def representative(self) -> QueuedPodInfo:
        """What QueueSort compares: a member with the group's priority and the time of its arrival."""
        info = PodInfo(self.pod.pod)
        if self.definition.priority is not None:
            info.priority = self.definition.priority
        else:
            info.priority = max(member.pod.priority for member in self.members.values())
        # A rejected group keeps its place: those that came later may pass it, but are not tried before it.
        arrived = self.arrived if 0 < self.arrived < self.timestamp else self.timestamp
        return QueuedPodInfo(info, timestamp=arrived, attempts=self.attempts)

    def in_order(self, tie_name: Callable[[str], str] = str) -> list[QueuedPodInfo]:
        """The members in the order in which they are tried; `tie_name`: of `NodeTable`."""
        return sorted(self.members.values(), key=lambda queued: member_order(queued, tie_name))


def member_order(queued: QueuedPodInfo, tie_name: Callable[[str], str] = str) -> tuple[int, int, float, str]:
    """Highest priority first, then who has been tried more often, who has waited longer, and by name."""
    return -queued.pod.priority, -queued.attempts, queued.timestamp, tie_name(queued.pod.name)
