"""PodDisruptionBudgets: how many pods of an application may be evicted voluntarily."""

from typing import Any

import msgspec

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import KubeObject, Value


class PodDisruptionBudgetSpec(Value, frozen=True):
    """The pods that a budget protects."""

    selector: LabelSelector | None = None
    """For preemption, `None` and an empty selector select nothing."""


class PodDisruptionBudgetStatus(Value, frozen=True):
    """The result of the disruption controller."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}
    """Pods whose eviction has begun, by name."""


class PodDisruptionBudget(KubeObject):
    """A budget."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
