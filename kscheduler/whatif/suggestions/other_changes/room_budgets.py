"""The disruption budgets of pods that would have to go."""

from collections.abc import Iterable
from typing import Any

from kscheduler.api.selectors import parse_label_selector
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.pods.pod_info import PodInfo


def budgets_of(pods: Iterable[PodInfo], budgets: DisruptionBudgets | None) -> list[dict[str, Any]]:
    """Each budget that protects one of the pods, with the disruptions that it allows and the pods of it that go."""
    found: dict[str, dict[str, Any]] = {}
    for pod in pods if budgets is not None else ():
        for budget in budgets.of_namespace(pod.namespace) if budgets is not None else ():
            selector = parse_label_selector(budget.spec.selector)
            # As in kube-scheduler, a budget without a selector, or of a pod without labels, protects nothing.
            if selector.is_empty or not pod.labels or not selector.matches(pod.labels):
                continue
            entry = {
                "namespace": pod.namespace,
                "name": budget.metadata.name,
                "allowed": budget.status.disruptions_allowed,
                "pods": 0,
            }
            found.setdefault(budget.key, entry)["pods"] += 1
    return [found[key] for key in sorted(found)]
