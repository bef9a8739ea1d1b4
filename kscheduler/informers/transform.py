"""Makes objects smaller before they are stored: unused fields are dropped, equal parts are shared.

Typed decoding has dropped most unused fields (environment, managedFields). Dropped here are kubectl's copy of the
manifest, annotations of kilobytes that no scheduler reads, and volumes that do not constrain placement: every pod has
such a volume for its service account's token, with a unique name, so that no two specs of a Deployment would be equal.
Of a pod's conditions only those that the scheduler writes keep their times: a running pod has three or four more, whose
times would be a quarter of what is stored of it.

The rest is mostly the same for many pods and nodes: names of images, requests, tolerations, owners. A decoder creates a
copy for every object. Recently seen equal values are shared (see `shared`), which saves half of a pod's memory and two
thirds of a node's. Comparing specs gets cheaper too, since a shared value is identical.

Most events show a newer version of an object that is stored already, and little of it is new: a kubelet's report leaves
the spec as it was. So a newer version shares with the stored one what both have in common (`renewal`), mostly its spec
as a whole: to compare it costs a third of looking for its parts, and whoever compares both versions later sees at once
that they have one and the same.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import force_setattr, replace

from kscheduler.api.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerStatus,
    Node,
    NodeSelector,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    ResourceList,
    Toleration,
    TopologySpreadConstraint,
)
from kscheduler.api.devices import (
    Device,
    DeviceAllocationConfiguration,
    DeviceAttribute,
    DeviceCapacity,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceSlice,
)
from kscheduler.api.meta import Condition, KubeObject, ObjectMeta, OwnerReference
from kscheduler.api.names import honor
from kscheduler.api.well_known import LAST_APPLIED
from kscheduler.informers.shared import Shared, SharedText

# Changes a freshly decoded object in place, before anything else sees it. Idempotent.
Transform = Callable[[Any], None]
# The same for a newer version of a stored object, which comes first: what both have in common is shared.
Renewal = Callable[[Any, Any], None]

# Interns names and labels of all kinds: returns the shared equal string, kept while an object uses it.
_same_text: Final = SharedText().of

# The same for times: what is made by one rollout or Job is made in the same few seconds.
_same_time: Final = SharedText(8192).of

# Labels of an object. An object with more of them keeps its own, and they would push out those of all others.
_MAX_INTERNED: Final = 512

# Longer annotation values (in characters) are dropped.
LARGEST_ANNOTATION = 4096


# Conditions of pods that the scheduler writes and reads the times of.
_TIMED_CONDITIONS: Final = frozenset(("PodScheduled", "DisruptionTarget"))

# Other conditions of pods that are remembered; all are forgotten at once, which costs memory only.
_MAX_UNTIMED: Final = 4096

# Characters of the longest message of a condition that is remembered.
_LONGEST_MESSAGE: Final = 256

# In place of each pod's own empty one. Nobody changes decoded objects.
_NONE: Final[dict[str, Any]] = {}

# The most labels and owners to share: as many as a large cluster has Deployments. In a cluster of Jobs, where nearly
# all are unique, they take 20 MiB at most.
_MAX_LABELS_AND_OWNERS: Final = 32_768


# The most devices of slices to share as a whole. Where each tells its serial number no two are alike.
_MAX_SHARED_DEVICES: Final = 2_048

_NO_STATUS: Final = PodStatus()


def trim(obj: KubeObject) -> None:
    """Drop kubectl's last-applied annotation and intern labels: for kinds without a transform of their own."""
    metadata = obj.metadata
    if metadata.annotations:
        metadata.annotations.pop(LAST_APPLIED, None)
    if metadata.labels:
        metadata.labels = _interned(metadata.labels)


