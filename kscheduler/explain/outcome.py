"""The outcome of a decision in one word."""

from typing import Final

from kscheduler.explain.answer import Outcome
from kscheduler.explain.situation import PodState, Situation
from kscheduler.scenario.decide import Decision

__all__ = ["Outcome", "cycle_outcome", "outcome_of"]

_OF_POD_STATE: Final = {
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
