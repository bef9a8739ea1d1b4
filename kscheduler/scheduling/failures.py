"""An attempt failed: condition, Event, and back into the queue (reference 3.7).

    what happened                 event and condition text              reason            back into
    no node fits                  0/N nodes are available: ...          Unschedulable     unschedulable pool
    there are no nodes            no nodes available to schedule pods   Unschedulable     error back-off
    Reserve or Permit said no     0/1 nodes are available: 1 ...        Unschedulable     unschedulable pool
    a plugin or the API failed    the error                             SchedulerError    error back-off

The pod is looked up again first: one that is gone, has a node by now or was made again under its name is let go.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.framework.diagnosis import Diagnosis, FitError, Rejection
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.queue import SchedulingQueue

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


def failure_of_record(record: SchedulingRecord) -> Failure:
    """The cycle found no node."""
    if record.status.code is Code.ERROR:
        return Failure(record.message, SCHEDULER_ERROR)
    return Failure(record.message, UNSCHEDULABLE, record.diagnosis.plugins)


def failure_of_status(status: Status) -> Failure:
    """Something after the choice of the node said no, or failed."""
    if not status.is_rejected:
        return Failure(status.message, SCHEDULER_ERROR)
    only_row = np.zeros(1, dtype=np.intp)
    rejection = Rejection(status.plugin, only_row, np.ones(1, dtype=np.int64), lambda _: status)
    message = FitError(1, Diagnosis(names=("",), rejections=[rejection])).message
    by = frozenset((status.plugin,)) - {""}  # nobody in particular: the pod was removed while it waited
    pending = by if status.code is Code.PENDING else frozenset[str]()
    return Failure(message, UNSCHEDULABLE, by - pending, pending)


class FailureSink(Protocol):
    """Where the outside is told of a failure: `status_writer.StatusWriter`."""

    def report(self, pod: Pod, condition: Condition, note: str) -> None:
        """Patch the condition if it changed, and record the Event."""
        ...

    def withdraw(self, uid: str) -> None:
        """Leave unsaid what was not sent yet about this pod."""
        ...


class FailureHandler:
    """Requeues and reports."""

    def __init__(self, queue: SchedulingQueue, pod_of: Callable[[str], Pod | None], sink: FailureSink) -> None:
        self._queue = queue
        self._pod_of = pod_of
        self._sink = sink

    def handle(self, queued: QueuedPodInfo, failure: Failure, now: float) -> None:
        """Put the pod back (its newest version) and tell why; let it go if it is not ours to schedule any more."""
        current = self._pod_of(queued.key)
        uid = queued.pod.uid
        if current is None or current.metadata.uid != queued.pod.pod.metadata.uid or current.spec.node_name:
            self._queue.done(uid)
            return
        if current is not queued.pod.pod:
            queued.pod = PodInfo(current)
        queued.unschedulable_plugins = failure.plugins
        queued.pending_plugins = failure.pending
        self._queue.requeue(queued, now)
        self._sink.report(current, _condition(failure), failure.message)

    def withdraw(self, uid: str) -> None:
        """The pod is about to be bound: a late word of an earlier failure must not overwrite that."""
        self._sink.withdraw(uid)


def _condition(failure: Failure) -> Condition:
    return Condition(type="PodScheduled", status="False", reason=failure.reason, message=failure.message)
