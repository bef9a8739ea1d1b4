"""Volumes and claims as plugins see them: what exists, what was decided and not written yet, and what is in use.

A decision about a volume (this claim gets that disk, that claim's disk is to be made on this node) must count before
the API server confirms it, or two pods get one disk. So volumes and claims can be *assumed*: until a newer version of
the object arrives, readers see the assumed one. What the server said last can still be asked for: whoever waits for a
controller must not believe its own assumptions.

What pods on nodes use is kept ready by node: claims, disks that must not be shared, attached CSI volumes per driver.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

Disk = tuple[str, ...]
"""A disk that pods name themselves: its kind, and what tells it from others of the kind."""

CountColumn = NDArray[np.int64]
"""One number per row of the table."""

UNLIMITED_ROOM: Final = 2**62
"""Of a driver without a limit: more than any pod asks for."""

Subject = tuple[str, str]
"""What can be listened to: (`POD`, UID), (`CLAIM`, key) or (`VOLUME`, name)."""

POD, CLAIM, VOLUME = "pod", "claim", "volume"


class AttachableVolume(NamedTuple):
    """A volume of a CSI driver that a pod needs on its node. A tuple, because several are made per decision."""

    unique_name: str
    """`driver/handle`: names the volume in the whole cluster."""
    driver: str
    """Who attaches it, and whose limit it counts against."""
    migrated_from: str = ""
    """It counts only on nodes where this in-tree plugin is migrated; empty: everywhere."""
    problem: str = ""
    """Why it cannot be counted where it should be: an Error there."""


NOTHING_KNOWN = error("nobody here knows of volumes and claims")
"""For pods that need them where a `Handle` has none: no pod is placed by half of the rules."""


class ClaimNotFoundError(LookupError):
    """A claim does not exist (yet)."""


class BrokenClaimError(ValueError):
    """A claim can never serve the pod as it is."""


class Volumes(Protocol):
    """All that is known of storage. Synchronous; objects are shared and must not be changed."""

    # --- objects ------------------------------------------------------------------------------------------------------

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume, as assumed if it is."""
        ...

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim, as assumed if it is."""
        ...

    def confirmed_volume(self, name: str) -> PersistentVolume | None:
        """A volume as the API server last showed it."""
        ...

    def confirmed_claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """A claim as the API server last showed it."""
        ...

    def volumes_for(self, claim: PersistentVolumeClaim) -> Sequence[PersistentVolume]:
        """Volumes of the claim's class that belong to nobody or to this claim, as assumed, by name."""
        ...

    def storage_class(self, name: str) -> StorageClass | None:
        """A storage class."""
        ...

    def csi_driver(self, name: str) -> CSIDriver | None:
        """A CSI driver."""
        ...

    def capacities(self, storage_class: str) -> Iterable[CSIStorageCapacity]:
        """What drivers say of the room left for a class."""
        ...

    # --- deciding -----------------------------------------------------------------------------------------------------

    def assume_volume(self, volume: PersistentVolume) -> None:
        """Let readers see this version. Raises `ValueError` where it was not made from the confirmed one."""
        ...

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """Let readers see this version. Raises `ValueError` where it was not made from the confirmed one."""
        ...

    def restore_volume(self, volume: PersistentVolume) -> None:
        """Take an assumption back; another one, or a confirmed newer version, is left alone."""
        ...

    def restore_claim(self, claim: PersistentVolumeClaim) -> None:
        """Take an assumption back; another one, or a confirmed newer version, is left alone."""
        ...

    def on_change(self, subjects: Iterable[Subject], listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after each change of these; returns how to end that.

        A pod changes when it leaves its node; a claim also with the volumes that it names.
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
        """Rows where a pod has the disk; for a reader, where a pod *writes* to it."""
        ...

    def migrated_rows(self, plugin: str) -> Rows:
        """Rows of nodes where the in-tree plugin's volumes are attached by its CSI driver."""
        ...

    def attachable(self, pod: Pod, *, is_new: bool) -> frozenset[AttachableVolume]:
        """What a pod needs attached. Claims that do not exist are passed over unless the pod is a new one.

        Raises `ClaimNotFoundError`, and `BrokenClaimError` for a claim that is not the pod's own or has no name.
        """
        ...

    def attach_limits(self, driver: str) -> CountColumn:
        """How many volumes of the driver each row takes; -1 is no limit."""
        ...

    def attached(self, driver: str) -> CountColumn:
        """How many volumes of the driver each row's pods use, or are attached there all the same."""
        ...

    def attach_room(self, driver: str) -> CountColumn:
        """How many more volumes of the driver each row takes (the limit less what is attached)."""
        ...

    def surely_take(self, driver: str, volumes: int, rows: Rows) -> bool:
        """Whether each of the rows takes so many more volumes of the driver; if in doubt, False.

        It costs less than to ask for the room: what has changed lately is not counted, but taken for the worst.
        """
        ...

    def is_countable(self) -> bool:
        """Whether what is attached can be counted wherever there are limits; if in doubt, False."""
        ...

    def rows_using(self, unique_name: str) -> Rows:
        """Rows with a pod that uses the CSI volume (`driver/handle`)."""
        ...

    def is_migrated(self, node_name: str, plugin: str) -> bool:
        """Whether the in-tree plugin's volumes are attached by its CSI driver on the node."""
        ...

    def has_attach_limits(self, node_name: str) -> bool:
        """Whether some driver takes only so many volumes on the node."""
        ...

    def volumes_attached_to(self, node_name: str) -> Iterable[tuple[str, str]]:
        """(unique name, driver) of what is attached to the node whoever uses it, or nobody."""
        ...

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits where what is attached cannot be counted, and why."""
        ...


class VolumeWriter(Protocol):
    """What VolumeBinding writes. An object that has changed meanwhile is refused: its version is the precondition."""

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        """Write the volume's claim reference (and who chose it); the volume as it is now, or an Error."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        """Write the claim's selected node; the claim as it is now, or an Error."""
        ...


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a pod's volume (of an ephemeral one it is named after pod and volume), or `None`."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_names(pod: Pod) -> Iterator[str]:
    """The claims behind a pod's volumes, in order."""
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    return (name for name in names if name is not None)


def disks_of(volume: Volume) -> Iterator[tuple[Disk, bool]]:
    """The disks behind a volume that must not be shared, and whether it only reads them.

    Two pods may read one disk together, but for EBS, which is never shared. An image of Ceph is a disk per monitor:
    one monitor in common is enough to mean the same image.
    """
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
    """Why the claim of an ephemeral volume is not the pod's own; empty where it is."""
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
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
    """As the API words it."""
    return f'persistentvolumeclaim "{name}" not found'
