"""The priority of a pod from its PriorityClass, as in the API server's admission.

Used for clusters from files, for new pods of a live cluster, and by the embedded API server.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kscheduler.api.core import Pod

Tree = dict[str, Any]

# The kind.
PRIORITY_CLASS: Final = "PriorityClass"
# Two classes that every cluster has, even if a file does not contain them.
SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


PRIORITY_CLASSES_PATH: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"


def listed_classes(answer: Any) -> dict[str, Tree]:
    """The PriorityClasses of an API server's answer to `PRIORITY_CLASSES_PATH`, by name, as manifests have them."""
    items = answer.get("items") if isinstance(answer, dict) else None
    found: dict[str, Tree] = {}
    for item in items if isinstance(items, list) else ():
        metadata = {"name": item["metadata"]["name"]}
        kept = {field: item[field] for field in ("value", "globalDefault", "preemptionPolicy") if field in item}
        found[metadata["name"]] = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": PRIORITY_CLASS,
            "metadata": metadata,
            **kept,
        }
    return found


def default_priority_class(classes: Iterable[Tree]) -> Tree | None:
    """The class for pods without a class: of those marked as default the one with the smallest value."""
    marked = [priority_class for priority_class in classes if priority_class.get("globalDefault")]
    return min(marked, key=_value, default=None)


def classes_of(pods: Iterable[Pod]) -> dict[str, Tree]:
    """The PriorityClasses that pods have, by name, as far as pods tell."""
    found: dict[str, Tree] = {}
    for pod in pods:
        name, spec = pod.spec.priority_class_name, pod.spec
        if name and name not in found:
            policy = {"preemptionPolicy": spec.preemption_policy} if spec.preemption_policy else {}
            found[name] = {"metadata": {"name": name}, "value": spec.priority or 0, **policy}
    return found


def _value(priority_class: Tree) -> int:
    """The class's value; 0 if it is not a number, which is reported when the pod is decoded."""
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0
