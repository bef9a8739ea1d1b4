"""The selector for a pod without constraints of its own: the pods of its services and of its controller.

As upstream's helper DefaultSelector: the labels that all matching services select, combined with the selector of the
ReplicationController, ReplicaSet or StatefulSet that owns the pod. A pod that nothing selects is not spread.
"""

import operator
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import LabelSelector
from kscheduler.api.meta import OwnerReference
from kscheduler.api.selectors import EVERYTHING, Selector, parse_label_selector
from kscheduler.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.cluster.lister import WorkloadListers
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, counted_by, merged

# Stands for a controller that is not in the cache: its empty selector adds nothing.
_UNKNOWN_SET: Final = ReplicaSet()

Controller = ReplicationController | ReplicaSet | StatefulSet


class Selecting(msgspec.Struct, frozen=True):
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
        """Whether both hold the identical services, and a controller with the same selector."""
        others = other.services
        same = len(self.services) == len(others) and all(map(operator.is_, self.services, others))
        return same and _select_the_same(self.controller, other.controller)

    def is_current(self, workloads: WorkloadListers) -> bool:
        """Whether the controller still exists with its selector. Entries with services only are few, so they stay."""
        match self.controller:
            case None:
                return True
            case ReplicationController(metadata=meta):
                return _select_the_same(self.controller, workloads.replication_controller(meta.namespace, meta.name))
            case ReplicaSet(metadata=meta):
                return _select_the_same(self.controller, workloads.replica_set(meta.namespace, meta.name))
            case StatefulSet(metadata=meta):
                return _select_the_same(self.controller, workloads.stateful_set(meta.namespace, meta.name))


def selecting(pod: PodInfo, workloads: WorkloadListers) -> Selecting:
    """The services that select the pod, and the controller that owns it, where it is one that selects pods."""
    namespace, labels, owner = pod.namespace, pod.labels, pod.pod.metadata.controller
    services = tuple(workloads.services_selecting(namespace, labels)) if labels else ()
    return Selecting(services, None if owner is None else _found(owner, namespace, workloads))


def _found(owner: OwnerReference, namespace: str, workloads: WorkloadListers) -> Controller | None:
    match owner.api_version, owner.kind:
        case "v1", "ReplicationController":
            return workloads.replication_controller(namespace, owner.name)
        case "apps/v1", "ReplicaSet":
            return workloads.replica_set(namespace, owner.name) or _UNKNOWN_SET
        case "apps/v1", "StatefulSet":
            return workloads.stateful_set(namespace, owner.name) or _UNKNOWN_SET
    return None


def _name(controller: Controller | None) -> str:
    return "" if controller is None else controller.metadata.name


def _select_the_same(controller: Controller | None, other: Controller | None) -> bool:
    """A controller is another object whenever its status changes: with each pod that becomes ready."""
    if controller is other:
        return True
    return controller is not None and type(controller) is type(other) and controller.spec == other.spec


def _of_labels(labels: dict[str, str]) -> Selector:
    return parse_label_selector(LabelSelector(labels)) if labels else EVERYTHING


# A profile's default constraints, with the selector deduced from a pod's services and controller.
#
# The selector depends on those objects alone, so all pods of one StatefulSet get the identical constraint objects as
# long as none of the services and controllers changes. What `layout` caches by constraints is therefore found for all
# of them.

# By `whenUnsatisfiable`.
ByAction = Mapping[str, tuple[SpreadConstraint, ...]]

_NONE: Final[ByAction] = {}
# The most sets of services and controller that are kept, about 3 KB each.
_KEPT: Final = 4096
# Of those with long selectors.
_KEPT_BYTES: Final = 2 * 2**20
# Above this size, entries whose controller is deleted or changed are swept, each time the number has doubled.
_LEAST_SWEPT: Final = 256


def _weight(_: object, entry: tuple[Selecting, ByAction]) -> int:
    found, _ = entry
    return weight_of([service.spec for service in found.services]) + weight_of(
        found.controller.spec if found.controller is not None else None
    )


class DeducedConstraints:
    """The constraints made lately, by the objects that their selector is deduced from."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = defaults
        self._known: RecentlyUsed[Hashable, tuple[Selecting, ByAction]] = RecentlyUsedByWeight(
            _KEPT, _KEPT_BYTES, _weight
        )
        self._sweep_at = _LEAST_SWEPT

    def of(self, pod: PodInfo, workloads: WorkloadListers) -> ByAction:
        """The default constraints of this pod; empty where neither a service nor a controller selects it."""
        found = selecting(pod, workloads)
        if not found.services and found.controller is None:
            return _NONE
        key = pod.namespace, tuple(map(id, found.services)), type(found.controller), _name(found.controller)
        known = self._known.use(key)
        if known is None or not known[0].is_made_of(found):  # a freed object's id may be reused
            known = self._known[key] = found, self._made(found, pod.namespace)
        if len(self._known) > self._sweep_at:
            for stale in [key for key, entry in self._known.items() if not entry[0].is_current(workloads)]:
                del self._known[stale]
            self._sweep_at = max(_LEAST_SWEPT, 2 * len(self._known))
        return known[1]

    def _made(self, found: Selecting, namespace: str) -> ByAction:
        selector = found.selector()
        if selector.is_empty:
            return _NONE
        counted = counted_by(selector, namespace)
        made = [replace(default, selector=selector, counted=counted) for default in self._defaults]
        actions = dict.fromkeys(constraint.action for constraint in made)
        return {action: tuple(each for each in made if each.action == action) for action in actions}
