"""Which pods a pod without constraints of its own should be spread from: its services' and its controller's.

Upstream's helper DefaultSelector: the labels that all matching services ask for, and besides them the selector of the
ReplicationController, ReplicaSet or StatefulSet that owns the pod. A pod that nothing selects is not spread.
"""

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import OwnerReference
from kscheduler.api.selectors import EVERYTHING, Selector, parse_label_selector
from kscheduler.framework.listers import WorkloadListers
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.spread_constraint import merged


def default_selector(pod: PodInfo, workloads: WorkloadListers) -> Selector:
    """The deduced selector; an empty one where nothing selects the pod."""
    labels: dict[str, str] = {}
    if pod.labels:
        for service in workloads.services_selecting(pod.namespace, pod.labels):
            labels.update(service.spec.selector)
    owner = _controller(pod)
    if owner is None:
        return _of_labels(labels)
    match owner.api_version, owner.kind:
        case "v1", "ReplicationController":
            controller = workloads.replication_controller(pod.namespace, owner.name)
            return _of_labels({**labels, **(controller.spec.selector if controller is not None else {})})
        case "apps/v1", "ReplicaSet":
            replica_set = workloads.replica_set(pod.namespace, owner.name)
            return _with(labels, replica_set.spec.selector if replica_set is not None else None)
        case "apps/v1", "StatefulSet":
            stateful_set = workloads.stateful_set(pod.namespace, owner.name)
            return _with(labels, stateful_set.spec.selector if stateful_set is not None else None)
    return _of_labels(labels)


def _controller(pod: PodInfo) -> OwnerReference | None:
    return next((owner for owner in pod.pod.metadata.owner_references if owner.controller), None)


def _of_labels(labels: dict[str, str]) -> Selector:
    return parse_label_selector(LabelSelector(labels)) if labels else EVERYTHING


def _with(labels: dict[str, str], selector: LabelSelector | None) -> Selector:
    """Both together; a selector that is missing or cannot be parsed adds nothing."""
    return merged(_of_labels(labels), parse_label_selector(selector).requirements)
