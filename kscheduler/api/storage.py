"""Volumes, claims and the objects of storage drivers, with the fields that a scheduler reads.

A volume's source keeps only what identifies the disk: the driver that attaches it, and its name there. In-tree sources
that were replaced by CSI drivers are read because old volumes still have them (`framework.rules.csi_migration`).
"""

from collections.abc import Iterable

from kscheduler.api.core import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    CinderSource,
    GCEPersistentDiskSource,
    LabelSelector,
    NodeSelector,
    PortworxVolumeSource,
    ResourceList,
    ResourceRequirements,
)
from kscheduler.api.meta import KubeObject, Value
from kscheduler.api.quantity import Quantity

# On a claim: it is bound, and so is its volume. The value does not matter.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
# On a volume: a controller chose the claim, not a user.
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
# On a claim: create the volume for this node. A provisioner that cannot removes the annotation.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
# On claims and volumes: the class, before there was a field for it. It wins over the field.
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
# On a class, with the value `true`: it is the default class.
DEFAULT_MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
# On a CSINode: the in-tree plugins whose volumes a CSI driver attaches there, separated by commas.
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"

READ_WRITE_ONCE_POD = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
STORAGE = "storage"
FILESYSTEM = "Filesystem"


class ObjectReference(Value, frozen=True):
    """The claim that a volume belongs to."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class CSIPersistentVolumeSource(Value, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Value, frozen=True):
    """The nodes from which a volume can be reached; without `required`, all nodes."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Value, frozen=True):
    """The specification of a volume."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolumeStatus(Value, frozen=True):
    """The status of a volume."""

    phase: str = ""


class PersistentVolume(KubeObject):
    """A volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The name of its class, or empty."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name)


class PersistentVolumeClaimSpec(Value, frozen=True):
    """The specification of a claim."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Value, frozen=True):
    """The status of a claim."""

    phase: str = ""


class PersistentVolumeClaim(KubeObject):
    """A claim to a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The name of its class, or empty."""
        return self.metadata.annotations.get(BETA_STORAGE_CLASS, self.spec.storage_class_name or "")

    @property
    def is_fully_bound(self) -> bool:
        """Whether claim and volume are bound to each other for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class TopologySelectorLabelRequirement(Value, frozen=True):
    """A node label with the values that are allowed."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Value, frozen=True):
    """Requirements that must all hold; an empty term matches nothing."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubeObject):
    """How and when volumes of a class are created."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """The class for claims without one: the newest class marked as default, of equally old ones the first by name.

    As upstream's GetDefaultClass, which the API server's admission and the volume binder call.
    """
    marked = [
        candidate
        for candidate in classes
        if any(candidate.metadata.annotations.get(mark) == "true" for mark in DEFAULT_MARKS)
    ]
    by_name = sorted(marked, key=lambda candidate: candidate.metadata.name)
    # `max` returns the first of equals.
    return max(by_name, key=lambda candidate: candidate.metadata.creation_timestamp or "", default=None)


class VolumeNodeResources(Value, frozen=True):
    """How many volumes of a driver a node can attach; `None` is no limit."""

    count: int | None = None


class CSINodeDriver(Value, frozen=True):
    """A driver on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Value, frozen=True):
    """The drivers on a node."""

    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject):
    """The kubelet's report of a node's CSI drivers; named after the node."""

    spec: CSINodeSpec = CSINodeSpec()

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """In-tree plugins whose volumes a CSI driver attaches on this node."""
        listed = self.metadata.annotations.get(MIGRATED_PLUGINS, "")
        return frozenset(listed.split(",")) if listed else frozenset()


class CSIDriverSpec(Value, frozen=True):
    """A driver's settings for the scheduler."""

    storage_capacity: bool | None = None
    """Whether it reports its free capacity."""
    prevent_pod_scheduling_if_missing: bool | None = None
    """Whether pods that need it may only go to nodes that report it (from 1.37 on)."""


class CSIDriver(KubeObject):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject):
    """A driver's free capacity for a class in a part of the cluster."""

    node_topology: LabelSelector | None = None
    """The nodes that can reach it; `None` is none."""
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None

    @property
    def limit(self) -> Quantity | None:
        """The largest volume that can be created; `None` if unknown."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(Value, frozen=True):
    """The volume that is attached."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Value, frozen=True):
    """The attacher, the node and the volume of an attachment."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubeObject):
    """A volume that is attached to a node, or is being attached."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
