"""The volume filters for one pod and one node, as plainly as they can be said: the executable specification.

Everything is looked up in lists of plain objects, again for every node; nothing is indexed, counted or remembered.
"""

from dataclasses import dataclass, field
from typing import Any

from kscheduler.api.core import Node, Pod, Volume
from kscheduler.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.specification.rules import LoggedFailure, hopeless

EBS, GCE = "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd"
DRIVER_OF = {EBS: "ebs.csi.aws.com", GCE: "pd.csi.storage.gke.io"}
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
GA_ZONE, GA_REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
# Labels of volumes, with the label of a node that serves where it lacks the volume's own.
ZONES = ((BETA_ZONE, GA_ZONE), (BETA_REGION, GA_REGION), (GA_ZONE, GA_ZONE), (GA_REGION, GA_REGION))


@dataclass
class World:
    """A cluster as lists of objects, each by its key, and what is assumed of some."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    storage: dict[tuple[type, str], Any] = field(default_factory=dict)
    assumed: dict[tuple[type, str], Any] = field(default_factory=dict)
    compares_exactly: bool = False
    """Whether claims and reported capacities are compared as they are, not rounded up to bytes."""

    def find(self, kind: type, key: str) -> Any:
        """The object as the API server has it, or `None`."""
        return self.storage.get((kind, key))

    def see(self, kind: type, key: str) -> Any:
        """The object as assumed, or as the API server has it."""
        return self.assumed.get((kind, key)) or self.find(kind, key)

    def all(self, kind: type) -> list[Any]:
        """All of a kind as the API server has them, by key."""
        return [obj for (one, _), obj in sorted(self.storage.items(), key=lambda item: item[0][1]) if one is kind]

    def pods_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == node.metadata.name]

    def claim(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        """What stands behind a pod's volume, as the API server has it."""
        found: PersistentVolumeClaim | None = self.find(PersistentVolumeClaim, claim_key(pod, volume))
        return found


def claim_key(pod: Pod, volume: Volume) -> str:
    source = volume.persistent_volume_claim
    name = source.claim_name if source else f"{pod.metadata.name}-{volume.name}"
    return f"{pod.metadata.namespace}/{name}"


def needs_claim(volume: Volume) -> bool:
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None


def migrated_plugins(csi_node: CSINode | None) -> list[str]:
    listed = csi_node.metadata.annotations.get(MIGRATED, "") if csi_node else ""
    return [one for one in listed.split(",") if one]


def missing_claim(pod: Pod, world: World, *, ephemeral: bool = False) -> str:
    """The first claim that is not there; empty where all are."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim or (ephemeral and volume.ephemeral is not None):
            key = claim_key(pod, volume)
            if world.find(PersistentVolumeClaim, key) is None:
                return f'persistentvolumeclaim "{key.split("/")[1]}" not found'
    return ""


# --- VolumeRestrictions -----------------------------------------------------------------------------------------------


def restrictions_problem(pod: Pod, world: World) -> str:
    """Why the whole pod is rejected, or empty."""
    return missing_claim(pod, world)


def restrictions(pod: Pod, node: Node, world: World) -> LoggedFailure:
    return disk_taken(pod, node, world) or claim_taken(claims_taken(pod, world))


def disk_taken(pod: Pod, node: Node, world: World) -> LoggedFailure:
    for mine in pod.spec.volumes:
        for other in world.pods_on(node):
            if any(conflict(mine, theirs) for theirs in other.spec.volumes):
                return True, frozenset(("node(s) had no available disk",))
    return None


def claims_taken(pod: Pod, world: World) -> int:
    """How many of its claims for one pod only are in use anywhere."""
    return sum(is_in_use(claim, world) for claim in exclusive_claims(pod, world))


def claim_taken(number: int) -> LoggedFailure:
    if number <= 0:
        return None
    text = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    return True, frozenset((f"node(s) unavailable due to {text}",))


def exclusive_claims(pod: Pod, world: World) -> list[PersistentVolumeClaim]:
    """Each once."""
    wanted = {claim_key(pod, volume): volume for volume in pod.spec.volumes if volume.persistent_volume_claim}
    claims = [world.claim(pod, volume) for volume in wanted.values()]
    return [claim for claim in claims if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes]


def uses(other: Pod, claims: list[PersistentVolumeClaim]) -> int:
    """How often a pod names one of the claims."""
    names = {claim.key for claim in claims}
    return sum(claim_key(other, one) in names for one in other.spec.volumes if one.persistent_volume_claim)


def has_disks(pod: Pod) -> bool:
    """Whether it has any that may be in use."""
    return any(
        one.gce_persistent_disk or one.aws_elastic_block_store or one.iscsi or one.rbd for one in pod.spec.volumes
    )


def conflict(one: Volume, other: Volume) -> bool:
    if one.gce_persistent_disk and other.gce_persistent_disk:
        both_read = one.gce_persistent_disk.read_only and other.gce_persistent_disk.read_only
        return one.gce_persistent_disk.pd_name == other.gce_persistent_disk.pd_name and not both_read
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi and other.iscsi:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd and other.rbd:
        same = (one.rbd.pool, one.rbd.image) == (other.rbd.pool, other.rbd.image)
        overlap = set(one.rbd.monitors) & set(other.rbd.monitors)
        return bool(same and overlap and not (one.rbd.read_only and other.rbd.read_only))
    return False


def is_in_use(claim: PersistentVolumeClaim, world: World) -> bool:
    return any(
        volume.persistent_volume_claim is not None
        and volume.persistent_volume_claim.claim_name == claim.metadata.name
        and pod.metadata.namespace == claim.metadata.namespace
        for pod in world.pods.values()
        if pod.spec.node_name in world.nodes
        for volume in pod.spec.volumes
    )


# --- NodeVolumeLimits -------------------------------------------------------------------------------------------------


def limits(pod: Pod, node: Node, world: World) -> LoggedFailure:
    csi_node = world.find(CSINode, node.metadata.name)
    if csi_node is None:
        return None
    mine, theirs = attachable(pod, csi_node, world), used_by_pods(node, world)
    attached = [*(attachments(node, world) | theirs).values()]
    for driver, most in limits_of(csi_node).items():
        added = sum(driver == one for name, one in mine.items() if name not in theirs)
        if added and attached.count(driver) + added > most:
            return True, frozenset(("node(s) exceed max volume count",))
    return None


def limits_of(csi_node: CSINode | None) -> dict[str, int]:
    """By driver; one without a count has no limit."""
    drivers = csi_node.spec.drivers if csi_node else ()
    limited = [(one.name, one.allocatable.count) for one in drivers if one.allocatable]
    return {name: count for name, count in limited if count is not None}


def used_by_pods(node: Node, world: World) -> dict[str, str]:
    """Unique name to driver of what the node's pods have attached."""
    csi_node = world.find(CSINode, node.metadata.name)
    used = [attachable(pod, csi_node, world) for pod in world.pods_on(node)]
    return {name: driver for one in used for name, driver in one.items()}


