"""Storage as the next decision must see it: objects, assumptions, and what pods on nodes use.

Fed by the cache (pods and nodes) and by whoever watches volumes, claims, classes, drivers and attachments. Everything
is synchronous; a change is one step. Implements `framework.volumes.Volumes`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kscheduler.api.core import Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from kscheduler.framework.node_table import NodeTable, Rows
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.volumes import AttachableVolume, BrokenClaimError, CountColumn, Disk, is_bound_to
from kscheduler.state.assume_cache import AssumeCache
from kscheduler.state.attachable import attachable_volumes
from kscheduler.state.attached_volumes import AttachedVolumes, NodeAttachments
from kscheduler.state.name_index import Names, file, unfile
from kscheduler.state.volume_use import VolumeUse


class VolumeTable:
    """Storage objects and their use."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._volumes: AssumeCache[PersistentVolume] = AssumeCache()
        self._claims: AssumeCache[PersistentVolumeClaim] = AssumeCache()
        self._classes: dict[str, StorageClass] = {}
        self._csi_nodes: dict[str, CSINode] = {}
        self._drivers: dict[str, CSIDriver] = {}
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._free: Names = {}
        """Storage class to volumes that belong to nobody."""
        self._owned: Names = {}
        """Claim key to volumes that name it."""
        self._claims_of: Names = {}
        """Volume name to keys of the claims that name it."""
        self._attached_on: Names = {}
        """Node name to attachments."""
        self._attached_by: Names = {}
        """Volume name to attachments."""
        self._migrated: Names = {}
        """In-tree plugin to nodes where it is migrated."""
        self._migrated_rows: dict[str, tuple[Rows, Rows]] = {}
        """The same as rows, and all rows as they were then."""
        self._use = VolumeUse()
        self._attached = AttachedVolumes(nodes, self._count_node)
        self._listeners: list[Callable[[], None]] = []
        self.changes = 0
        """Moves with every storage object that comes, changes, goes, or is assumed to."""

    # --- fed by the cache ---------------------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo, node_name: str) -> None:
        """A pod counts on a node from now on."""
        if pod.pod.spec.volumes:
            self._use.add(pod, node_name)
            self._attached.mark(node_name)

    def remove_pod(self, pod: PodInfo, node_name: str) -> None:
        """A pod counts on its node no longer."""
        if pod.pod.spec.volumes:
            self._use.remove(pod, node_name)
            self._attached.mark(node_name)
            self._tell()

    def row_changed(self, node_name: str) -> None:
        """A node has got a row."""
        self._attached.mark(node_name)

    # --- fed by the watches -------------------------------------------------------------------------------------------

    def put(self, obj: KubeObject) -> None:
        """An object of any storage kind is there, or has changed. Raises `TypeError` for another kind."""
        self.changes += 1
        match obj:
            case PersistentVolume():
                self._put_volume(obj)
            case PersistentVolumeClaim():
                self._put_claim(obj)
            case StorageClass():
                self._classes[obj.key] = obj
                self._mark_all()
            case CSINode():
                self._put_csi_node(obj)
            case CSIDriver():
                self._drivers[obj.key] = obj
            case CSIStorageCapacity():
                self._put_capacity(obj)
            case VolumeAttachment():
                self._put_attachment(obj)
            case _:
                raise TypeError(f"{type(obj).__name__} is no storage object")

    def remove(self, obj: KubeObject) -> None:
        """An object of any storage kind is gone; `obj` may be stale. Raises `TypeError` for another kind."""
        self.changes += 1
        match obj:
            case PersistentVolume():
                self._remove_volume(obj.key)
            case PersistentVolumeClaim():
                self._remove_claim(obj.key)
            case StorageClass():
                self._classes.pop(obj.key, None)
                self._mark_all()
            case CSINode():
                self._remove_csi_node(obj.key)
            case CSIDriver():
                self._drivers.pop(obj.key, None)
            case CSIStorageCapacity():
                self._remove_capacity(obj.key)
            case VolumeAttachment():
                self._remove_attachment(obj.key)
            case _:
                raise TypeError(f"{type(obj).__name__} is no storage object")

    def _put_volume(self, volume: PersistentVolume) -> None:
        self._unfile_volume(volume.key)
        self._volumes.put(volume)
        owner = volume.spec.claim_ref
        if owner is None:
            file(self._free, volume.storage_class, volume.key)
        else:
            file(self._owned, f"{owner.namespace}/{owner.name}", volume.key)
        self._volume_changed(volume.key)

    def _remove_volume(self, name: str) -> None:
        self._unfile_volume(name)
        self._volumes.remove(name)
        self._volume_changed(name)

    def _unfile_volume(self, name: str) -> None:
        before = self._volumes.confirmed(name)
        if before is None:
            return
        owner = before.spec.claim_ref
        if owner is None:
            unfile(self._free, before.storage_class, name)
        else:
            unfile(self._owned, f"{owner.namespace}/{owner.name}", name)

    def _volume_changed(self, name: str) -> None:
        for key in self._claims_of.get(name, ()):
            self._mark_users(key)
        for attachment in self._attached_by.get(name, ()):
            self._attached.mark(self._attachments[attachment].spec.node_name)
        self._tell()

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        self._unfile_claim(claim.key)
        self._claims.put(claim)
        if claim.spec.volume_name:
            file(self._claims_of, claim.spec.volume_name, claim.key)
        self._mark_users(claim.key)
        self._tell()

    def _remove_claim(self, key: str) -> None:
        self._unfile_claim(key)
        self._claims.remove(key)
        self._mark_users(key)
        self._tell()

    def _unfile_claim(self, key: str) -> None:
        before = self._claims.confirmed(key)
        if before is not None and before.spec.volume_name:
            unfile(self._claims_of, before.spec.volume_name, key)

    def _put_csi_node(self, node: CSINode) -> None:
        self._remove_csi_node(node.key)
        self._csi_nodes[node.key] = node
        self._migrated_rows.clear()
        for plugin in node.migrated_plugins:
            file(self._migrated, plugin, node.key)

    def _remove_csi_node(self, name: str) -> None:
        before = self._csi_nodes.pop(name, None)
        if before is not None:
            self._migrated_rows.clear()
            for plugin in before.migrated_plugins:
                unfile(self._migrated, plugin, name)
        self._attached.mark(name)

    def _put_capacity(self, capacity: CSIStorageCapacity) -> None:
        """Its class never changes, but another one may have come under its name unseen, between two watches."""
        self._remove_capacity(capacity.key)
        self._capacities.setdefault(capacity.storage_class_name, {})[capacity.key] = capacity

    def _remove_capacity(self, key: str) -> None:
        for of_class in self._capacities.values():
            of_class.pop(key, None)

    def _put_attachment(self, attachment: VolumeAttachment) -> None:
        self._remove_attachment(attachment.key)
        self._attachments[attachment.key] = attachment
        file(self._attached_on, attachment.spec.node_name, attachment.key)
        file(self._attached_by, attachment.spec.source.persistent_volume_name or "", attachment.key)
        self._attached.mark(attachment.spec.node_name)

    def _remove_attachment(self, name: str) -> None:
        before = self._attachments.pop(name, None)
        if before is not None:
            unfile(self._attached_on, before.spec.node_name, name)
            unfile(self._attached_by, before.spec.source.persistent_volume_name or "", name)
            self._attached.mark(before.spec.node_name)

    def _mark_users(self, claim_key: str) -> None:
        for node_name in self._use.mentions.of(claim_key):
            self._attached.mark(node_name)

    def _mark_all(self) -> None:
        for node_name in self._use.node_names():
            self._attached.mark(node_name)

    def _tell(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    # --- objects ------------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume, as assumed if it is."""
        return self._volumes.get(name)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim, as assumed if it is."""
        return self._claims.get(f"{namespace}/{name}")

    def confirmed_volume(self, name: str) -> PersistentVolume | None:
        """A volume as the API server last showed it."""
        return self._volumes.confirmed(name)

    def confirmed_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim as the API server last showed it."""
        return self._claims.confirmed(f"{namespace}/{name}")

    def volumes_for(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Volumes of the claim's class that belong to nobody or to this claim, as assumed, by name."""
        wanted = claim.storage_class
        names = sorted({*self._free.get(wanted, ()), *self._owned.get(claim.key, ())})
        found = (self._volumes.get(name) for name in names)
        return [volume for volume in found if volume is not None and _may_serve(volume, claim, wanted)]

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""
        return self._classes.get(name)

    def csi_node(self, name: str) -> CSINode | None:
        """What a node's kubelet says of its drivers."""
        return self._csi_nodes.get(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """A CSI driver."""
        return self._drivers.get(name)

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """What drivers say of the room left for a class."""
        return self._capacities.get(storage_class, {}).values()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Let readers see this version. Raises `ValueError` where it was not made from the confirmed one."""
        self._volumes.assume(volume)
        self.changes += 1

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Let readers see this version. Raises `ValueError` where it was not made from the confirmed one."""
        self._claims.assume(claim)
        self.changes += 1

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Take an assumption back; another one, or a confirmed newer version, is left alone."""
        self._volumes.restore(volume)
        self.changes += 1

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take an assumption back; another one, or a confirmed newer version, is left alone."""
        self._claims.restore(claim)
        self.changes += 1

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of a volume or claim, or of who uses one; returns how to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- use by pods on nodes -----------------------------------------------------------------------------------------

    def is_on(self, uid: str, node_name: str) -> bool:
        """Whether the pod (one with volumes) counts on the node, assumed or confirmed."""
        return uid in self._use.pods(node_name)

    def claim_users(self, namespace: str, name: str) -> Mapping[str, int]:
        """By node: how many volumes of the node's pods name the claim, ephemeral ones left out."""
        return self._use.claims.of(f"{namespace}/{name}")

    def disk_rows(self, disk: Disk, *, read_only: bool) -> Rows:
        """Rows where a pod has the disk; for a reader, where a pod *writes* to it."""
        users = self._use.writers if read_only else self._use.disks
        return self._nodes.rows_of(users.of(disk))

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where the in-tree plugin's volumes are attached by its CSI driver.

        The table's own `rows()` where they are all of them.
        """
        live, known = self._nodes.rows(), self._migrated_rows.get(plugin)
        if known is None or known[0] is not live:
            rows = self._nodes.rows_of(self._migrated.get(plugin, ()))
            known = self._migrated_rows[plugin] = live, live if len(rows) == len(live) else rows
        return known[1]

    def is_migrated(self, node_name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        return node_name in self._migrated.get(plugin, ())

    def attachable(self, pod: Pod, *, is_new: bool) -> frozenset[AttachableVolume]:
        """What a pod needs attached. Raises `ClaimNotFoundError`, `BrokenClaimError`."""
        return attachable_volumes(pod, self, is_new=is_new)

    def attach_limits(self, driver: str) -> CountColumn:
        """How many volumes of the driver each row takes; -1 is no limit."""
        return self._attached.limits(driver)

    def has_attach_limits(self, node_name: str) -> bool:
        """Whether some driver takes only so many volumes on the node."""
        return self._attached.has_limits(node_name)

    def attached(self, driver: str) -> CountColumn:
        """How many volumes of the driver each row's pods use, or are attached there all the same."""
        return self._attached.attached(driver)

    def rows_using(self, unique_name: str) -> Rows:
        """Rows with a pod that uses the CSI volume."""
        return self._nodes.rows_of(self._attached.users(unique_name))

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits where what is attached cannot be counted, and why."""
        return self._attached.uncountable()

    def volumes_attached_to(self, node_name: str) -> Iterator[tuple[str, str]]:
        """(unique name, driver) of what VolumeAttachments say is attached to the node."""
        for name in self._attached_on.get(node_name, ()):
            spec = self._attachments[name].spec
            volume = self._volumes.confirmed(spec.source.persistent_volume_name or "")
            if spec.attacher and volume is not None and volume.spec.csi is not None:
                yield f"{spec.attacher}/{volume.spec.csi.volume_handle}", spec.attacher

    def _count_node(self, node_name: str) -> NodeAttachments:
        csi_node = self._csi_nodes.get(node_name)
        drivers = csi_node.spec.drivers if csi_node is not None else ()
        limits = {
            one.name: one.allocatable.count
            for one in drivers
            if one.allocatable is not None and one.allocatable.count is not None
        }
        by_pods, problem = self._used_on(node_name)
        attached = self.volumes_attached_to(node_name)
        besides = {unique_name: driver for unique_name, driver in attached if unique_name not in by_pods}
        return NodeAttachments(by_pods, besides, limits, problem)

    def _used_on(self, node_name: str) -> tuple[Mapping[str, str], str]:
        used: dict[str, str] = {}
        for pod in self._use.pods(node_name).values():
            try:
                attachable = self.attachable(pod.pod, is_new=False)
            except BrokenClaimError as problem:
                return used, str(problem)
            for volume in attachable:
                if volume.migrated_from and not self.is_migrated(node_name, volume.migrated_from):
                    continue
                if volume.problem:
                    return used, volume.problem
                used[volume.unique_name] = volume.driver
        return used, ""


def _may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim, storage_class: str) -> bool:
    """Of the class, and nobody else's."""
    owner = volume.spec.claim_ref
    return volume.storage_class == storage_class and (owner is None or is_bound_to(volume, claim))
