"""What is done to an object before it is stored: luggage is taken off, and what it has in common with others is shared.

Typed decoding has dropped most of the luggage (environment, managedFields). Of the rest go kubectl's copy of the
manifest, annotations of kilobytes that no scheduler reads, and volumes that constrain no placement: every pod has one
for its service account's token, under a name of its own, so that no two pods of a Deployment would have equal specs.

What stays is mostly the same from pod to pod and from node to node: names of images, requests, tolerations, owners. A
decoder makes all of it anew for every object. Equal values that were seen lately become one value (see `shared`), which
takes away half of a pod and two thirds of a node. Comparing two specs gets cheaper too: one value equals itself.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import force_setattr

from kscheduler.api.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerStatus,
    Node,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from kscheduler.api.meta import Condition, KubeObject, OwnerReference
from kscheduler.api.well_known import LAST_APPLIED
from kscheduler.informers.shared import Shared, SharedText

Transform = Callable[[Any], None]
"""Changes a freshly decoded object in place; nobody else has seen it yet. A second time it changes nothing."""

_same_text: Final = SharedText().of
"""For names and labels of all kinds: the string that equals this one, for as long as an object has it."""

LARGEST_ANNOTATION = 4096
"""Characters of an annotation's value that is kept."""


_MOST_OF_THEIR_OWN: Final = 32_768
"""Labels and owners that are shared at most: as many as a large cluster has Deployments. In one of Jobs nearly all are
seen once: 20 MiB at most."""


def trim(obj: KubeObject) -> None:
    """Drop kubectl's last-applied annotation and intern labels: for every kind that has no transform of its own."""
    metadata = obj.metadata
    if metadata.annotations:
        metadata.annotations.pop(LAST_APPLIED, None)
    if metadata.labels:
        metadata.labels = _interned(metadata.labels)


class PodTransform:
    """For pods, of which there are many: whole labels are shared too."""

    def __init__(self) -> None:
        self._labels: Shared[dict[str, str]] = Shared(_MOST_OF_THEIR_OWN, _interned)
        self._owners: Shared[tuple[OwnerReference, ...]] = Shared(_MOST_OF_THEIR_OWN)
        self._containers: Shared[tuple[Container, ...]] = Shared()
        self._tolerations: Shared[tuple[Toleration, ...]] = Shared()
        self._affinity: Shared[Affinity] = Shared()
        self._spread: Shared[tuple[TopologySpreadConstraint, ...]] = Shared()
        self._statuses: Shared[tuple[ContainerStatus, ...]] = Shared()

    def __call__(self, pod: Pod) -> None:
        """Before it is stored."""
        metadata = pod.metadata
        metadata.namespace = _same_text(metadata.namespace)
        if metadata.labels:
            metadata.labels = self._labels.of(metadata.labels)
        if metadata.annotations:
            _drop_large_annotations(pod)
        if metadata.owner_references:
            metadata.owner_references = self._owners.of(metadata.owner_references)
        self._share_spec(pod.spec)
        self._share_status(pod.status)

    def _share_spec(self, spec: PodSpec) -> None:
        force_setattr(spec, "node_name", _same_text(spec.node_name))
        force_setattr(spec, "scheduler_name", _same_text(spec.scheduler_name))
        force_setattr(spec, "containers", self._containers.of(spec.containers))
        if spec.init_containers:
            force_setattr(spec, "init_containers", self._containers.of(spec.init_containers))
        if spec.tolerations:
            force_setattr(spec, "tolerations", self._tolerations.of(spec.tolerations))
        if spec.affinity is not None:
            force_setattr(spec, "affinity", self._affinity.of(spec.affinity))
        if spec.topology_spread_constraints:
            constraints = self._spread.of(spec.topology_spread_constraints)
            force_setattr(spec, "topology_spread_constraints", constraints)
        if spec.volumes:
            force_setattr(spec, "volumes", tuple([one for one in spec.volumes if _constrains(one)]))

    def _share_status(self, status: PodStatus) -> None:
        force_setattr(status, "phase", _same_text(status.phase))
        _intern_conditions(status.conditions)
        if status.container_statuses:
            force_setattr(status, "container_statuses", self._statuses.of(status.container_statuses))


class NodeTransform:
    """As `trim`, and what nodes have in common: images and sizes above all."""

    def __init__(self) -> None:
        self._images: Shared[ContainerImage] = Shared()
        self._amounts: Shared[ResourceList] = Shared()

    def __call__(self, node: Node) -> None:
        """Before it is stored."""
        trim(node)
        metadata, status = node.metadata, node.status
        metadata.name = _same_text(metadata.name)
        if status.images:
            force_setattr(status, "images", tuple([self._images.of(image) for image in status.images]))
        force_setattr(status, "capacity", self._amounts.of(status.capacity))
        force_setattr(status, "allocatable", self._amounts.of(status.allocatable))
        _intern_conditions(status.conditions)


def default_transform(plural: str) -> Transform:
    """The transform for a kind that has none of its own."""
    if plural == "pods":
        return PodTransform()
    return NodeTransform() if plural == "nodes" else trim


def _interned(labels: dict[str, str]) -> dict[str, str]:
    return {_same_text(key): _same_text(value) for key, value in labels.items()}


def _drop_large_annotations(pod: Pod) -> None:
    """Kubectl's copy, and the files that users put into annotations."""
    annotations = pod.metadata.annotations
    annotations.pop(LAST_APPLIED, None)
    if any(len(value) > LARGEST_ANNOTATION for value in annotations.values()):
        kept = {key: value for key, value in annotations.items() if len(value) <= LARGEST_ANNOTATION}
        pod.metadata.annotations = kept


def _intern_conditions(conditions: Iterable[Condition]) -> None:
    for one in conditions:
        force_setattr(one, "type", _same_text(one.type))
        force_setattr(one, "status", _same_text(one.status))
        if one.reason:
            force_setattr(one, "reason", _same_text(one.reason))


def _constrains(volume: Volume) -> bool:
    """Whether it has a source that was decoded at all."""
    return volume != Volume(name=volume.name)
