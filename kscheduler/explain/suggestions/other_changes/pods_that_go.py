"""Pods that would have to go: who they are, what it costs others, and the disruption budgets that protect them.

Two kinds of pods stand for no others, and to delete them does harm whatever it gives: those that are more important
than the pod that waits, and those that nobody makes again.
"""

from collections.abc import Iterable
from typing import Any

from kscheduler.api.selectors import parse_label_selector
from kscheduler.explain.suggestions.suggestion import Harm
from kscheduler.framework.cluster.preemption import DisruptionBudgets
from kscheduler.framework.pods.pod_info import PodInfo


def harm_of(pods: Iterable[PodInfo], own: PodInfo) -> Harm:
    """What it does to others that these pods go in favour of `own`."""
    are_missed = any(pod.priority > own.priority or pod.pod.metadata.controller is None for pod in pods)
    return Harm.OF_OTHERS if are_missed else Harm.NONE


def as_fact(pod: PodInfo) -> dict[str, Any]:
    """`controller`: `replicaset/web`, or empty."""
    owner = pod.pod.metadata.controller
    controller = "" if owner is None else f"{owner.kind.lower()}/{owner.name}"
    return {"namespace": pod.namespace, "name": pod.name, "priority": pod.priority, "controller": controller}


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
