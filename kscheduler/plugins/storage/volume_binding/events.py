"""The events after which a pod's volumes may become available, or a node may reach them."""

from functools import partial

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from kscheduler.framework.cluster.volumes import claim_names
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.storage.volume_binding.placement import SizeOf


def _queue_if(may_help: bool) -> QueueingHint:
    return QueueingHint.QUEUE if may_help else QueueingHint.SKIP


def _after_class_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A new class, or a change of its allowed topologies; the binding mode never changes."""
    del pod
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return QueueingHint.QUEUE
    return _queue_if(old.allowed_topologies != new.allowed_topologies)


def _after_claim_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """One of the pod's claims."""
    del old
    if not isinstance(new, PersistentVolumeClaim):
        return QueueingHint.QUEUE
    return _queue_if(new.metadata.namespace == pod.namespace and new.metadata.name in claim_names(pod.pod))


def _after_csi_node_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A change of the migrated plugins: in-tree volumes are then reached by other labels."""
    del pod
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    before, after = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (old, new))
    return _queue_if(before != after)


def _after_driver_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A driver that reported capacities no longer does: its capacity counts as unlimited.

    Upstream looks for the driver among the pod's inline volumes, whose capacity is never checked.
    """
    del pod
    reported = isinstance(old, CSIDriver) and bool(old.spec.storage_capacity)
    return _queue_if(reported and not (isinstance(new, CSIDriver) and new.spec.storage_capacity))


def _after_pod_delete(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A pod with claims was deleted: volumes that were reserved for it, but not written, are free again.

    Upstream does not register this event; no other event shows it, because no volume or claim changes.
    """
    del pod, new
    return _queue_if(not isinstance(old, Pod) or any(True for _ in claim_names(old)))


def _after_capacity_change(
    pod: PodInfo, old: KubeObject | None, new: KubeObject | None, *, size_of: SizeOf
) -> QueueingHint:
    """A new capacity, or a higher limit than before."""
    del pod
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return QueueingHint.QUEUE
    if new.limit is None:
        return QueueingHint.SKIP
    return _queue_if(old.limit is None or size_of(new.limit) > size_of(old.limit))


_EITHER = ActionType.ADD | ActionType.UPDATE

_REGISTERED = (
    ClusterEventWithHint(ClusterEvent(Resource.STORAGE_CLASS, _EITHER), _after_class_change),
    ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, _EITHER), _after_claim_change),
    # Any volume may be the one that is missing.
    ClusterEventWithHint(ClusterEvent(Resource.PERSISTENT_VOLUME, _EITHER)),
    # A new node, or a node with new labels, may reach the volume.
    ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)),
    ClusterEventWithHint(ClusterEvent(Resource.CSI_NODE, _EITHER | ActionType.DELETE), _after_csi_node_change),
    ClusterEventWithHint(
        ClusterEvent(Resource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE), _after_driver_change
    ),
    ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE), _after_pod_delete),
)


def registered(size_of: SizeOf) -> tuple[ClusterEventWithHint, ...]:
    """All of them; `size_of`: how capacities are compared."""
    after_capacity_change = partial(_after_capacity_change, size_of=size_of)
    capacity = ClusterEventWithHint(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, _EITHER), after_capacity_change)
    return (*_REGISTERED, capacity)
