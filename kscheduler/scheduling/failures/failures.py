"""Handling a failed attempt: condition, Event, and back into the queue.

    what happened                 Event and condition text              reason            requeued in
    no node fits                  0/N nodes are available: ...          Unschedulable     unschedulable pool
    there are no nodes            no nodes available to schedule pods   Unschedulable     error back-off
    Reserve or Permit rejected    0/1 nodes are available: 1 ...        Unschedulable     unschedulable pool
    a plugin or the API failed    the error                             SchedulerError    error back-off
    the API refused the pod       the server's text                     SchedulerError    error back-off, 10 s to 5 min
    an exception, repeatedly      the exception                         SchedulerError    error back-off, 10 s to 5 min
    deciding took too long        what of the pod is too much           SchedulerError    error back-off, 10 s to 5 min
    a plugin is held back         from whom, until when, why          SchedulerError    until then, or its end
    a plugin is quarantined       which, since when and why             SchedulerError    the pool, until a reload

If no node fits, PostFilter decides about the nominated node (it may leave an earlier nomination as it is). In all other
cases the nomination is cleared. The pod is looked up first: if it is gone, has a node by now, its name belongs to
another pod, or its profile is gone from the configuration, it is not requeued.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.api.quantity import QuantityError
from kscheduler.framework import events
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.reasons.diagnosis import Diagnosis, FitError, Rejection
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.journal import NO_JOURNAL, Journal
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.lines import OUTCOMES
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.resizes import DeferredResizes
from kscheduler.state.nominator import NominatedPods
from kscheduler.state.queue.equivalence_groups import EquivalenceGroup
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.telemetry.logs import get_logger, verbose

_log = get_logger(__name__)

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed."""

    message: str
    reason: str
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected the pod; none after an error, except those that are quarantined."""
    pending: frozenset[str] = frozenset()
    """The plugins that wait for something outside the cluster."""
    nominated_node_name: str | None = ""
    """The node that preemption has chosen for the pod; empty clears an earlier choice, `None` leaves it."""
    fault: Fault = Fault.PASSING
    """Whose fault an error is; the back-off depends on it."""
    holds_for: Hashable | None = None
    """The class of pods for which the failure holds as well; `None` if it holds for this pod alone."""
    like: str = ""
    """The key of the pod of that class that went through the cycle."""
    extender: str = ""
    """The HTTP extenders behind it, comma-separated. For the log: kube-scheduler's texts name nobody."""
    held_until: float = 0.0
    """Where a plugin was not called for the pod: when it is called again, in wall-clock seconds."""
    rejected: tuple[tuple[str, int], ...] = ()
    """By plugin, in the order in which they ran: how many nodes it rejected."""

    @property
    def is_error(self) -> bool:
        """Whether something failed; a rejection is no error."""
        return self.reason == SCHEDULER_ERROR


def failure_of_record(record: SchedulingRecord) -> Failure:
    """The failure of a cycle that found no node."""
    if record.status.code is Code.ERROR:
        return _failure_of_error(record.status, record.message)
    if not record.num_all_nodes:
        return Failure(record.message, UNSCHEDULABLE)
    return Failure(
        record.message,
        UNSCHEDULABLE,
        record.diagnosis.plugins,
        nominated_node_name=record.nominated_node_name,
        rejected=tuple((each.plugin, len(each.rows)) for each in record.diagnosis.rejections),
    )


def _failure_of_error(status: Status, message: str) -> Failure:
    """The failure of a cycle that ended with an error.

    Trying again does not lift a quarantine: the plugin keeps the pod as if it had rejected it, and as it is in no
    profile any more, it has registered no event that could wake the pod.
    """
    is_held = status.fault is Fault.QUARANTINED
    return Failure(message, SCHEDULER_ERROR, frozenset((status.plugin,) if is_held else ()), fault=status.fault)


def failure_of_status(status: Status) -> Failure:
    """The failure of a step after the cycle: a rejection or an error."""
    if not status.is_rejected:
        return Failure(status.message, SCHEDULER_ERROR, fault=status.fault)
    only_row = np.zeros(1, dtype=np.intp)
    rejection = Rejection(status.plugin, only_row, np.ones(1, dtype=np.int64), lambda _: status)
    message = FitError(1, Diagnosis(names=("",), rejections=[rejection])).message
    by = frozenset((status.plugin,)) - {""}  # without a plugin if the pod was removed while it waited
    pending = by if status.code is Code.PENDING else frozenset[str]()
    return Failure(message, UNSCHEDULABLE, by - pending, pending)


