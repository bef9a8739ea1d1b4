"""Handling a failed attempt: condition, Event, and back into the queue.

    what happened                 Event and condition text              reason            requeued in
    no node fits                  0/N nodes are available: ...          Unschedulable     unschedulable pool
    there are no nodes            no nodes available to schedule pods   Unschedulable     error backoff
    Reserve or Permit rejected    0/1 nodes are available: 1 ...        Unschedulable     unschedulable pool
    a plugin or the API failed    the error                             SchedulerError    error backoff
    the API refused the pod       the server's text                     SchedulerError    error backoff, 10 s to 5 min
    an exception, repeatedly      the exception                         SchedulerError    error backoff, 10 s to 5 min
    deciding took too long        what of the pod is too much           SchedulerError    error backoff, 10 s to 5 min
    a plugin is held back         from whom, until when, why            SchedulerError    until then, or its end
    a plugin is quarantined       which, since when and why             SchedulerError    the pool, until a reload

If no node fits, PostFilter decides about the nominated node (it may leave an earlier nomination as it is). In all other
cases the nomination is cleared. The pod is looked up first: if it is gone, has a node by now, its name belongs to
another pod, or its profile is gone from the configuration, it is not requeued.
"""

from collections.abc import Callable, Collection, Hashable
from typing import Protocol

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.api.quantity import QuantityError
from kscheduler.framework import events
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault
from kscheduler.scheduling.attempt_events import ClassRejected, PodLetGo, PodNotScheduled, PodRequeued
from kscheduler.scheduling.failure import SCHEDULER_ERROR, Failure
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.state.nominator import NominatedPods
from kscheduler.state.queue.equivalence_groups import EquivalenceGroup
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)


