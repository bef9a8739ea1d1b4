"""Which CSI volumes a pod needs attached to its node.

A claim stands for the volume it is bound to; an unbound claim counts against the driver that will provision its
volume, under a name that no real volume has. In-tree disks count as their driver's on every node with a CSINode,
whatever it says of migrated plugins: the migration of these five plugins cannot be switched off any more.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from kscheduler.api.core import Pod, Volume
from kscheduler.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from kscheduler.framework.cluster.volumes import (
    AttachableVolume,
    BrokenClaimError,
    ClaimNotFoundError,
    claim_name,
    claim_not_found,
    ownership_problem,
)
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.rules import csi_migration
from kscheduler.framework.rules.csi_migration import DRIVERS
from kscheduler.state.storage.assume_cache import Names, file, unfile

# The attachments reported by the attach controller, by node and by volume.


class VolumeAttachments:
    """The VolumeAttachments that the watch last showed."""

    def __init__(self) -> None:
        self._attachments: dict[str, VolumeAttachment] = {}
        self._by_node: Names = {}
        self._by_volume: Names = {}

    def put(self, attachment: VolumeAttachment) -> VolumeAttachment | None:
        """Add or update an attachment; returns its previous version, if there was one."""
        before = self.remove(attachment.key)
        self._attachments[attachment.key] = attachment
        file(self._by_node, attachment.spec.node_name, attachment.key)
        file(self._by_volume, _volume(attachment), attachment.key)
        return before

    def remove(self, name: str) -> VolumeAttachment | None:
        """Remove an attachment; returns it, if it was there."""
        before = self._attachments.pop(name, None)
        if before is not None:
            unfile(self._by_node, before.spec.node_name, name)
            unfile(self._by_volume, _volume(before), name)
        return before

    def get(self, name: str) -> VolumeAttachment | None:
        return self._attachments.get(name)

    def is_any_on(self, node_name: str) -> bool:
        """Whether any volume is attached to the node."""
        return node_name in self._by_node

    def on(self, node_name: str) -> Iterator[VolumeAttachment]:
        """The attachments of a node."""
        return (self._attachments[name] for name in self._by_node.get(node_name, ()))

    def nodes_of(self, volume_name: str) -> Iterator[str]:
        """The names of the nodes to which a volume is attached."""
        return (self._attachments[name].spec.node_name for name in self._by_volume.get(volume_name, ()))


def _volume(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistent_volume_name or ""


# The CSI drivers on nodes, as reported by kubelets: their attach limits, and which in-tree plugins are migrated.

NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


class CSINodes:
    """The CSINodes that the watch last showed; each has the name of its node."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._csi_nodes: dict[str, CSINode] = {}
        self.limited: dict[str, Mapping[str, int]] = {}
        """By name the CSINodes with limits: the maximal number of volumes per driver. Do not modify."""
        self._migrated: Names = {}
        """In-tree plugin to the names of nodes where it is migrated."""
        self._migrated_rows: dict[str, tuple[Rows, Rows]] = {}
        """By plugin all live rows at the time of the computation, and the rows where it is migrated."""
        self._known_rows: tuple[Rows, Rows] | None = None
        """All live rows at the time of the computation, and those of nodes with a CSINode."""
        self._installed: Names = {}
        """CSI driver to the names of nodes that report it."""

    def put(self, node: CSINode) -> None:
        """Add or update a CSINode."""
        self.remove(node.key)
        self._csi_nodes[node.key] = node
        if limits := _limits(node):
            self.limited[node.key] = limits
        for plugin in node.migrated_plugins:
            file(self._migrated, plugin, node.key)
        for driver in node.spec.drivers:
            file(self._installed, driver.name, node.key)

    def remove(self, name: str) -> None:
        """Remove a CSINode, if it exists."""
        before = self._csi_nodes.pop(name, None)
        if before is not None:
            self.limited.pop(name, None)
            for plugin in before.migrated_plugins:
                unfile(self._migrated, plugin, name)
            for driver in dict.fromkeys(driver.name for driver in before.spec.drivers):
                unfile(self._installed, driver, name)
        self._migrated_rows.clear()
        self._known_rows = None

    def get(self, name: str) -> CSINode | None:
        """The CSINode with this name."""
        return self._csi_nodes.get(name)

    def limits(self, name: str) -> Mapping[str, int]:
        """The maximal number of volumes per driver; drivers without a number have no limit and are left out."""
        return self.limited.get(name, NO_LIMITS)

    def is_migrated(self, name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        return name in self._migrated.get(plugin, ())

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where the plugin is migrated (intp, ascending); the table's own `rows()` if on all nodes."""
        live, known = self._nodes.rows(), self._migrated_rows.get(plugin)
        if known is None or known[0] is not live:
            rows = self._nodes.rows_of(self._migrated.get(plugin, ()))
            known = self._migrated_rows[plugin] = live, live if len(rows) == len(live) else rows
        return known[1]

    def has(self, name: str) -> bool:
        """Whether the node has a CSINode."""
        return name in self._csi_nodes

    def rows(self) -> Rows:
        """Rows of nodes with a CSINode (intp, ascending); the table's own `rows()` if all nodes have one."""
        live = self._nodes.rows()
        if self._known_rows is None or self._known_rows[0] is not live:
            rows = self._nodes.rows_of(self._csi_nodes)
            self._known_rows = live, live if len(rows) == len(live) else rows
        return self._known_rows[1]

    def is_installed(self, name: str, driver: str) -> bool:
        """Whether the node reports the driver."""
        return name in self._installed.get(driver, ())


def _limits(node: CSINode) -> Mapping[str, int]:
    drivers = ((driver.name, driver.allocatable) for driver in node.spec.drivers)
    return {name: limit.count for name, limit in drivers if limit is not None and limit.count is not None}


# Prefix of a claim's key: no driver creates handles of that form.
_NOT_MADE_YET = "not-made-yet"


class StorageObjects(Protocol):
    """The objects that this module looks up, in their confirmed versions."""

    def confirmed_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim."""

    def confirmed_volume(self, name: str) -> PersistentVolume | None:
        """A volume."""

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""


def attachable_volumes(pod: Pod, objects: StorageObjects, *, is_new: bool) -> frozenset[AttachableVolume]:
    """The volumes that the pod needs. Raises `ClaimNotFoundError` (only for a new pod) and `BrokenClaimError`."""
    found = [_attachable(pod, volume, objects, is_new=is_new) for volume in pod.spec.volumes]
    return frozenset([volume for volume in found if volume is not None])


def _attachable(pod: Pod, volume: Volume, objects: StorageObjects, *, is_new: bool) -> AttachableVolume | None:
    name = claim_name(pod, volume)
    if name is None:
        return _inline(volume)
    claim = _claim(pod, name, objects, is_new=is_new)
    if claim is None:
        return None
    problem = ownership_problem(pod, claim) if volume.ephemeral is not None else ""
    if problem:
        raise BrokenClaimError(problem)
    return _behind(claim, objects)


def _claim(pod: Pod, name: str, objects: StorageObjects, *, is_new: bool) -> PersistentVolumeClaim | None:
    if not name:
        raise BrokenClaimError("PersistentVolumeClaim had no name")
    claim = objects.confirmed_claim(pod.metadata.namespace, name)
    if claim is None and is_new:
        raise ClaimNotFoundError(f"looking up PVC {pod.metadata.namespace}/{name}: {claim_not_found(name)}")
    return claim


def _inline(volume: Volume) -> AttachableVolume | None:
    try:
        source = csi_migration.of_inline(volume)
    except ValueError as problem:
        plugin = csi_migration.plugin_of(volume)
        return AttachableVolume("", "", plugin, f"converting volume({volume.name}) from inline to csi: {problem}")
    return _migrated(source) if source is not None else None


def _migrated(source: csi_migration.Migratable) -> AttachableVolume:
    return AttachableVolume(f"{source.driver}/{source.handle}", source.driver, source.plugin)


def _behind(claim: PersistentVolumeClaim, objects: StorageObjects) -> AttachableVolume | None:
    volume = objects.confirmed_volume(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is None:
        return _to_be_made(claim, objects.storage_class(claim.storage_class))
    if volume.spec.csi is None:
        return _in_tree(volume)
    csi = volume.spec.csi
    has_name = csi.driver and csi.volume_handle
    return AttachableVolume(f"{csi.driver}/{csi.volume_handle}", csi.driver) if has_name else None


def _in_tree(volume: PersistentVolume) -> AttachableVolume | None:
    try:
        source = csi_migration.of_volume(volume)
    except ValueError:
        return None  # as upstream: a volume that cannot be translated is not counted
    return _migrated(source) if source is not None and source.handle else None


def _to_be_made(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> AttachableVolume | None:
    """The volume to be provisioned; `None` without a class, because then the claim is bound before its pod comes."""
    provisioner = storage_class.provisioner if storage_class is not None else ""
    handle = f"{_NOT_MADE_YET}-{claim.key}"
    if provisioner in DRIVERS:
        driver = DRIVERS[provisioner]
        return AttachableVolume(f"{driver}/{handle}", driver, provisioner)
    is_counted = provisioner and provisioner not in csi_migration.NOT_COUNTED
    return AttachableVolume(f"{provisioner}/{handle}", provisioner) if is_counted else None
