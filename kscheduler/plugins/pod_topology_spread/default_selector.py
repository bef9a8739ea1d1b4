"""The selector for a pod without constraints of its own: the pods of its services and of its controller.

As upstream's helper DefaultSelector: the labels that all matching services select, combined with the selector of the
ReplicationController, ReplicaSet or StatefulSet that owns the pod. A pod that nothing selects is not spread.
"""

import operator
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import OwnerReference
from kscheduler.api.selectors import EVERYTHING, Selector, parse_label_selector
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.framework.cluster.workload_listers import WorkloadListers
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import merged

_UNKNOWN_SET: Final = ReplicaSet()
"""Stands for a controller that is not in the cache: its empty selector adds nothing."""

Controller = ReplicationController | ReplicaSet | StatefulSet


@dataclass(frozen=True, slots=True)
class Selecting:
    """The services and the controller that select a pod."""

    services: tuple[Service, ...]
    controller: Controller | None

    def selector(self) -> Selector:
        """The deduced selector; an empty one where nothing selects the pod."""
        labels: dict[str, str] = {}
        for service in self.services:
            labels.update(service.spec.selector)
        if self.controller is None:
            return _of_labels(labels)
        if isinstance(self.controller, ReplicationController):
            return _of_labels({**labels, **self.controller.spec.selector})
        return merged(_of_labels(labels), parse_label_selector(self.controller.spec.selector).requirements)

    def is_made_of(self, other: "Selecting") -> bool:
        """Whether both hold the identical objects."""
        others = other.services
        same = len(self.services) == len(others) and all(map(operator.is_, self.services, others))
        return same and self.controller is other.controller

    def is_current(self, workloads: WorkloadListers) -> bool:
        """Whether the controller still exists unchanged. Entries with services only are few, so they always stay."""
        match self.controller:
            case None:
                return True
            case ReplicationController(metadata=meta):
                return workloads.replication_controller(meta.namespace, meta.name) is self.controller
            case ReplicaSet(metadata=meta):
                return workloads.replica_set(meta.namespace, meta.name) is self.controller
            case StatefulSet(metadata=meta):
                return workloads.stateful_set(meta.namespace, meta.name) is self.controller


def selecting(pod: PodInfo, workloads: WorkloadListers) -> Selecting:
    """The services that select the pod, and the controller that owns it, where it is one that selects pods."""
    services = tuple(workloads.services_selecting(pod.namespace, pod.labels)) if pod.labels else ()
    owner = pod.pod.metadata.controller
    return Selecting(services, None if owner is None else _found(owner, pod.namespace, workloads))


def _found(owner: OwnerReference, namespace: str, workloads: WorkloadListers) -> Controller | None:
    match owner.api_version, owner.kind:
        case "v1", "ReplicationController":
            return workloads.replication_controller(namespace, owner.name)
        case "apps/v1", "ReplicaSet":
            return workloads.replica_set(namespace, owner.name) or _UNKNOWN_SET
        case "apps/v1", "StatefulSet":
            return workloads.stateful_set(namespace, owner.name) or _UNKNOWN_SET
    return None


def _of_labels(labels: dict[str, str]) -> Selector:
    return parse_label_selector(LabelSelector(labels)) if labels else EVERYTHING