class FailureSink(Protocol):
    """Reports failures to the API server: `status_writer.StatusWriter`."""

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """Record the Event, and patch condition and nominated node (`None` leaves it) if they have changed."""
        ...

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Parked pods share a new condition: each is patched in its turn, at a bounded rate, without an Event.

        `name` is the class; a newer condition replaces one that is not written yet. `members` holds the keys
        (`namespace/name`) of its parked pods and stays live (a dict by key will do): it is copied when the class's turn
        comes, and checked again before each patch, so a pod that has left it is not patched. If a member is judged
        again, remove it from `members`, or report the class again. This call is O(1); pods that already show the
        condition cost no request.
        """
        ...

    def withdraw(self, uid: str) -> None:
        """Drop any unsent patch for this pod."""
        ...

    async def settled(self, uid: str) -> None:
        """Wait until no request for this pod is in flight, so that none can overtake the next one."""
        ...


class FailureHandler:
    """Requeues pods after a failed attempt, and reports the failure."""

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: NominatedPods,
        pod_of: Callable[[str], Pod | None],
        sink: FailureSink,
        observers: Observers,
        is_served: Callable[[Pod], bool],
        resizes: DeferredResizes,
        seconds_held: Callable[[PodInfo], float] = lambda _: 0.0,
    ) -> None:
        """`pod_of`: the newest version of a pod by its key. `is_served`: whether a profile in force wants the pod.

        `seconds_held`: for how long some plugin is held back from a pod.
        """
        self._seconds_held = seconds_held
        self._queue = queue
        self._nominator = nominator
        self._pod_of = pod_of
        self._sink = sink
        self.withdraw = sink.withdraw
        """The pod is about to be bound: a late patch of an earlier failure must not overwrite that."""
        self.settled = sink.settled
        """Wait for a patch of this pod that has been sent already."""
        self._tell = observers.tell
        self._is_served = is_served
        self._resizes = resizes

    def handle(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Requeue the newest version of the pod and report why; drop it if it must not be scheduled any more."""
        current = self._pod_of(queued.key)
        if current is None or not _still_wants_a_node(current, queued.pod.uid) or not self._is_served(current):
            self._queue.done(queued.pod.uid)
            self._tell(PodLetGo(queued, failure, current))
            return
        if failure.fault is Fault.HELD_BACK:
            failure = replace(failure, held_until=now + self._seconds_held(queued.pod))
        is_news = failure.message != queued.last_error
        if self._queue.find(queued.key) is None:  # else an earlier call that raised half-way has requeued it
            self._renew(queued, current)
            _note_failure(queued, failure)
        self._tell(PodNotScheduled(queued, failure, now))
        freed_node = self._nominate(queued.pod, failure.nominated_node_name)
        equivalence_group = self._queue.requeue(queued, now, holds_for=failure.holds_for)
        if freed_node:
            self._wake_for_room(queued.pod, freed_node, now)
        condition = _condition(failure)
        self._sink.report(current, condition, failure.message, failure.nominated_node_name)
        if equivalence_group is not None:
            self._report_others(equivalence_group, condition, queued, failure)
        self._tell(PodRequeued(queued, failure, now, is_news, self._queue))

    def handle_resize(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Requeue a running pod whose resize waits for room. Nothing is written: the pod runs."""
        current = self._pod_of(queued.key)
        is_same = current is not None and current.metadata.uid == queued.pod.uid
        if current is None or not is_same or not self._resizes.concerns(current) or not self._is_served(current):
            self._queue.done(queued.pod.uid)
            self._tell(PodLetGo(queued, failure, current))
            return
        is_news = failure.message != queued.last_error
        if self._queue.find(queued.key) is None:
            self._renew(queued, current)
            _note_failure(queued, failure)
        self._tell(PodNotScheduled(queued, failure, now))
        self._queue.requeue(queued, now)
        self._tell(PodRequeued(queued, failure, now, is_news, self._queue))

    def _report_others(
        self, equivalence_group: EquivalenceGroup, condition: Condition, queued: QueuedPodInfo, failure: Failure
    ) -> None:
        """Report the condition for the other parked pods of the class too, unless that was done before."""
        if len(equivalence_group) > 1 and equivalence_group.reported != condition:
            self._sink.report_class(equivalence_group.key, equivalence_group.keys(), condition)
            self._tell(ClassRejected(equivalence_group.key, equivalence_group.keys(), failure, queued.key))
        equivalence_group.reported = condition

    def _renew(self, queued: QueuedPodInfo, current: Pod) -> None:
        tried = queued.pod.pod
        if current is not tried:
            queued.pod = PodInfo(current)
            queued.forgive(tried, current)

    def _nominate(self, pod: PodInfo, node_name: str | None) -> str:
        """Nominate at once, because the next decision comes before the watch event. `None` keeps the nomination.

        Returns the node on which the pod is no longer expected, if its status never named it (else the watch event
        will be handled), or an empty string.
        """
        expected = self._nominator.nominated_node(pod)
        try:
            if node_name is None:
                self._nominator.update(pod.pod, pod)
            else:
                self._nominator.nominate(pod, node_name)
        except QuantityError as problem:  # the newest version cannot be read, so no room can be kept for it
            _log.warning("nomination_not_kept", pod=pod.key, node=node_name, err=str(problem))
        is_left = expected not in (self._nominator.nominated_node(pod), pod.pod.status.nominated_node_name)
        return expected if is_left else ""

    def _wake_for_room(self, pod: PodInfo, node_name: str, now: float) -> None:
        """Wake pods of lower or equal priority: the pod's expected room on this node is free for them now."""
        gone = placed(pod.pod, node_name)
        self._queue.move_all(
            events.ASSIGNED_POD_DELETE, gone, None, now, pod.uid, lambda parked: parked.priority <= pod.priority
        )


def _note_failure(queued: QueuedPodInfo, failure: Failure) -> None:
    """Note how the attempt ended: the queue decides by this where the pod waits."""
    queued.unschedulable_plugins = failure.plugins
    queued.pending_plugins = failure.pending
    queued.refusals = queued.refusals + 1 if failure.fault is Fault.REFUSED else 0
    if failure.fault is not Fault.HELD_BACK:  # it says nothing about the pod: what was slow or failed has not answered
        queued.bugs = queued.bugs + 1 if failure.fault in (Fault.BUG, Fault.ON_TRIAL) else 0
    queued.overruns = queued.overruns + 1 if failure.fault is Fault.OVER_BUDGET else 0
    queued.held_until = failure.held_until
    queued.last_error = failure.message if failure.is_error else ""


def failed_condition(message: str) -> Condition:
    """The condition of a pod for which something failed, in contrast to a rejection."""
    return Condition(type="PodScheduled", status="False", reason=SCHEDULER_ERROR, message=message)


def _condition(failure: Failure) -> Condition:
    return Condition(type="PodScheduled", status="False", reason=failure.reason, message=failure.message)


def _still_wants_a_node(pod: Pod, uid: str) -> bool:
    """Whether it is the same pod, without a node, and not terminal."""
    return pod.metadata.uid == uid and not pod.spec.node_name and not pod.is_terminal
