"""The scheduling queue: who is tried next, who waits for what.

    add ------> active ----pop_nowait----> in flight ----done----> (bound)
                 ^  ^                       |     |
                 |  |               failed  |     |  turned down, and no event since helps
                 |  |                       v     v
                 |  +--back-off over-- backoff   unschedulable
                 |                        ^           |
                 +---- not backing off ---+-----------+  an event that a plugin which turned it down asked for

    A pod that PreEnqueue turns down is *gated*: parked beside the unschedulable until its plugin lets it in.

The words and rules are kube-scheduler's (reference, section 4). Events that come while a pod is in flight are kept and
judged when it returns, so that no wake-up is lost. An idle scheduler takes pods out of back-off early, but never those
that failed with an error. Every 30 s whoever has been parked for 5 minutes is tried again: a safety net, which no
correct hint ever needs. Limits: parked pods are asked one by one; judging them by class is an issue of its own.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.framework import events
from kscheduler.framework.events import ClusterEvent, Resource
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Status
from kscheduler.state.backoff import BackoffPolicy, is_backing_off
from kscheduler.state.heap import KeyedHeap
from kscheduler.state.hints import HintTable, QueueingStrategy
from kscheduler.state.in_flight import InFlight, SeenEvent
from kscheduler.state.pod_changes import pod_update_events

ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"
"""Queue names, as metrics have them."""

MAX_IN_UNSCHEDULABLE_SECONDS = 300.0
FLUSH_UNSCHEDULABLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """How many pods are where."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    in_flight_events: Mapping[str, int]
    """By event label."""


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What the queue asks of its surroundings."""

    sort_key: Callable[[QueuedPodInfo], Any]
    """The QueueSort plugin."""
    pre_enqueue: Callable[[PodInfo], Status]
    """The profile's PreEnqueue plugins; Success lets the pod in."""
    hints: HintTable
    backoff: BackoffPolicy
    on_incoming: Callable[[str, str], None]
    """Told of each arrival: (queue, event label)."""