def failure_of_bug(exception: BaseException) -> Failure:
    """The failure of an attempt that ended with an exception."""
    return Failure(f"{type(exception).__name__}: {exception}", SCHEDULER_ERROR, fault=Fault.BUG)


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
        log: PodLog,
        is_served: Callable[[Pod], bool],
        resizes: DeferredResizes,
        journal: Journal = NO_JOURNAL,
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
        self.log = log
        self._is_served = is_served
        self._resizes = resizes
        self._journal = journal

    def handle(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Requeue the newest version of the pod and report why; drop it if it must not be scheduled any more."""
        current = self._pod_of(queued.key)
        if current is None or not _still_wants_a_node(current, queued.pod.uid) or not self._is_served(current):
            self._journal.let_go(queued)
            self._queue.done(queued.pod.uid)
            self.log.let_go(queued, failure, current)
            return
        if failure.fault is Fault.HELD_BACK:
            failure = replace(failure, held_until=now + self._seconds_held(queued.pod))
        self._journal.failed(queued, failure)
        is_news = failure.message != queued.last_error
        if self._queue.find(queued.key) is None:  # else an earlier call that raised half-way has requeued it
            self._renew(queued, current)
            _note_failure(queued, failure)
        self.log.recent.note_failed(queued, failure, now)
        freed_node = self._nominate(queued.pod, failure.nominated_node_name)
        equivalence_group = self._queue.requeue(queued, now, holds_for=failure.holds_for)
        if freed_node:
            self._wake_for_room(queued.pod, freed_node, now)
        condition = _condition(failure)
        self._sink.report(current, condition, failure.message, failure.nominated_node_name)
        if equivalence_group is not None:
            self._report_others(equivalence_group, condition, queued, failure)
        self._log_failure(queued, failure, now, is_news=is_news)

    def handle_resize(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Requeue a running pod whose resize waits for room. Nothing is written: the pod runs."""
        current = self._pod_of(queued.key)
        is_same = current is not None and current.metadata.uid == queued.pod.uid
        if current is None or not is_same or not self._resizes.concerns(current) or not self._is_served(current):
            self._journal.let_go(queued)
            self._queue.done(queued.pod.uid)
            self.log.let_go(queued, failure, current)
            return
        self._journal.failed(queued, failure)
        is_news = failure.message != queued.last_error
        if self._queue.find(queued.key) is None:
            self._renew(queued, current)
            _note_failure(queued, failure)
        self.log.recent.note_failed(queued, failure, now)
        self._queue.requeue(queued, now)
        self._log_failure(queued, failure, now, is_news=is_news)

    def _log_failure(self, queued: QueuedPodInfo, failure: Failure, now: float, *, is_news: bool) -> None:
        """Log the failure, with the queue where the pod waits now."""
        if not (failure.is_error or verbose(OUTCOMES)):
            return
        found = self._queue.find(queued.key)
        if failure.like not in ("", queued.key):
            self.log.with_class(queued, failure, found, now)
        else:
            self.log.not_scheduled(queued, failure, found, now, is_news=is_news)

    def withdraw(self, uid: str) -> None:
        """The pod is about to be bound: a late patch of an earlier failure must not overwrite that."""
        self._sink.withdraw(uid)

    async def settled(self, uid: str) -> None:
        """Wait for a patch that has been sent already."""
        await self._sink.settled(uid)

    def _report_others(
        self, equivalence_group: EquivalenceGroup, condition: Condition, queued: QueuedPodInfo, failure: Failure
    ) -> None:
        """Report the condition for the other parked pods of the class too, unless that was done before."""
        if len(equivalence_group) > 1 and equivalence_group.reported != condition:
            self._sink.report_class(equivalence_group.key, equivalence_group.keys(), condition)
            self.log.class_rejected(equivalence_group.key, equivalence_group.keys(), failure, queued.key)
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
    if failure.fault is not Fault.HELD_BACK:  # of the pod it says nothing: what was slow or failed has not answered
        queued.bugs = queued.bugs + 1 if failure.fault is Fault.BUG else 0
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