def limits_problem(pod: Pod, world: World) -> str:
    """Why the whole pod is rejected, or empty. (Said of nodes with any limit only by upstream; of all here.)"""
    for volume in pod.spec.volumes:
        if needs_claim(volume) and world.claim(pod, volume) is None:
            key = claim_key(pod, volume)
            return f'looking up PVC {key}: persistentvolumeclaim "{key.split("/")[1]}" not found'
    return ""


def attachable(pod: Pod, csi_node: CSINode | None, world: World) -> dict[str, str]:
    """Unique name to driver of what the pod has attached."""
    found: dict[str, str] = {}
    for volume in pod.spec.volumes:
        source: Any = volume
        if needs_claim(volume):
            claim = world.claim(pod, volume)
            if claim is None:
                continue
            made = world.find(PersistentVolume, claim.spec.volume_name)
            if made is None:
                found |= to_be_made(claim, csi_node, world)
                continue
            if made.spec.csi:
                found[f"{made.spec.csi.driver}/{made.spec.csi.volume_handle}"] = made.spec.csi.driver
                continue
            source = made
        plugin, name = disk_of(source)
        if plugin in DRIVER_OF and csi_node is not None:
            found[f"{DRIVER_OF[plugin]}/{name}"] = DRIVER_OF[plugin]
    return found


def to_be_made(claim: PersistentVolumeClaim, csi_node: CSINode | None, world: World) -> dict[str, str]:
    storage_class = world.find(StorageClass, claim.storage_class)
    provisioner = storage_class.provisioner if storage_class else ""
    if not provisioner or (provisioner in DRIVER_OF and csi_node is None):
        return {}
    driver = DRIVER_OF.get(provisioner, provisioner)
    return {f"{driver}/claim {claim.key}": driver}


def disk_of(owner: Any) -> tuple[str, str]:
    """The in-tree plugin of a pod's volume or a PersistentVolume, and the disk as its CSI driver names it."""
    source = owner.spec if isinstance(owner, PersistentVolume) else owner
    if source.aws_elastic_block_store is not None:
        return EBS, source.aws_elastic_block_store.volume_id.rpartition("/")[2]
    if source.gce_persistent_disk is not None:
        labels = owner.metadata.labels if isinstance(owner, PersistentVolume) else {}
        zone = labels.get(BETA_ZONE) or labels.get(GA_ZONE) or "UNSPECIFIED"
        return GCE, f"projects/UNSPECIFIED/zones/{zone}/disks/{source.gce_persistent_disk.pd_name}"
    return "", ""


def attachments(node: Node, world: World) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in world.all(VolumeAttachment):
        volume = world.find(PersistentVolume, one.spec.source.persistent_volume_name or "")
        if one.spec.node_name == node.metadata.name and volume is not None and volume.spec.csi:
            found[f"{one.spec.attacher}/{volume.spec.csi.volume_handle}"] = one.spec.attacher
    return found


# --- VolumeZone -------------------------------------------------------------------------------------------------------


def zone_problem(pod: Pod, world: World) -> str:
    """Why the whole pod is rejected, or empty."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        claim = world.claim(pod, volume)
        if claim is None:
            return f'persistentvolumeclaim "{volume.persistent_volume_claim.claim_name}" not found'
        if claim.spec.volume_name:
            if world.find(PersistentVolume, claim.spec.volume_name) is None:
                return f'persistentvolume "{claim.spec.volume_name}" not found'
            continue
        if not claim.storage_class:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = world.find(StorageClass, claim.storage_class)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{claim.storage_class}" not found'
        if storage_class.volume_binding_mode != "WaitForFirstConsumer":
            return "PersistentVolume had no name"
    return ""


def zone(pod: Pod, node: Node, world: World) -> LoggedFailure:
    labels = node.metadata.labels
    if not any(key in labels for key, _ in ZONES):
        return None
    for volume in pod.spec.volumes:
        claim = world.claim(pod, volume) if volume.persistent_volume_claim else None
        made = world.find(PersistentVolume, claim.spec.volume_name) if claim is not None else None
        for key, successor in ZONES:
            if made is None or key not in made.metadata.labels:
                continue
            values = made.metadata.labels[key].split("__")
            if "" not in values and labels.get(key, labels.get(successor)) not in values:
                return hopeless("node(s) had no available volume zone")
    return None
