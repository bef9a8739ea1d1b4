"""What the page reads: parts of the running service, and functions about the rest of it. Nothing here is written to."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.answers.pending_in_queue import PendingInQueue
from kscheduler.answers.suggestions import HelpingChange
from kscheduler.api.core import Pod
from kscheduler.devices.counting import NodeDevices
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.fragments.fragmentation import ResourceFragmentation
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.scheduling.drift.cache_comparer import PodsStored
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.pod_log.recent_attempts import RecentAttempts
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable

if TYPE_CHECKING:  # read with the first answer, not at the start
    from kscheduler.explain.answer import PodExplanation
    from kscheduler.explain.group_answer import PodGroupExplanation


class Unavailable(msgspec.Struct, frozen=True):
    """No answer, and why: shown in its place."""

    reason: str


class NodeVerdict(msgspec.Struct, frozen=True):
    """What the cycle says of a pod on one node."""

    key: str
    """The pod, `namespace/name`."""
    plugin: str
    """Who rejects it there; empty: it fits there, or would fit by preemption alone."""
    reasons: tuple[str, ...]
    victims: tuple[str, ...] = ()
    """Pods that would have to go for it to fit there."""


class LiveQueryPort(Protocol):
    """Decides about pods on a copy of the live state. Asking costs the service a fork: keep the answers."""

    async def explain(self, pod: Pod) -> "PodExplanation | PodGroupExplanation | Unavailable":
        """The explanation of one pod, or of the group that it is decided with, as it would be decided now."""
        ...

    async def verdicts_on(self, node_name: str, keys: Sequence[str]) -> list[NodeVerdict] | Unavailable:
        """What the cycle says of these pending pods on one node; without those that are gone."""
        ...

    async def helping_changes(self, reasons: Sequence[Sequence[str]]) -> Mapping[str, HelpingChange] | Unavailable:
        """For each reason, by the key of its first pod, the change that frees most of its pods.

        `reasons`: keys of pending pods. Reasons for which nothing is known are missing.
        """
        ...


class SchedulerStatus(msgspec.Struct, frozen=True):
    """Who decides here, and by which rules."""

    leader: str
    """In a line; empty without leader election."""
    leads: bool
    is_scheduling: bool
    has_read: bool
    """Whether the cluster has been read once: before that, what is counted here is not the cluster."""
    profiles: tuple[str, ...]
    kubernetes: str
    """The minor version whose rules are followed."""
    version: str
    problems: tuple[str, ...]
    """Checks of /readyz and /livez that fail."""
    notes: tuple[str, ...]


class PageSources(msgspec.Struct, frozen=True, kw_only=True):
    """Parts and functions."""

    cache: Cache
    queue: SchedulingQueue
    pods: PodsStored
    pending: Callable[[Iterable[str]], Awaitable[PendingInQueue]]
    """The pods with these keys that wait, by reason (`scheduling.pending_pods`)."""
    observations: Observations
    recent: RecentAttempts
    at_permit: WaitingPodTable
    binding: Callable[[], int]
    """Attempts that have a node and are not over."""
    awaited_events: Callable[[str, frozenset[str]], tuple[str, ...]]
    standing: Callable[[], SchedulerStatus]
    devices_on: Callable[[NodeInfo], NodeDevices]
    """The devices that a node reaches, by class."""
    overcommitted: Callable[[], Mapping[str, str]]
    """Overcommitted nodes, with what is known about each."""
    clock: Clock
    answers: LiveQueryPort | None = None
    class_devices: ClassDevices | None = None
    """Devices by class on each node; `None`: nobody counts them."""
    fragments: Callable[[], Sequence[ResourceFragmentation]] = tuple
    """What of the free room is of no use, as it was measured last; whoever asks has it measured again."""
    prebind_waits: Callable[[Pod], str] = lambda _: ""
    """What a pod waits for on the node that it has got (`scheduling.drift.prebind_waits`)."""


MAX_NOTES: Final = 20
