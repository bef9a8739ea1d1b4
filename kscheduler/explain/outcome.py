"""The outcome in one word, from a closed list that programs can rely on."""

from enum import Enum

from kscheduler.explain.situation import PodState, Situation
from kscheduler.scenario.decide import Decision


class Outcome(Enum):
    """The values of `outcome`."""

    PLACED = "Placed"
    """It fits, and has got a node."""
    PREEMPTING = "Preempting"
    """It fits nowhere, and pods of lower priority would be evicted for it."""
    UNSCHEDULABLE = "Unschedulable"
    """It fits nowhere, and preemption does not help."""
    GATED = "Gated"
    """A PreEnqueue plugin (scheduling gates) keeps it out of the queue."""
    """It needs a rule that this version does not have."""
    BOUND = "Bound"
    """It has a node already; the cycle's result is hypothetical."""
    TERMINATING = "Terminating"
    """It is being deleted: no scheduler handles it any more."""
    FINISHED = "Finished"
    """It has run to its end: no scheduler handles it any more."""
    NOT_SERVED = "NotServed"
    """Its spec.schedulerName is not a profile here; the cycle's result is hypothetical."""
    ERROR = "Error"
    """It could not be judged."""


_OF_POD_STATE = {
    PodState.BOUND: Outcome.BOUND,
    PodState.TERMINATING: Outcome.TERMINATING,
    PodState.FINISHED: Outcome.FINISHED,
    PodState.NOT_SERVED: Outcome.NOT_SERVED,
}


def outcome_of(decision: Decision, situation: Situation) -> Outcome:
    """The outcome by the pod's situation, otherwise by the cycle."""
    return _OF_POD_STATE.get(situation.pod_state) or cycle_outcome(decision) or Outcome.ERROR


def cycle_outcome(decision: Decision) -> Outcome | None:
    """The outcome by the cycle only; `None` if there was no cycle."""
    record = decision.record
    # Each test presumes that the ones above it failed: a pod that was gated or could not be judged has no cycle.
    if decision.error:
        return Outcome.ERROR
    if decision.pre_enqueue is not None:
        return Outcome.GATED
    if record is None:
        return None
    if record.node_name:
        return Outcome.PLACED
    makes_room = record.post_filter is not None and record.post_filter.is_success and record.nominated_node_name
    return Outcome.PREEMPTING if makes_room else Outcome.UNSCHEDULABLE
