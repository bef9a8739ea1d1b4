"""Volumes and claims as plugins see them: what exists, what was decided and not written yet, and what is in use.

A decision about a volume (this claim gets that disk, that claim's disk will be provisioned on this node) must count
before the API server confirms it, or two pods get the same disk. So volumes and claims can be *assumed*: until a newer
version of the object arrives, readers see the assumed version. The server's last version is available, too: code that
waits for a controller must not rely on its own assumptions.

The use by pods on nodes is kept ready by node: claims, disks that must not be shared, attached CSI volumes per driver.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod, Volume
from kscheduler.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.status import Status, error

# A disk that a pod's spec names directly: its kind and its identity within the kind.
Disk = tuple[str, ...]

# A number per row of the table.
CountColumn = NDArray[np.int64]

# Of a pod that are looked at. A node attaches a hundred, and Ceph has five monitors; a pod of 1.5 MB may name 130,000,
# which take 80 MB while it runs.
MAX_DISKS: Final = 1_024
# The room of a driver without a limit: more than any pod needs.
UNLIMITED_ROOM: Final = 2**62

# What a listener can subscribe to: (`POD`, UID), (`CLAIM`, key) or (`VOLUME`, name).
Subject = tuple[str, str]

POD, CLAIM, VOLUME = "pod", "claim", "volume"


class AttachableVolume(NamedTuple):
    """A volume of a CSI driver that a pod needs on its node. A tuple, because several are made per decision."""

    unique_name: str
    """`driver/handle`: names the volume in the whole cluster."""
    driver: str
    """The driver that attaches it, and against whose limit it counts."""
    migrated_from: str = ""
    """The in-tree plugin that it is a volume of: then it counts only on nodes with a CSINode; empty: everywhere."""
    problem: str = ""
    """The reason why it cannot be counted; an Error on nodes where it should count."""


# For pods with claims if the `Handle` has no volumes: a pod must not be placed with a part of the rules.
NOTHING_KNOWN = error("volumes and claims are not available here")


class ClaimNotFoundError(LookupError):
    """A claim does not exist (yet)."""


class BrokenClaimError(ValueError):
    """A claim can never serve the pod as it is."""


class Volumes(Protocol):
    """The state of storage. Synchronous; objects are shared and must not be changed."""

    # --- objects ------------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        """The assumed version of a volume, else the confirmed one."""
        ...

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """The assumed version of a claim, else the confirmed one."""
        ...

    def confirmed_volume(self, name: str) -> PersistentVolume | None:
        """A volume as the API server last showed it."""
        ...

    def confirmed_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim as the API server last showed it."""
        ...

    def volumes_for(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Volumes of the claim's class that are free or belong to this claim, as assumed, sorted by name."""
        ...

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""
        ...

    def csi_driver(self, name: str) -> CSIDriver | None:
        """A CSI driver."""
        ...

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """The remaining capacity that drivers report for a class."""
        ...

    # --- deciding -----------------------------------------------------------------------------------------------------

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Let readers see this version. Raises `ValueError` if it was not made from the confirmed one."""
        ...

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Let readers see this version. Raises `ValueError` if it was not made from the confirmed one."""
        ...

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Undo this assumption; another assumption or a newer confirmed version stays."""
        ...

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Undo this assumption; another assumption or a newer confirmed version stays."""
        ...

    def on_change(self, subjects: Iterable[Subject], listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of the subjects; returns a function that ends the subscription.

        A pod changes when it leaves its node; a claim also changes with the volume that it names.
        """
        ...

    # --- use by pods on nodes -----------------------------------------------------------------------------------------

    def is_on(self, uid: str, node_name: str) -> bool:
        """Whether the pod (one with volumes) counts on the node, assumed or confirmed."""
        ...

    def claim_users(self, namespace: str, name: str) -> Mapping[str, int]:
        """By node: how many of the node's pods name the claim (in a volume of their own, not an ephemeral one)."""
        ...

    def disk_rows(self, disk: Disk, *, read_only: bool) -> Rows:
        """Rows where a pod uses the disk; with `read_only`, where a pod *writes* to it (intp, ascending)."""
        ...

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes whose CSINode says that the in-tree plugin is migrated (intp, ascending)."""
        ...

    def attachable(self, pod: Pod, *, is_new: bool) -> frozenset[AttachableVolume]:
        """The volumes that a pod needs attached. Missing claims are ignored unless the pod is new.

        Raises `ClaimNotFoundError`, and `BrokenClaimError` for a claim that is not the pod's own or has no name.
        """
        ...

    def attach_limits(self, driver: str) -> CountColumn:
        """The limit of the driver's volumes per row: int64 for all rows; -1 is no limit."""
        ...

    def attached(self, driver: str) -> CountColumn:
        """The number of the driver's volumes that each row's pods use or that are attached without use: int64."""
        ...

    def attach_room(self, driver: str) -> CountColumn:
        """The number of further volumes of the driver that each row takes (limit less attached): int64."""
        ...

    def surely_take(self, driver: str, volumes: int, rows: Rows) -> bool:
        """Whether each of the rows takes this number of further volumes of the driver; if in doubt, False.

        Cheaper than `attach_room`: recent changes are not counted exactly, but with an upper bound.
        """
        ...

    def is_countable(self) -> bool:
        """Whether the attached volumes can be counted on all nodes with limits; if in doubt, False."""
        ...

    def rows_using(self, unique_name: str) -> Rows:
        """Rows with a pod that uses the CSI volume `driver/handle` (intp, ascending)."""
        ...

    def is_migrated(self, node_name: str, plugin: str) -> bool:
        """Whether the node's CSINode says that the in-tree plugin's volumes are attached by its CSI driver."""
        ...

    def has_csi_node(self, node_name: str) -> bool:
        """Whether the node has a CSINode."""
        ...

    def csi_node_rows(self) -> Rows:
        """Rows of nodes with a CSINode (intp, ascending); the table's own `rows()` if all nodes have one."""
        ...

    def has_driver(self, node_name: str, driver: str) -> bool:
        """Whether the node reports the CSI driver."""
        ...

    def has_attach_limits(self, node_name: str) -> bool:
        """Whether any driver has a limit of volumes on the node."""
        ...

    def volumes_attached_to(self, node_name: str) -> Iterable[tuple[str, str]]:
        """(unique name, driver) of the volumes attached to the node, used or not."""
        ...

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits where the attached volumes cannot be counted, with the reason."""
        ...


class VolumeWriter(Protocol):
    """The writes of VolumeBinding. They fail if the object has changed: its version is a precondition."""

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        """Write the volume's claim reference and the bound-by annotation; the new version, or an Error."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Write the claim's selected node; the new version, or an Error."""
        ...


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim of a pod's volume (an ephemeral volume's claim is named after pod and volume), or `None`."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """The claims of a pod's volumes, in order."""
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    return (name for name in names if name is not None)


def disks_of(pod: Pod) -> Iterator[tuple[Disk, bool]]:
    """The disks of a pod's volumes that must not be shared, and whether the volume only reads them; the first
    `MAX_DISKS`.

    Two pods may read the same disk, except EBS, which is never shared. A Ceph image is a disk per monitor: with a
    single common monitor it counts as the same image.
    """
    return islice(chain.from_iterable(map(_disks_of, pod.spec.volumes)), MAX_DISKS)


def _disks_of(volume: Volume) -> Iterator[tuple[Disk, bool]]:
    if volume.gce_persistent_disk is not None:
        yield ("gce", volume.gce_persistent_disk.pd_name), volume.gce_persistent_disk.read_only
    if volume.aws_elastic_block_store is not None:
        yield ("ebs", volume.aws_elastic_block_store.volume_id), False
    if volume.iscsi is not None:
        yield ("iscsi", volume.iscsi.iqn), volume.iscsi.read_only
    if volume.rbd is not None:
        for monitor in volume.rbd.monitors:
            yield ("rbd", monitor, volume.rbd.pool, volume.rbd.image), volume.rbd.read_only


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why the claim of an ephemeral volume is not the pod's own; empty if it is."""
    controller = claim.metadata.controller
    if controller is not None and controller.uid == pod.metadata.uid:
        return ""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume names the claim; a reference without UID (a user's) means any claim of that name."""
    owner = volume.spec.claim_ref
    if owner is None or (owner.namespace, owner.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return owner.uid in ("", claim.metadata.uid)


def claim_not_found(name: str) -> str:
    """The API server's message for a missing claim."""
    return f'persistentvolumeclaim "{name}" not found'
