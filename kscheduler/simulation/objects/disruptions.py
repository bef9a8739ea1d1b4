"""Disruption budgets: the number of allowed voluntary disruptions.

The disruption controller writes it into the budget's status. On a server without controllers it is computed from the
pods at each eviction, by the controller's formula: healthy pods minus the healthy pods that the budget demands. The
expected number of pods is then the current number.
"""

from collections.abc import Iterable
from typing import Any

from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.table_cells import condition

_FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


def has_status(budget: Object) -> bool:
    """Whether a controller has written the status of this budget."""
    return any((budget.get("status") or {}).values())


def count_status(budget: Object, pods: Iterable[Object]) -> Object:
    """The status of a budget over the pods that it selects."""
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in _FINISHED_PHASES]
    healthy = sum(_is_healthy(pod) for pod in living)
    desired = _desired_healthy(budget.get("spec") or {}, len(living))
    return {
        "observedGeneration": budget["metadata"].get("generation", 1),
        "expectedPods": len(living),
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": max(healthy - desired, 0),
    }


def _is_healthy(pod: Object) -> bool:
    ready = condition(pod, "Ready")
    return "deletionTimestamp" not in pod["metadata"] and ready is not None and ready.get("status") == "True"


def _desired_healthy(spec: Object, expected: int) -> int:
    if spec.get("maxUnavailable") is not None:
        return max(expected - _scaled(spec["maxUnavailable"], expected), 0)
    return _scaled(spec.get("minAvailable", 1), expected)


def _scaled(amount: Any, expected: int) -> int:
    """A number, or a percentage of the expected pods rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        return -(-int(amount.removesuffix("%")) * expected // 100)
    return int(amount)
