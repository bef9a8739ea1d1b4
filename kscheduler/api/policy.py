"""PodDisruptionBudgets: how many pods of an application may be taken away by will."""

from typing import Any

import msgspec

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import KubeObject, Value


class PodDisruptionBudgetSpec(Value, frozen=True):
    """Which pods the budget is for."""

    selector: LabelSelector | None = None
    """None and an empty one select nothing, as preemption sees it."""


class PodDisruptionBudgetStatus(Value, frozen=True):
    """What the disruption controller worked out."""

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] = {}
    """Pods whose eviction is under way already, by name."""


class PodDisruptionBudget(KubeObject):
    """A budget."""

    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