class PodTransform:
    """For pods, which are many: label dicts, owners, containers and so on are shared as wholes."""

    def __init__(self) -> None:
        self._labels: Shared[dict[str, str]] = Shared(_MAX_LABELS_AND_OWNERS, _interned)
        self._owners: Shared[tuple[OwnerReference, ...]] = Shared(_MAX_LABELS_AND_OWNERS)
        self._containers: Shared[tuple[Container, ...]] = Shared()
        self._selectors: Shared[dict[str, str]] = Shared()
        self._amounts: Shared[ResourceList] = Shared()
        self._tolerations: Shared[tuple[Toleration, ...]] = Shared()
        self._affinity: Shared[Affinity] = Shared()
        self._spread: Shared[tuple[TopologySpreadConstraint, ...]] = Shared()
        self._statuses: Shared[tuple[ContainerStatus, ...]] = Shared()
        self._conditions = _UntimedConditions()
        self._last = Pod()
        """The last pod. The next one is mostly of the same workload: to compare costs less than to look up."""

    def __call__(self, pod: Pod) -> None:
        """Before it is stored."""
        metadata, last = pod.metadata, self._last
        known = last.metadata
        metadata.namespace = (
            known.namespace if metadata.namespace == known.namespace else _same_text(metadata.namespace)
        )
        self._share_metadata(pod, known)
        spec = pod.spec
        if spec.volumes or spec.security_context is not None:
            _trim(spec)
        pod.spec = self._shared_spec(spec, last.spec)
        pod.status = self._shared_status(pod.status, _NO_STATUS)
        self._last = pod

    def renew(self, old: Pod, pod: Pod) -> None:
        """Before it is stored in place of `old`, which has the same UID."""
        metadata, before = pod.metadata, old.metadata
        metadata.namespace = before.namespace
        self._share_metadata(pod, before)
        spec, known = pod.spec, old.spec
        if spec.volumes or spec.security_context is not None:
            _trim(spec)
        if spec.node_name and not known.node_name:  # it is bound, which is all that a Binding changes
            known = replace(known, node_name=_same_text(spec.node_name))
        pod.spec = known if spec == known else self._shared_spec(spec, known)
        pod.status = self._shared_status(pod.status, old.status)

    def _share_metadata(self, pod: Pod, known: ObjectMeta) -> None:
        metadata = pod.metadata
        labels, owners, created = metadata.labels, metadata.owner_references, metadata.creation_timestamp
        if labels:
            metadata.labels = known.labels if labels == known.labels else self._labels.of(labels)
        if metadata.annotations:
            _drop_large_annotations(pod)
        else:
            metadata.annotations = _NONE
        if owners:
            is_same = owners == known.owner_references
            metadata.owner_references = known.owner_references if is_same else self._owners.of(owners)
        if created:
            is_same = created == known.creation_timestamp
            metadata.creation_timestamp = known.creation_timestamp if is_same else _same_time(created)

    def _shared_spec(self, spec: PodSpec, last: PodSpec) -> PodSpec:
        # A new struct takes one call, where each field that is set takes one of its own.
        policy, tolerations = spec.preemption_policy, spec.tolerations
        is_same_scheduler = spec.scheduler_name == last.scheduler_name
        return replace(
            spec,
            node_name=_same_text(spec.node_name) if spec.node_name else "",
            scheduler_name=last.scheduler_name if is_same_scheduler else _same_text(spec.scheduler_name),
            preemption_policy=last.preemption_policy
            if policy == last.preemption_policy
            else policy and _same_text(policy),
            containers=last.containers if spec.containers == last.containers else self._containers.of(spec.containers),
            init_containers=self._containers.of(spec.init_containers) if spec.init_containers else (),
            overhead=self._amounts.of(spec.overhead) if spec.overhead else _NONE,
            node_selector=self._selectors.of(spec.node_selector) if spec.node_selector else _NONE,
            tolerations=last.tolerations if tolerations == last.tolerations else self._tolerations.of(tolerations),
            affinity=None if spec.affinity is None else self._affinity.of(spec.affinity),
            topology_spread_constraints=self._spread.of(spec.topology_spread_constraints)
            if spec.topology_spread_constraints
            else (),
        )

    def _shared_status(self, status: PodStatus, known: PodStatus) -> PodStatus:
        conditions, statuses, started = status.conditions, status.container_statuses, status.start_time
        if conditions:
            conditions = known.conditions if conditions == known.conditions else self._conditions.shared(conditions)
        if statuses:
            is_same = statuses == known.container_statuses
            statuses = known.container_statuses if is_same else self._statuses.of(statuses)
        if started:
            started = known.start_time if started == known.start_time else _same_time(started)
        return replace(
            status,
            phase=known.phase if status.phase == known.phase else _same_text(status.phase),
            conditions=conditions,
            start_time=started,
            container_statuses=statuses,
            allocated_resources=self._amounts.of(status.allocated_resources) if status.allocated_resources else _NONE,
        )


