"""Which CSI volumes a pod needs attached to its node.

A claim stands for the volume it is bound to; an unbound claim counts against the driver that will provision its volume,
under a name that no real volume has. In-tree disks count as their driver's on every node with a CSINode, whatever it
says of migrated plugins: the migration of these five plugins cannot be switched off any more.
"""

from typing import Protocol

from kscheduler.api.core import Pod, Volume
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kscheduler.framework.cluster.volumes import (
    AttachableVolume,
    BrokenClaimError,
    ClaimNotFoundError,
    claim_name,
    claim_not_found,
    ownership_problem,
)
from kscheduler.framework.rules import csi_migration
from kscheduler.framework.rules.csi_migration import DRIVERS

_NOT_MADE_YET = "not-made-yet"
"""Prefix of a claim's key: no driver creates handles of that form."""


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
    return frozenset(volume for volume in found if volume is not None)


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
