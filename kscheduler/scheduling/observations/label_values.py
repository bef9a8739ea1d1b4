"""Label values that the scheduler's metrics have in common: how attempts end, and whose they are."""

from enum import StrEnum
from typing import Final

SINGLE_POD: Final = "pod"
"""The `type` label of a pod that belongs to no pod group."""
OF_POD: Final = "pod"
OF_GROUP: Final = "podgroup"
"""Who preempts, as metrics name it."""


class AttemptResult(StrEnum):
    """How a scheduling attempt ended: kube-scheduler's `result` label."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"

    __hash__ = str.__hash__  # as fast as a string's: Enum implements its own in Python


class GroupAttemptResult(StrEnum):
    """How an attempt to place a pod group ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING_ON_PREEMPTION = "waiting_on_preemption"
    ERROR = "error"

    __hash__ = str.__hash__
