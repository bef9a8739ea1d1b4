"""The scheduling queue by kube-scheduler's rules, pod by pod and without any data structure.

Three plugins reject pods: Room registers NodeAdd; Peer registers AssignedPodDelete with a hint that looks at the
deleted pod's label; Deaf registers nothing. Gate keeps pods with scheduling gates out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import floor

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.queue.backoff import BackoffPolicy
from kscheduler.state.queue.hints import HintTable
from kscheduler.state.queue.scheduling_queue import QueuePolicy

GATES_GONE = ClusterEvent(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
UNHEARD = ClusterEvent(Resource.CSI_NODE, ActionType.ADD)
Event = tuple[ClusterEvent, Pod | None, Pod | None]


def _peer_hint(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    del new
    helps = old is not None and old.metadata.labels.get("helps") == pod.name
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _gate_hint(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    del old
    return QueueingHint.QUEUE if new is not None and new.metadata.uid == pod.uid else QueueingHint.SKIP


def _pre_enqueue(pod: PodInfo, first: str) -> Status:
    del first
    return unresolvable("gated", plugin="Gate") if pod.pod.spec.scheduling_gates else SUCCESS


def sort_key(queued: QueuedPodInfo) -> tuple[int, float]:
    """PrioritySort."""
    return -queued.pod.priority, queued.timestamp


def policy(arrivals: list[tuple[str, str]]) -> QueuePolicy:
    """The queue's attempt context; arrivals are written down."""
    registrations = {
        "Room": (ClusterEventWithHint(NODE_ADD),),
        "Peer": (ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _peer_hint),),
        "Gate": (ClusterEventWithHint(ClusterEvent(Resource.POD, GATES_GONE.action), _gate_hint),),
    }
    hints = HintTable({"kscheduler": registrations})
    return QueuePolicy(
        sort_key,
        _pre_enqueue,
        hints,
        BackoffPolicy(),
        lambda queue, event, pods, _unasked: arrivals.extend([(queue, event)] * pods),
    )


@dataclass
class Entry:
    """One pod."""

    pod: Pod
    timestamp: float
    place: str = "active"
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    expiry: float = 0.0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    first_attempt: float | None = None
    missed: list[Event] = field(default_factory=list)
    """While in flight: what happened since."""

    @property
    def blamed(self) -> frozenset[str]:
        """Everyone whose events may help."""
        return self.rejectors | self.pending

    @property
    def order(self) -> tuple[int, float]:
        """PrioritySort."""
        return -(self.pod.spec.priority or 0), self.timestamp

    def is_registered(self, plugin: str, event: Event) -> bool:
        """Whether the event may change that plugin's mind about this pod."""
        what, old, new = event
        if plugin == "Room":
            return what == NODE_ADD
        if plugin == "Peer":
            return what == ASSIGNED_POD_DELETE and old is not None and old.metadata.labels["helps"] == self.pod.key[8:]
        if plugin == "Gate":
            return what == GATES_GONE and new is not None and new.metadata.uid == self.pod.metadata.uid
        return False

    def wake(self, events: list[Event], now: float) -> None:
        """Move the pod if any of these events may help; otherwise leave it where it is."""
        registered_for = {
            plugin for plugin in self.blamed if any(self.is_registered(plugin, event) for event in events)
        }
        is_forced = any(what == FORCE_ACTIVATE for what, _, _ in events)
        if registered_for & self.pending:
            self.enter("active", now)
        elif registered_for or is_forced:
            self.after_backoff(now)

    def after_backoff(self, now: float) -> None:
        """Into backoff while that lasts, else ready."""
        if self.expiry and self.expiry >= floor(now):
            self.enter("backoff" if self.blamed else "error-backoff", now)
        else:
            self.enter("active", now)

    def enter(self, place: str, now: float) -> None:
        """PreEnqueue has a say first, unless it had when the pod began to back off."""
        if self.pod.spec.scheduling_gates and "backoff" not in self.place:
            self.place = "gated"
            self.rejectors |= {"Gate"}
            return
        self.place = place
        if place == "active" and self.first_attempt is None:
            self.first_attempt = now

    def fail(self, rejectors: frozenset[str], pending: frozenset[str], now: float) -> None:
        """The attempt came to nothing."""
        self.rejectors, self.pending = rejectors - pending, pending
        self.timestamp = now
        if self.blamed:
            self.rejections, self.errors = self.rejections + 1, 0
        else:
            self.errors += 1
        count = self.errors or self.rejections
        self.expiry = floor(now + min(2 ** (count - 1), 10))
        self.place = "unschedulable"
        if self.blamed:
            missed, self.missed = self.missed, []
            self.wake(missed, now)
        else:
            self.after_backoff(now)


def gauge(entries: Iterator[Entry]) -> dict[tuple[str, str], int]:
    """`scheduler_unschedulable_pods`: who rejected how many of those that wait."""
    counts: dict[tuple[str, str], int] = {}
    for entry in entries:
        for plugin in entry.blamed:
            counts[plugin, "kscheduler"] = counts.get((plugin, "kscheduler"), 0) + 1
    return counts
