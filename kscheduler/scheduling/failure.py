"""Why an attempt failed, as one value: made of a cycle's record, of the status of a later step, or of an exception."""

from collections.abc import Hashable
from typing import Final

import msgspec
import numpy as np

from kscheduler.framework.reasons.diagnosis import Diagnosis, FitError, Rejection
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.scheduling.record import SchedulingRecord

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class Failure(msgspec.Struct, frozen=True):
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
    """Whose fault an error is; the backoff depends on it."""
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
