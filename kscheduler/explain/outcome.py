"""What came of it, in one word: the closed list that programs branch on."""

from enum import Enum

from kscheduler.explain.situation import Situation, Standing
from kscheduler.scheduling.missing_rules import held_status
from kscheduler.whatif.decide import Decision


class Outcome(Enum):
    """The values of `outcome`."""

    PLACED = "Placed"
    """It fits, and this is its node."""
    PREEMPTING = "Preempting"
    """It fits nowhere, and lower pods would be evicted for it."""
    UNSCHEDULABLE = "Unschedulable"
    """It fits nowhere, and preemption does not help."""
    GATED = "Gated"
    """A PreEnqueue plugin (scheduling gates) keeps it out of the queue."""
    HELD = "Held"
    """It needs a rule that this version has not built."""
    BOUND = "Bound"
    """It has a node; what the cycle says is hypothetical."""
    TERMINATING = "Terminating"
    """It is being deleted: nobody schedules it any more."""
    FINISHED = "Finished"
    """It has run to its end: nobody schedules it any more."""
    NOT_SERVED = "NotServed"
    """Its spec.schedulerName is no profile here; what the cycle says is hypothetical."""
    ERROR = "Error"
    """It could not be judged."""


_OF_STANDING = {
    Standing.BOUND: Outcome.BOUND,
    Standing.TERMINATING: Outcome.TERMINATING,
    Standing.FINISHED: Outcome.FINISHED,
    Standing.NOT_SERVED: Outcome.NOT_SERVED,
}


def outcome_of(decision: Decision, situation: Situation) -> Outcome:
    """The pod's situation first, else how the cycle went."""
    return _OF_STANDING.get(situation.standing) or cycle_outcome(decision) or Outcome.ERROR


def cycle_outcome(decision: Decision) -> Outcome | None:
    """How the cycle went, whatever the pod's situation; `None` where there was none."""
    record = decision.record
    if decision.error:
        return Outcome.ERROR
    if decision.pre_enqueue is not None:
        return Outcome.GATED
    if record is None:
        return None
    if record.node_name:
        return Outcome.PLACED
    profile = decision.profile
    if profile is not None and not held_status(record.pod, profile.enabled, profile.extenders).is_success:
        return Outcome.HELD
    makes_room = record.post_filter is not None and record.post_filter.is_success and record.nominated_node_name
    return Outcome.PREEMPTING if makes_room else Outcome.UNSCHEDULABLE