def _trim(spec: PodSpec) -> None:
    """Drop what constrains no placement."""
    if spec.volumes:
        force_setattr(spec, "volumes", tuple([volume for volume in spec.volumes if volume.constrains]))
    if spec.security_context is not None and spec.security_context.seccomp_profile is None:
        force_setattr(spec, "security_context", None)


class _UntimedConditions(dict[tuple[str, str, str, str], Condition]):
    """Conditions of pods without their times, by what is left of them."""

    def shared(self, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
        """The conditions as they are stored."""
        stored = []
        for each in conditions:
            kind, status, reason = each.type, each.status, each.reason
            if kind not in _TIMED_CONDITIONS:
                stored.append(self[kind, status, reason, each.message])
                continue
            since = each.last_transition_time
            stored.append(
                replace(
                    each,
                    type=_same_text(kind),
                    status=_same_text(status),
                    reason=reason and _same_text(reason),
                    last_transition_time=since and _same_time(since),
                )
            )
        return tuple(stored)

    def __missing__(self, key: tuple[str, str, str, str]) -> Condition:
        kind, status, reason, message = key
        condition = Condition(_same_text(kind), _same_text(status), _same_text(reason), message)
        if len(message) <= _LONGEST_MESSAGE:
            if len(self) >= _MAX_UNTIMED:
                self.clear()
            self[key] = condition
        return condition


class NodeTransform:
    """As `trim`, and shares what nodes have in common: mostly images and amounts of resources."""

    def __init__(self) -> None:
        self._images: Shared[ContainerImage] = Shared()
        self._amounts: Shared[ResourceList] = Shared()

    def __call__(self, node: Node) -> None:
        """Before it is stored."""
        trim(node)
        metadata = node.metadata
        metadata.name = _same_text(metadata.name)
        metadata.annotations = {_same_text(key): value for key, value in metadata.annotations.items()}
        self._share_status(node.status)

    def renew(self, old: Node, node: Node) -> None:
        """Before it is stored in place of `old`. A heartbeat has new times, and nothing else."""
        metadata, status, known = node.metadata, node.status, old.status
        metadata.name = old.metadata.name
        if metadata.annotations:
            metadata.annotations.pop(LAST_APPLIED, None)
            metadata.annotations = {_same_text(key): value for key, value in metadata.annotations.items()}
        is_same = metadata.labels == old.metadata.labels
        metadata.labels = old.metadata.labels if is_same else _interned(metadata.labels)
        if (
            status.images == known.images
            and status.capacity == known.capacity
            and status.allocatable == known.allocatable
        ):
            force_setattr(status, "images", known.images)
            force_setattr(status, "capacity", known.capacity)
            force_setattr(status, "allocatable", known.allocatable)
            _share_texts(status.conditions)
        else:
            self._share_status(status)

    def _share_status(self, status: NodeStatus) -> None:
        if status.images:
            force_setattr(status, "images", tuple([self._images.of(image) for image in status.images]))
        force_setattr(status, "capacity", self._amounts.of(status.capacity))
        force_setattr(status, "allocatable", self._amounts.of(status.allocatable))
        _share_texts(status.conditions)


class SliceTransform:
    """As `trim`, and shares what devices have in common: all but their serial numbers and addresses.

    Where they have neither, all devices of a slice are shared as a whole: it costs a third of looking for their parts,
    and what is worked out about a device holds for all that are this object.
    """

    def __init__(self) -> None:
        self._devices: Shared[tuple[Device, ...]] = Shared(_MAX_SHARED_DEVICES)
        self._attributes: Shared[DeviceAttribute] = Shared()
        self._capacities: Shared[DeviceCapacity] = Shared()

    def __call__(self, published: ResourceSlice) -> None:
        """Before it is stored."""
        trim(published)
        spec = published.spec
        force_setattr(spec, "driver", _same_text(spec.driver))
        devices = self._devices.of(spec.devices)
        if devices is not spec.devices:
            force_setattr(spec, "devices", devices)
            return
        for device in devices:  # the first ones of their kind, or more than are shared as a whole
            force_setattr(device, "name", _same_text(device.name))
            attributes, capacities = device.attributes.items(), device.capacity.items()
            shared_attributes = {_same_text(name): self._attributes.of(value) for name, value in attributes}
            force_setattr(device, "attributes", shared_attributes)
            shared_capacities = {_same_text(name): self._capacities.of(value) for name, value in capacities}
            force_setattr(device, "capacity", shared_capacities)


class ClaimTransform:
    """As `trim`, and shares what claims of one template have in common."""

    def __init__(self) -> None:
        self._specs: Shared[ResourceClaimSpec] = Shared()
        self._configs: Shared[tuple[DeviceAllocationConfiguration, ...]] = Shared()
        self._selectors: Shared[NodeSelector] = Shared()

    def __call__(self, claim: ResourceClaim) -> None:
        """Before it is stored."""
        trim(claim)
        metadata, allocation = claim.metadata, claim.status.allocation
        metadata.namespace = _same_text(metadata.namespace)
        claim.spec = self._specs.of(claim.spec)
        if allocation is None:
            return
        devices = allocation.devices
        force_setattr(devices, "config", self._configs.of(devices.config))
        if allocation.node_selector is not None:
            force_setattr(allocation, "node_selector", self._selectors.of(allocation.node_selector))
        for result in devices.results:
            for field in ("request", "driver", "pool", "device"):
                force_setattr(result, field, _same_text(getattr(result, field)))


class AnnotatedPodTransform(PodTransform):
    """As `PodTransform`, for pods that may name their scheduler by the old annotation."""

    def __call__(self, pod: Pod) -> None:
        """Before it is stored."""
        honor(pod)
        super().__call__(pod)

    def renew(self, old: Pod, pod: Pod) -> None:
        """Before it is stored in place of `old`."""
        honor(pod)
        super().renew(old, pod)


_OF_KINDS: Final[Mapping[str, Callable[[], Transform]]] = {
    "pods": PodTransform,
    "nodes": NodeTransform,
    "resourceslices.resource.k8s.io": SliceTransform,
    "resourceclaims.resource.k8s.io": ClaimTransform,
}


def default_transform(resource: str) -> Transform:
    """The transform for a kind (`Kind.resource`)."""
    own = _OF_KINDS.get(resource)
    return trim if own is None else own()


def renewal(transform: Transform) -> Renewal:
    """How newer versions of stored objects are transformed: by its method `renew`, or as any other object."""
    renew: Renewal | None = getattr(transform, "renew", None)

    def transform_newer(_old: Any, new: Any) -> None:
        transform(new)

    return transform_newer if renew is None else renew


def _interned(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > _MAX_INTERNED:
        return labels
    return {_same_text(key): _same_text(value) for key, value in labels.items()}


def _drop_large_annotations(pod: Pod) -> None:
    """Drop kubectl's copy of the manifest, and files that users put into annotations."""
    annotations = pod.metadata.annotations
    annotations.pop(LAST_APPLIED, None)
    if any(len(value) > LARGEST_ANNOTATION for value in annotations.values()):
        kept = {key: value for key, value in annotations.items() if len(value) <= LARGEST_ANNOTATION}
        pod.metadata.annotations = kept


def _share_texts(conditions: Iterable[Condition]) -> None:
    """The conditions of a node: each has a message."""
    for condition in conditions:
        for field in ("type", "status", "reason", "message"):
            force_setattr(condition, field, _same_text(getattr(condition, field)))
        if condition.last_transition_time:
            force_setattr(condition, "last_transition_time", _same_time(condition.last_transition_time))
