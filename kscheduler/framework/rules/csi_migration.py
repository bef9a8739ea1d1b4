"""Volumes of in-tree plugins that have been migrated to CSI drivers (Kubernetes' csi-translation-lib).

On a node with a CSINode they count against the driver's limit. Where the CSINode says that the plugin is migrated, the
zone of their labels becomes a requirement on the driver's own topology label.

Limits: only the five plugins whose migration is always on. File shares and vSphere are neither attached by count nor
tied to nodes, so they need no translation here.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import msgspec

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, Volume
from kscheduler.api.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity
from kscheduler.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE

AWS_EBS, GCE_PD, AZURE_DISK = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk"
CINDER, PORTWORX = "kubernetes.io/cinder", "kubernetes.io/portworx-volume"

# In-tree plugin to CSI driver.
DRIVERS = {
    AWS_EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
}
# Plugins with a translation whose volumes count against no limit, migrated or not.
NOT_COUNTED = frozenset(("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"))

ZONE_DELIMITER = "__"

_TOPOLOGY_KEYS = {
    AWS_EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_EBS_VOLUME = re.compile("vol-[^/]*")


class Migratable(msgspec.Struct, frozen=True):
    """An in-tree volume in CSI terms."""

    plugin: str
    handle: str

    @property
    def driver(self) -> str:
        """The CSI driver of the plugin's volumes."""
        return DRIVERS[self.plugin]


def of_volume(volume: PersistentVolume) -> Migratable | None:
    """The in-tree source of a volume; `None` if it has none. Raises `ValueError` if it cannot be translated."""
    spec = volume.spec
    if spec.gce_persistent_disk is not None:
        return Migratable(GCE_PD, _gce_handle(volume))
    return _of_source(spec)


def of_inline(volume: Volume) -> Migratable | None:
    """The same for a pod's volume."""
    if volume.gce_persistent_disk is not None:
        return Migratable(GCE_PD, _zonal(_UNSPECIFIED, volume.gce_persistent_disk.pd_name))
    return _of_source(volume)


def may_attach(pod: Pod) -> bool:
    """Whether a volume of the pod may need to be attached to its node: that of a claim, or an in-tree plugin's disk."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            return True
        if plugin_of(volume):
            return True
    return False


def plugin_of(source: PersistentVolumeSpec | Volume) -> str:
    """The in-tree plugin of a volume (a PersistentVolume's spec or a pod's volume), or empty."""
    if source.gce_persistent_disk is not None:
        return GCE_PD
    if source.aws_elastic_block_store is not None:
        return AWS_EBS
    if source.azure_disk is not None:
        return AZURE_DISK
    if source.cinder is not None:
        return CINDER
    return PORTWORX if source.portworx_volume is not None else ""


def translated_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """The node affinity of an in-tree volume if its plugin is migrated. Raises `ValueError` like `of_volume`."""
    source = of_volume(volume)
    key = _TOPOLOGY_KEYS.get(source.plugin) if source is not None else None
    if key is None:
        return volume.spec.node_affinity
    zone, region = _labels_in_use(volume)
    affinity: VolumeNodeAffinity | None
    if any(_values(volume, zone)):
        affinity = _renamed(volume.spec.node_affinity, zone, key)
    else:
        affinity = _with_zones(volume.spec.node_affinity, key, volume.metadata.labels.get(zone))
    if region == BETA_REGION and any(_values(volume, region)):
        affinity = _renamed(affinity, region, REGION)
    return affinity


def _of_source(source: PersistentVolumeSpec | Volume) -> Migratable | None:
    if source.aws_elastic_block_store is not None:
        return Migratable(AWS_EBS, _ebs_handle(source.aws_elastic_block_store.volume_id))
    if source.azure_disk is not None:
        kind = source.azure_disk.kind
        if kind is not None and kind.lower() != "managed":
            raise ValueError(f"kind({kind}) is not supported in csi migration")
        return Migratable(AZURE_DISK, source.azure_disk.disk_uri)
    if source.cinder is not None:
        return Migratable(CINDER, source.cinder.volume_id)
    portworx = source.portworx_volume
    return None if portworx is None else Migratable(PORTWORX, portworx.volume_id)


def _ebs_handle(volume_id: str) -> str:
    """`vol-1` of `vol-1`, `aws:///vol-1` and `aws://zone/vol-1`."""
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = urlsplit(volume_id).path.strip("/")
    if _EBS_VOLUME.fullmatch(handle) is None:
        text = f"Invalid format for AWS volume ({volume_id})"
        raise ValueError(f"failed to translate Kubernetes ID to EBS Volume ID {text}")
    return handle


_UNSPECIFIED = "UNSPECIFIED"


def _zonal(zone: str, disk: str) -> str:
    return f"projects/{_UNSPECIFIED}/zones/{zone}/disks/{disk}"


def _gce_handle(volume: PersistentVolume) -> str:
    disk = volume.spec.gce_persistent_disk
    assert disk is not None  # noqa: S101  checked by `of_volume`
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE, "")).split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{disk.pd_name}"
    return _zonal(zones[0] or _UNSPECIFIED, disk.pd_name)


def _gce_region(zones: Iterable[str]) -> str:
    regions: set[str] = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            text = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise ValueError(f"failed to get region from zones: {text}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        text = f"multiple or no regions gotten from zones, got: {sorted(regions)}"
        raise ValueError(f"failed to get region from zones: {text}")
    return regions.pop()


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    required = affinity.required if affinity is not None else None
    return required.node_selector_terms if required is not None else ()


def _values(volume: PersistentVolume, key: str) -> Iterable[str]:
    for term in _terms(volume.spec.node_affinity):
        for expression in term.match_expressions:
            if expression.key == key:
                yield from expression.values


def _labels_in_use(volume: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels that the volume uses: in its affinity, else in its own labels."""
    keys = {expression.key for term in _terms(volume.spec.node_affinity) for expression in term.match_expressions}
    for found in (keys, volume.metadata.labels):
        if ZONE in found:
            return ZONE, REGION
        if BETA_ZONE in found:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _with_expressions(term: NodeSelectorTerm, expressions: Iterable[NodeSelectorRequirement]) -> NodeSelectorTerm:
    return msgspec.structs.replace(term, match_expressions=tuple(expressions))


def _affinity(terms: Iterable[NodeSelectorTerm]) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(NodeSelector(tuple(terms)))


def _renamed(affinity: VolumeNodeAffinity | None, old: str, new: str) -> VolumeNodeAffinity:
    def renamed(requirement: NodeSelectorRequirement) -> NodeSelectorRequirement:
        return msgspec.structs.replace(requirement, key=new) if requirement.key == old else requirement

    return _affinity(_with_expressions(term, map(renamed, term.match_expressions)) for term in _terms(affinity))


def _with_zones(affinity: VolumeNodeAffinity | None, key: str, label: str | None) -> VolumeNodeAffinity | None:
    """The affinity with the zones of the volume's label added to each term, or to a new term if there is none."""
    zones = sorted({zone.strip() for zone in (label or "").split(ZONE_DELIMITER)} - {""})
    if not zones:
        return affinity
    added = NodeSelectorRequirement(key, "In", tuple(zones))
    terms = _terms(affinity) or (NodeSelectorTerm(),)
    return _affinity(_with_expressions(term, (*term.match_expressions, added)) for term in terms)
