"""Storage as the next decision must see it: objects, assumptions, and the use by pods on nodes.

Updated by the cache (pods and nodes) and by the handlers of volumes, claims, classes, drivers and attachments.
Everything is synchronous, so each change is atomic. Implements `framework.cluster.volumes.Volumes`.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

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
from kscheduler.framework.cluster.volumes import (
    CLAIM,
    POD,
    VOLUME,
    AttachableVolume,
    BrokenClaimError,
    CountColumn,
    Disk,
    Subject,
    is_bound_to,
)
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules import csi_migration
from kscheduler.state.storage.assume_cache import AssumeCache, Names, VolumeListeners, file, unfile
from kscheduler.state.storage.attachable import CSINodes, VolumeAttachments, attachable_volumes
from kscheduler.state.storage.attached_volumes import NO_VOLUMES, AttachedVolumes, NodeAttachments
from kscheduler.state.storage.volume_use import VolumeUse, names_claims_only

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)
_NO_NAMES: Final[Collection[str]] = ()


class VolumeTable:
    """Storage objects and their use."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._volumes: AssumeCache[PersistentVolume] = AssumeCache()
        self._claims: AssumeCache[PersistentVolumeClaim] = AssumeCache()
        self._classes: dict[str, StorageClass] = {}
        self._csi_nodes = CSINodes(nodes)
        self._drivers: dict[str, CSIDriver] = {}
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        self._attachments = VolumeAttachments()
        self._free: Names = {}
        """Storage class to volumes without a claim reference."""
        self._owned: Names = {}
        """Claim key to volumes that name it."""
        self._claims_of: Names = {}
        """Volume name to keys of the claims that name it."""
        self._use = VolumeUse()
        self._attached = AttachedVolumes(nodes, self._count_node)
        self._listeners = VolumeListeners()
        self.changes = 0
        """The number of changes of storage objects, assumed ones included."""

    # --- updated by the cache -----------------------------------------------------------------------------------------

    def add_pod(self, pod: PodInfo, node_name: str) -> None:
        """Count a pod on a node."""
        if pod.pod.spec.volumes:
            self._use.add(pod, node_name)
            self._use_changed(pod.pod, node_name, more=len(pod.pod.spec.volumes))

    def remove_pod(self, pod: PodInfo, node_name: str) -> None:
        """Stop counting a pod on its node."""
        if pod.pod.spec.volumes:
            self._use.remove(pod, node_name)
            self._use_changed(pod.pod, node_name, more=0)
            self._listeners.notify((POD, pod.uid))

    def _use_changed(self, pod: Pod, node_name: str, *, more: int) -> None:
        if names_claims_only(pod):
            self._attached.may_have_more(node_name, more)
        elif csi_migration.may_attach(pod):
            self._attached.mark(node_name)

    def row_changed(self, node_name: str) -> None:
        """Record that a node has been given a row."""
        self._attached.mark(node_name)

    # --- updated by the watches ---------------------------------------------------------------------------------------

    def put(self, obj: KubeObject) -> None:
        """Add or update an object of any storage kind. Raises `TypeError` for another kind."""
        self.changes += 1
        # A case per kind. A change that may affect attach limits or counts on a node must mark the node.
        match obj:
            case PersistentVolume():
                self._put_volume(obj)
            case PersistentVolumeClaim():
                self._put_claim(obj)
            case StorageClass():
                self._classes[obj.key] = obj
                self._mark_all()
            case CSINode():
                self._csi_nodes.put(obj)
                self._attached.mark(obj.key)
            case CSIDriver():
                self._drivers[obj.key] = obj
            case CSIStorageCapacity():
                self._put_capacity(obj)
            case VolumeAttachment():
                self._put_attachment(obj)
            case _:
                raise TypeError(f"{type(obj).__name__} is no storage object")

    def remove(self, obj: KubeObject) -> None:
        """Remove an object of any storage kind; `obj` may be stale. Raises `TypeError` for another kind."""
        self.changes += 1
        # The counterpart of `put`, case by case. Only the key of `obj` is used, because its content may be stale.
        match obj:
            case PersistentVolume():
                self._remove_volume(obj.key)
            case PersistentVolumeClaim():
                self._remove_claim(obj.key)
            case StorageClass():
                self._classes.pop(obj.key, None)
                self._mark_all()
            case CSINode():
                self._csi_nodes.remove(obj.key)
                self._attached.mark(obj.key)
            case CSIDriver():
                self._drivers.pop(obj.key, None)
            case CSIStorageCapacity():
                self._remove_capacity(obj.key)
            case VolumeAttachment():
                self._remove_attachment(obj.key)
            case _:
                raise TypeError(f"{type(obj).__name__} is no storage object")

    def _put_volume(self, volume: PersistentVolume) -> None:
        name = volume.key
        self._unfile_volume(name)
        self._volumes.put(name, volume)
        owner = volume.spec.claim_ref
        if owner is None:
            file(self._free, volume.storage_class, name)
        else:
            file(self._owned, f"{owner.namespace}/{owner.name}", name)
        self._volume_changed(name)

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
        for node_name in self._attachments.nodes_of(name):
            self._attached.may_have_more(node_name, 1)
        for key in self._claims_of.get(name, ()):
            self._claim_changed(key)
        self._listeners.notify((VOLUME, name))

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        key = claim.key
        self._unfile_claim(key)
        self._claims.put(key, claim)
        if claim.spec.volume_name:
            file(self._claims_of, claim.spec.volume_name, key)
        self._claim_changed(key)

    def _remove_claim(self, key: str) -> None:
        self._unfile_claim(key)
        self._claims.remove(key)
        self._claim_changed(key)

    def _unfile_claim(self, key: str) -> None:
        before = self._claims.confirmed(key)
        if before is not None and before.spec.volume_name:
            unfile(self._claims_of, before.spec.volume_name, key)

    def _put_capacity(self, capacity: CSIStorageCapacity) -> None:
        """Removed first: its class is immutable, but between two watches it may have been replaced by a namesake."""
        self._remove_capacity(capacity.key)
        self._capacities.setdefault(capacity.storage_class_name, {})[capacity.key] = capacity

    def _remove_capacity(self, key: str) -> None:
        for name, of_class in list(self._capacities.items()):
            if of_class.pop(key, None) is not None and not of_class:
                del self._capacities[name]

    def _put_attachment(self, attachment: VolumeAttachment) -> None:
        before = self._attachments.put(attachment)
        if before is not None:
            self._attached.may_have_more(before.spec.node_name, 0)
        self._attached.may_have_more(attachment.spec.node_name, 1)

    def _remove_attachment(self, name: str) -> None:
        before = self._attachments.remove(name)
        if before is not None:
            self._attached.may_have_more(before.spec.node_name, 0)

    def _claim_changed(self, key: str) -> None:
        for node_name, mentions in self._use.claims.of(key).items():
            self._attached.may_have_more(node_name, mentions)
        for node_name in self._use.ephemeral.of(key):  # the claim may belong to another pod now: then it is uncountable
            self._attached.mark(node_name)
        self._listeners.notify((CLAIM, key))

    def _mark_all(self) -> None:
        for node_name in self._use.node_names():
            self._attached.mark(node_name)

    # --- objects ------------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        """The assumed version of a volume, else the confirmed one."""
        return self._volumes.get(name)

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The assumed version of a claim, else the confirmed one."""
        return self._claims.get(f"{namespace}/{name}")

    def confirmed_volume(self, name: str) -> PersistentVolume | None:
        """A volume as the API server last showed it."""
        return self._volumes.confirmed(name)

    def confirmed_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim as the API server last showed it."""
        return self._claims.confirmed(f"{namespace}/{name}")

    def volumes_for(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Volumes of the claim's class that are free or belong to this claim, as assumed, sorted by name."""
        storage_class = claim.storage_class
        free, owned = self._free.get(storage_class, _NO_NAMES), self._owned.get(claim.key, _NO_NAMES)
        if not free and not owned:
            return ()
        found = (self._volumes.get(name) for name in sorted({*free, *owned}))
        return [volume for volume in found if volume is not None and _may_serve(volume, claim, storage_class)]

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""
        return self._classes.get(name)

    def storage_class_names(self) -> tuple[str, ...]:
        """The names of all classes."""
        return tuple(self._classes)

    def attachment(self, name: str) -> VolumeAttachment | None:
        """An attachment of a volume to a node, by its own name."""
        return self._attachments.get(name)

    def attachments_on(self, node_name: str) -> Sequence[VolumeAttachment]:
        """The attachments of a node."""
        return tuple(self._attachments.on(node_name))

    def pods_on(self, node_name: str) -> Iterable[PodInfo]:
        """The node's pods that have volumes."""
        return self._use.pods(node_name).values()

    def csi_node(self, name: str) -> CSINode | None:
        """A node's CSINode: the drivers that its kubelet reports."""
        return self._csi_nodes.get(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        """A CSI driver."""
        return self._drivers.get(name)

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """The remaining capacity that drivers report for a class."""
        return self._capacities.get(storage_class, {}).values()

    # --- deciding -----------------------------------------------------------------------------------------------------

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Let readers see this version. Raises `ValueError` if it was not made from the confirmed one."""
        self._volumes.assume(volume)
        self.changes += 1

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Let readers see this version. Raises `ValueError` if it was not made from the confirmed one."""
        self._claims.assume(claim)
        self.changes += 1

    def assumed(self) -> list[PersistentVolume | PersistentVolumeClaim]:
        """The versions that are assumed: volumes, then claims."""
        return [*self._volumes.assumed(), *self._claims.assumed()]

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Undo this assumption; another assumption or a newer confirmed version stays."""
        self._volumes.restore(volume)
        self.changes += 1

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Undo this assumption; another assumption or a newer confirmed version stays."""
        self._claims.restore(claim)
        self.changes += 1

    def on_change(self, subjects: Iterable[Subject], listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of the subjects; returns a function that ends the subscription."""
        return self._listeners.add(subjects, listener)

    # --- use by pods on nodes -----------------------------------------------------------------------------------------

    def is_on(self, uid: str, node_name: str) -> bool:
        """Whether the pod (one with volumes) counts on the node, assumed or confirmed."""
        return uid in self._use.pods(node_name)

    def claim_users(self, namespace: str, name: str) -> Mapping[str, int]:
        """By node: how many volumes of the node's pods name the claim, without ephemeral volumes."""
        return self._use.claims.of(f"{namespace}/{name}")

    def disk_rows(self, disk: Disk, *, read_only: bool) -> Rows:
        """Rows where a pod uses the disk; with `read_only`, where a pod *writes* to it (intp, ascending)."""
        users = (self._use.writers if read_only else self._use.disks).of(disk)
        return self._nodes.rows_of(users) if users else _NO_ROWS

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where the in-tree plugin's volumes are attached by its CSI driver (intp, ascending).

        The table's own `rows()` if it is migrated on all nodes.
        """
        return self._csi_nodes.migrated_rows(plugin)

    def has_driver(self, node_name: str, driver: str) -> bool:
        """Whether the node reports the CSI driver."""
        return self._csi_nodes.is_installed(node_name, driver)

    def is_migrated(self, node_name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        return self._csi_nodes.is_migrated(node_name, plugin)

    def has_csi_node(self, node_name: str) -> bool:
        """Whether the node has a CSINode."""
        return self._csi_nodes.has(node_name)

    def csi_node_rows(self) -> Rows:
        """Rows of nodes with a CSINode (intp, ascending); the table's own `rows()` if all nodes have one."""
        return self._csi_nodes.rows()

    def attachable(self, pod: Pod, *, is_new: bool) -> frozenset[AttachableVolume]:
        """The volumes that a pod needs attached. Raises `ClaimNotFoundError`, `BrokenClaimError`."""
        return attachable_volumes(pod, self, is_new=is_new)

    def recounting(self) -> Generator[None, None, None]:
        """Count ahead what is attached to nodes that may have changed. Pauses after each node; raises what a count
        raises. Nothing is counted without claims, since it is quickly done then, nor without limits: nobody asks.
        """
        if self._claims and self._csi_nodes.limited:
            yield from self._attached.recounting()

    def attach_limits(self, driver: str) -> CountColumn:
        """The limit of the driver's volumes per row: int64 for all rows; -1 is no limit."""
        return self._attached.limits(driver)

    def has_attach_limits(self, node_name: str) -> bool:
        """Whether any driver has a limit of volumes on the node."""
        return node_name in self._csi_nodes.limited

    def attached(self, driver: str) -> CountColumn:
        """The number of the driver's volumes that each row's pods use or that are attached without use: int64."""
        return self._attached.attached(driver)

    def attach_room(self, driver: str) -> CountColumn:
        """The number of further volumes of the driver that each row takes: int64 for all rows."""
        return self._attached.room(driver)

    def surely_take(self, driver: str, volumes: int, rows: Rows) -> bool:
        """Whether each of the rows takes this number of further volumes of the driver; if in doubt, False."""
        return not self._csi_nodes.limited or self._attached.surely_take(driver, volumes, rows)

    def is_countable(self) -> bool:
        """Whether the attached volumes can be counted on all nodes with limits; if in doubt, False."""
        return not self._csi_nodes.limited or self._attached.is_countable()

    def rows_using(self, unique_name: str) -> Rows:
        """Rows with a pod that uses the CSI volume (intp, ascending)."""
        users = self._attached.users(unique_name)
        return self._nodes.rows_of(users) if users else _NO_ROWS

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits where the attached volumes cannot be counted, with the reason."""
        return self._attached.uncountable()

    def volumes_attached_to(self, node_name: str) -> Iterator[tuple[str, str]]:
        """(unique name, driver) of the volumes that are attached to the node by VolumeAttachments."""
        for attachment in self._attachments.on(node_name):
            spec = attachment.spec
            volume = self._volumes.confirmed(spec.source.persistent_volume_name or "")
            if spec.attacher and volume is not None and volume.spec.csi is not None:
                yield f"{spec.attacher}/{volume.spec.csi.volume_handle}", spec.attacher

    def _count_node(self, node_name: str) -> NodeAttachments:
        pods, unused = self._use.pods(node_name), NO_VOLUMES
        by_pods, problem = self._used_on(node_name, pods.values()) if pods else (NO_VOLUMES, "")
        if self._attachments.is_any_on(node_name):
            attached = self.volumes_attached_to(node_name)
            unused = {unique_name: driver for unique_name, driver in attached if unique_name not in by_pods}
        return NodeAttachments(by_pods, unused, self._csi_nodes.limits(node_name), problem)

    def _used_on(self, node_name: str, pods: Iterable[PodInfo]) -> tuple[Mapping[str, str], str]:
        used: dict[str, str] = {}
        for pod in pods:
            try:
                attachable = self.attachable(pod.pod, is_new=False)
            except BrokenClaimError as problem:
                return used, str(problem)
            for volume in attachable:
                if volume.migrated_from and not self._csi_nodes.has(node_name):
                    continue
                if volume.problem:
                    return used, volume.problem
                used[volume.unique_name] = volume.driver
        return used, ""


def _may_serve(volume: PersistentVolume, claim: PersistentVolumeClaim, storage_class: str) -> bool:
    """Whether the volume has the class and is not bound to another claim."""
    owner = volume.spec.claim_ref
    return volume.storage_class == storage_class and (owner is None or is_bound_to(volume, claim))
