"""An attempt failed: condition, Event, and back into the queue.

    what happened                 event and condition text              reason            back into
    no node fits                  0/N nodes are available: ...          Unschedulable     unschedulable pool
    there are no nodes            no nodes available to schedule pods   Unschedulable     error back-off
    Reserve or Permit said no     0/1 nodes are available: 1 ...        Unschedulable     unschedulable pool
    a plugin or the API failed    the error                             SchedulerError    error back-off
    the API refused the pod       the server's words                    SchedulerError    error back-off, 10 s to 5 min
    an exception, again and again the exception                         SchedulerError    error back-off, 10 s to 5 min

The nominated node is what PostFilter said where no node fits (it may say nothing: an earlier nomination stays), and is
cleared by everything else. The pod is looked up again first: one that is gone, has a node by now or was made again
under its name is let go.
"""

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
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
from kscheduler.logs import get_logger, verbose
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.scheduling.pod_log.lines import OUTCOMES
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.nominations.nominator import NominatedPods
from kscheduler.state.queue.bundles import Bundle
from kscheduler.state.queue.scheduling_queue import SchedulingQueue

_log = get_logger(__name__)

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt came to nothing."""

    message: str
    reason: str
    plugins: frozenset[str] = frozenset()
    """Who turned the pod down; none after an error."""
    pending: frozenset[str] = frozenset()
    """Those that wait for something outside the cluster."""
    nominated_node_name: str | None = ""
    """The node that preemption has chosen for the pod; empty clears an earlier choice, `None` leaves it."""
    fault: Fault = Fault.PASSING
    """Of an error: how long the pod is kept away depends on it."""
    holds_for: Hashable | None = None
    """The class of pods that it is true of for now, beside the pod itself; `None` for the pod alone."""
    like: str = ""
    """The key of the pod that was judged for that class."""

    @property
    def is_error(self) -> bool:
        """Whether something failed, where a rejection is an answer."""
        return self.reason == SCHEDULER_ERROR


def failure_of_record(record: SchedulingRecord) -> Failure:
    """The cycle found no node."""
    if record.status.code is Code.ERROR:
        return Failure(record.message, SCHEDULER_ERROR, fault=record.status.fault)
    if not record.num_all_nodes:
        return Failure(record.message, UNSCHEDULABLE)
    return Failure(
        record.message, UNSCHEDULABLE, record.diagnosis.plugins, nominated_node_name=record.nominated_node_name
    )


def failure_of_status(status: Status) -> Failure:
    """Something after the choice of the node said no, or failed."""
    if not status.is_rejected:
        return Failure(status.message, SCHEDULER_ERROR, fault=status.fault)
    only_row = np.zeros(1, dtype=np.intp)
    rejection = Rejection(status.plugin, only_row, np.ones(1, dtype=np.int64), lambda _: status)
    message = FitError(1, Diagnosis(names=("",), rejections=[rejection])).message
    by = frozenset((status.plugin,)) - {""}  # nobody in particular: the pod was removed while it waited
    pending = by if status.code is Code.PENDING else frozenset[str]()
    return Failure(message, UNSCHEDULABLE, by - pending, pending)


def failure_of_bug(exception: BaseException) -> Failure:
    """An exception ended the attempt."""
    return Failure(f"{type(exception).__name__}: {exception}", SCHEDULER_ERROR, fault=Fault.BUG)


class FailureSink(Protocol):
    """Where the outside is told of a failure: `status_writer.StatusWriter`."""

    def report(self, pod: Pod, condition: Condition, note: str, nominated_node_name: str | None = None) -> None:
        """Record the Event, and patch what changed of the condition and the nominated node (`None` leaves it)."""
        ...

    def report_class(self, name: Hashable, members: Collection[str], condition: Condition) -> None:
        """Parked pods share one new judgement: each is patched in its turn, at a bounded rate, without an Event.

        `name` is the class; a newer judgement of it replaces one that is not told yet. `members` holds the keys
        (`namespace/name`) of its parked pods and stays live (a dict by key will do): it is copied when the class's turn
        comes, and asked again before each patch, so a pod that has left it is not spoken of. Whoever judges one member
        anew takes it out or reports the class again. O(1) now; pods that show the condition cost no request.
        """
        ...

    def withdraw(self, uid: str) -> None:
        """Leave unsaid what was not sent yet about this pod."""
        ...

    async def settled(self, uid: str) -> None:
        """Wait until no request about this pod is under way: what is written next cannot be overtaken."""
        ...


class FailureHandler:
    """Requeues and reports."""

    def __init__(
        self,
        queue: SchedulingQueue,
        nominator: NominatedPods,
        pod_of: Callable[[str], Pod | None],
        sink: FailureSink,
        log: PodLog,
    ) -> None:
        """`pod_of`: the newest version of a pod by its key."""
        self._queue = queue
        self._nominator = nominator
        self._pod_of = pod_of
        self._sink = sink
        self.log = log

    def handle(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Put the pod back (its newest version) and tell why; let it go if it is not ours to schedule any more."""
        current = self._pod_of(queued.key)
        if current is None or not _still_wants_a_node(current, queued.pod.uid):
            self._queue.done(queued.pod.uid)
            self.log.let_go(queued, failure, current)
            return
        is_news = failure.message != queued.last_error
        if self._queue.find(queued.key) is None:  # else a handling that failed half-way has put it back: leave it so
            self._renew(queued, current)
            _take_down(queued, failure)
        left = self._nominate(queued.pod, failure.nominated_node_name)
        bundle = self._queue.requeue(queued, now, holds_for=failure.holds_for)
        if left:
            self._tell_of_room(queued.pod, left, now)
        condition = _condition(failure)
        self._sink.report(current, condition, failure.message, failure.nominated_node_name)
        if bundle is not None:
            self._report_others(bundle, condition, queued, failure)
        self._tell(queued, failure, now, is_news=is_news)

    def _tell(self, queued: QueuedPodInfo, failure: Failure, now: float, *, is_news: bool) -> None:
        """Write it to the log, with where the pod waits now."""
        if not (failure.is_error or verbose(OUTCOMES)):
            return
        found = self._queue.find(queued.key)
        if failure.like not in ("", queued.key):
            self.log.with_class(queued, failure, found, now)
        else:
            self.log.not_scheduled(queued, failure, found, now, is_news=is_news)

    def withdraw(self, uid: str) -> None:
        """The pod is about to be bound: a late word of an earlier failure must not overwrite that."""
        self._sink.withdraw(uid)

    async def settled(self, uid: str) -> None:
        """Wait for the one that was sent already."""
        await self._sink.settled(uid)

    def _report_others(self, bundle: Bundle, condition: Condition, queued: QueuedPodInfo, failure: Failure) -> None:
        """What the pod was turned down for, the others of its class are too; unless they were told so already."""
        if len(bundle) > 1 and bundle.reported != condition:
            self._sink.report_class(bundle.key, bundle.keys(), condition)
            self.log.class_turned_down(bundle.key, bundle.keys(), failure, queued.key)
        bundle.reported = condition

    def _renew(self, queued: QueuedPodInfo, current: Pod) -> None:
        tried = queued.pod.pod
        if current is not tried:
            queued.pod = PodInfo(current)
            queued.forgive(tried, current)

    def _nominate(self, pod: PodInfo, node_name: str | None) -> str:
        """At once: the next decision comes before the watch tells. `None`: what is known of it stays.

        The node that it is expected on no longer, if its status never named that one: the watch will not tell.
        """
        expected = self._nominator.nominated_node(pod)
        try:
            if node_name is None:
                self._nominator.update(pod.pod, pod)
            else:
                self._nominator.nominate(pod, node_name)
        except QuantityError as problem:  # its newest version cannot be read, so nobody can leave room for it
            _log.warning("nomination_not_kept", pod=pod.key, node=node_name, err=str(problem))
        is_left = expected not in (self._nominator.nominated_node(pod), pod.pod.status.nominated_node_name)
        return expected if is_left else ""

    def _tell_of_room(self, pod: PodInfo, node_name: str, now: float) -> None:
        """To pods of lower or equal priority it was as if the pod had been there, and now it is not."""
        gone = placed(pod.pod, node_name)
        self._queue.move_all(events.ASSIGNED_POD_DELETE, gone, None, now, pod.uid, lambda p: p.priority <= pod.priority)


def _take_down(queued: QueuedPodInfo, failure: Failure) -> None:
    """How this attempt ended, for the queue to place the pod by."""
    queued.unschedulable_plugins = failure.plugins
    queued.pending_plugins = failure.pending
    queued.refusals = queued.refusals + 1 if failure.fault is Fault.REFUSED else 0
    queued.bugs = queued.bugs + 1 if failure.fault is Fault.BUG else 0
    queued.last_error = failure.message if failure.is_error else ""


def failed_condition(message: str) -> Condition:
    """What a pod shows that something failed for, rather than turned it down."""
    return Condition(type="PodScheduled", status="False", reason=SCHEDULER_ERROR, message=message)


def _condition(failure: Failure) -> Condition:
    return Condition(type="PodScheduled", status="False", reason=failure.reason, message=failure.message)


def _still_wants_a_node(pod: Pod, uid: str) -> bool:
    """Whether it is the same pod, nobody has placed it, and it has not ended meanwhile."""
    return pod.metadata.uid == uid and not pod.spec.node_name and not pod.is_terminal
