"""Events of attempts as observers hear them, with everything that does not matter left out."""

from typing import Final

from kscheduler.framework.cluster.preemption import Preemption
from kscheduler.scheduling.attempt_events import BindingInDoubt, PodBound, PreemptionBegun
from kscheduler.scheduling.record import SchedulingRecord
from tests.builders import make_pod, pod_info, queued_pod

# The API server has refused a Binding.
CONFLICT: Final = BindingInDoubt(make_pod(), "node", "409")


def pod_bound(attempts: int = 1, *, sli_seconds: float = 0.02, was_flushed: bool = False) -> PodBound:
    """A pod of the profile `default-scheduler` was bound, so long after it came."""
    queued = queued_pod()
    queued.attempts, queued.was_flushed = attempts, was_flushed
    queued.initial_attempt_timestamp = 10_000.0
    record = SchedulingRecord(queued.pod, "default-scheduler")
    return PodBound(queued, record, "default-scheduler", 0.003, 10_000.0 + sli_seconds)


def preemption_begun(victims: int, *, to_go: int) -> PreemptionBegun:
    """A pod preempts so many others, some of whom terminate already."""
    chosen = tuple(pod_info(f"victim-{number}") for number in range(victims))
    return PreemptionBegun(Preemption(pod_info("big"), "node", chosen, "DefaultPreemption"), to_go, 0.0)