class SchedulingQueue:
    """Pods that want a node. Keys are `namespace/name`; `now` is wall-clock seconds throughout."""

    def __init__(self, policy: QueuePolicy) -> None:
        self._policy = policy
        self._active: KeyedHeap[QueuedPodInfo] = KeyedHeap(policy.sort_key)
        self._backoff: KeyedHeap[QueuedPodInfo] = KeyedHeap(lambda pod: (pod.backoff_expiration, policy.sort_key(pod)))
        self._error_backoff: KeyedHeap[QueuedPodInfo] = KeyedHeap(lambda pod: pod.backoff_expiration)
        self._unschedulable: dict[str, QueuedPodInfo] = {}
        self._gated: dict[str, QueuedPodInfo] = {}
        self._in_flight = InFlight()
        self._rejections: Counter[tuple[str, str]] = Counter()

    def statistics(self) -> QueueStatistics:
        """Sizes, for metrics."""
        return QueueStatistics(
            active=len(self._active),
            backoff=len(self._backoff) + len(self._error_backoff),
            unschedulable=len(self._unschedulable),
            gated=len(self._gated),
            in_flight=len(self._in_flight),
            in_flight_events=dict(self._in_flight.events),
        )

    def rejections(self) -> dict[tuple[str, str], int]:
        """How many pods that wait were turned down by each (plugin, profile): `scheduler_unschedulable_pods`."""
        return dict(self._rejections)

    def parked(self) -> Iterator[QueuedPodInfo]:
        """Pods that wait for an event, gated ones included."""
        return chain(self._unschedulable.values(), self._gated.values())

    def find(self, key: str) -> tuple[str, QueuedPodInfo] | None:
        """Where a pod is, and its history."""
        for name, queue in ((ACTIVE, self._active), (BACKOFF, self._backoff), (BACKOFF, self._error_backoff)):
            queued = queue.get(key)
            if queued is not None:
                return name, queued
        for name, parked in ((UNSCHEDULABLE, self._unschedulable), (GATED, self._gated)):
            if key in parked:
                return name, parked[key]
        return None

    # --- what the watch says --------------------------------------------------------------------------------------

    def add(self, pod: PodInfo, now: float) -> None:
        """A pod without a node has appeared."""
        label = events.UNSCHEDULABLE_POD_ADD.label
        self.delete(pod.key)
        self._to_active(QueuedPodInfo(pod, timestamp=now), label, now)

    def update(self, old: Pod, pod: PodInfo, now: float) -> None:
        """A pod that wants a node has changed."""
        changes = pod_update_events(old, pod.pod)
        if pod.uid in self._in_flight:
            for event in changes:
                self._in_flight.record(SeenEvent(event, old, pod.pod, only=pod.uid))
            return
        found = self.find(pod.key)
        if found is None:
            self.add(pod, now)
            return
        queue, queued = found
        queued.pod = pod
        if queue in (UNSCHEDULABLE, GATED):
            self._wake_by_own_update(queued, changes, old, now)

    def delete(self, key: str) -> None:
        """A pod is gone, or has got a node from elsewhere."""
        queued = self._remove(key)
        if queued is not None:
            self._count_rejections(queued, -1)

    def move_all(
        self, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None, now: float, spared: str = ""
    ) -> None:
        """Something happened in the cluster: whoever it may help is tried again, except the pod with UID `spared`."""
        if not self._policy.hints.interests_anyone(event):
            return
        parked = [queued for queued in self.parked() if queued.pod.uid != spared]
        self._move(parked, event, old, new, now)
        self._in_flight.record(SeenEvent(event, old, new))

    def activate(self, keys: Collection[str], now: float) -> None:
        """Try these at once, whatever they wait for."""
        for key in keys:
            found = self.find(key)
            if found is not None and found[0] != ACTIVE:
                self._remove(key)
                self._to_active(found[1], events.FORCE_ACTIVATE.label, now)

    # --- what a worker does ---------------------------------------------------------------------------------------

    def pop_nowait(self, now: float) -> QueuedPodInfo | None:
        """The next pod to try, or `None`. The pod is in flight until `done` or `requeue`."""
        while True:
            queued = self._active.pop() or self._early_from_backoff(now)
            if queued is None:
                return None
            self._count_rejections(queued, -1)
            if queued.pod.uid in self._in_flight:
                continue
            queued.attempts += 1
            queued.initial_attempt_timestamp = queued.initial_attempt_timestamp or now
            self._in_flight.begin(queued.pod.uid)
            return queued

    def has_ready(self) -> bool:
        """Whether `pop_nowait` has something to give."""
        return bool(len(self._active) or len(self._backoff))

    def done(self, uid: str) -> None:
        """The attempt led to a node, or the pod is no longer ours to schedule."""
        self._in_flight.done(uid)

    def is_in_flight(self, uid: str) -> bool:
        """Whether a worker has the pod."""
        return uid in self._in_flight

    def requeue(self, queued: QueuedPodInfo, now: float) -> None:
        """The attempt failed. `queued` names the plugins that turned the pod down; none means an error."""
        try:
            if self.find(queued.key) is None:
                self._requeue(queued, now)
        finally:
            self._in_flight.done(queued.pod.uid)

    def flush_backoff(self, now: float) -> None:
        """Let go whose back-off is over."""
        for queue in (self._backoff, self._error_backoff):
            while (queued := queue.peek()) is not None and not is_backing_off(queued, now):
                queue.pop()
                self._to_active(queued, events.BACKOFF_COMPLETE, now)

    def flush_unschedulable(self, now: float) -> None:
        """The safety net: whoever has been parked for 5 minutes is tried again."""
        late = [pod for pod in self.parked() if now - pod.timestamp > MAX_IN_UNSCHEDULABLE_SECONDS]
        self._move(late, events.UNSCHEDULABLE_TIMEOUT, None, None, now)
        for queued in late:
            queued.was_flushed = queued.key not in self._gated  # one that is still gated was not rescued

    # --- within ---------------------------------------------------------------------------------------------------

    def _early_from_backoff(self, now: float) -> QueuedPodInfo | None:
        """Nothing else to do: take who backs off, if PreEnqueue still lets it in."""
        while (queued := self._backoff.pop()) is not None:
            if self._is_let_in(queued, events.POP_FROM_BACKOFF):
                self._policy.on_incoming(ACTIVE, events.POP_FROM_BACKOFF)
                queued.initial_attempt_timestamp = queued.initial_attempt_timestamp or now
                return queued
        return None

    def _requeue(self, queued: QueuedPodInfo, now: float) -> None:
        rejected = bool(queued.unschedulable_plugins or queued.pending_plugins)
        if rejected:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp = now
        queued.was_flushed = False
        queued.backoff_expiration = self._policy.backoff.expiration(queued)
        self._count_rejections(queued, 1)
        strategy = self._strategy_of_missed_events(queued) if rejected else QueueingStrategy.AFTER_BACKOFF
        self._place(queued, strategy, events.SCHEDULE_ATTEMPT_FAILURE, now)

    def _strategy_of_missed_events(self, queued: QueuedPodInfo) -> QueueingStrategy:
        answer = QueueingStrategy.SKIP
        for seen in self._in_flight.since(queued.pod.uid):
            strategy = self._policy.hints.strategy(queued, seen.event, seen.old, seen.new)
            if strategy is QueueingStrategy.IMMEDIATELY:
                return strategy
            if strategy is QueueingStrategy.AFTER_BACKOFF:
                answer = strategy
        return answer

    def _wake_by_own_update(
        self, queued: QueuedPodInfo, changes: Collection[ClusterEvent], old: Pod, now: float
    ) -> None:
        for event in changes:
            self._move([queued], event, old, queued.pod.pod, now)
            if not (queued.key in self._unschedulable or queued.key in self._gated):
                return

    def _move(
        self,
        parked: Collection[QueuedPodInfo],
        event: ClusterEvent,
        old: KubeObject | None,
        new: KubeObject | None,
        now: float,
    ) -> None:
        hints = self._policy.hints
        wildcard = event.resource is Resource.WILDCARD
        for queued in parked:
            if queued.gating_plugin and not (wildcard or hints.gating_event(queued, event)):
                continue
            strategy = hints.strategy(queued, event, old, new)
            if strategy is not QueueingStrategy.SKIP:
                self._unpark(queued.key)
                self._place(queued, strategy, event.label, now)

    def _place(self, queued: QueuedPodInfo, strategy: QueueingStrategy, label: str, now: float) -> None:
        if strategy is QueueingStrategy.SKIP:
            self._park(queued, label)
        elif strategy is QueueingStrategy.AFTER_BACKOFF and is_backing_off(queued, now):
            self._to_backoff(queued, label)
        else:
            self._to_active(queued, label, now)

    def _to_active(self, queued: QueuedPodInfo, label: str, now: float) -> None:
        if self._is_let_in(queued, label):
            queued.initial_attempt_timestamp = queued.initial_attempt_timestamp or now
            self._active.push(queued.key, queued)
            self._policy.on_incoming(ACTIVE, label)

    def _to_backoff(self, queued: QueuedPodInfo, label: str) -> None:
        if self._is_let_in(queued, label):
            rejected = queued.unschedulable_plugins or queued.pending_plugins
            (self._backoff if rejected else self._error_backoff).push(queued.key, queued)
            self._policy.on_incoming(BACKOFF, label)

    def _park(self, queued: QueuedPodInfo, label: str) -> None:
        (self._gated if queued.gating_plugin else self._unschedulable)[queued.key] = queued
        self._policy.on_incoming(UNSCHEDULABLE, label)

    def _is_let_in(self, queued: QueuedPodInfo, label: str) -> bool:
        """Ask PreEnqueue; a pod that is turned down is parked as gated."""
        status = self._policy.pre_enqueue(queued.pod)
        if status.is_success:
            queued.gating_plugin = ""
            return True
        queued.gating_plugin = status.plugin
        if status.plugin not in queued.unschedulable_plugins:
            self._count_rejections(queued, -1)
            queued.unschedulable_plugins |= {status.plugin}
            self._count_rejections(queued, 1)
        self._park(queued, label)
        return False

    def _remove(self, key: str) -> QueuedPodInfo | None:
        for queue in (self._active, self._backoff, self._error_backoff):
            queued = queue.remove(key)
            if queued is not None:
                return queued
        return self._unpark(key)

    def _unpark(self, key: str) -> QueuedPodInfo | None:
        return self._unschedulable.pop(key, None) or self._gated.pop(key, None)

    def _count_rejections(self, queued: QueuedPodInfo, change: int) -> None:
        profile = queued.pod.pod.spec.scheduler_name
        for plugin in queued.unschedulable_plugins | queued.pending_plugins:
            self._rejections[plugin, profile] += change
            if self._rejections[plugin, profile] <= 0:
                del self._rejections[plugin, profile]
