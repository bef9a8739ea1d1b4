"""The volume filters for one pod and one node, as plainly as they can be said: the executable specification.

Everything is looked up in lists of plain objects, anew for every node; nothing is indexed, counted or remembered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kscheduler.api.core import Node, Pod, Volume
from kscheduler.api.quantity import nano_value, value
from kscheduler.api.selectors import parse_label_selector, parse_node_term
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.specification.rules import Verdict, hopeless

EBS = "kubernetes.io/aws-ebs"
SELECTED = "volume.kubernetes.io/selected-node"
ZONES = (
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
)


@dataclass
class World:
    """A cluster as lists of objects, each by its key."""

    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    storage: dict[tuple[type, str], Any] = field(default_factory=dict)

    def find(self, kind: type, key: str) -> Any:
        return self.storage.get((kind, key))

    def all(self, kind: type) -> list[Any]:
        return [obj for (one, _), obj in sorted(self.storage.items(), key=lambda item: item[0][1]) if one is kind]

    def pods_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.spec.node_name == node.metadata.name]

    def claim(self, pod: Pod, volume: Volume) -> PersistentVolumeClaim | None:
        source = volume.persistent_volume_claim
        name = source.claim_name if source else f"{pod.metadata.name}-{volume.name}"
        found: PersistentVolumeClaim | None = self.find(PersistentVolumeClaim, f"{pod.metadata.namespace}/{name}")
        return found


def uses_claims(pod: Pod) -> bool:
    return any(volume.persistent_volume_claim or volume.ephemeral is not None for volume in pod.spec.volumes)


# --- VolumeRestrictions -----------------------------------------------------------------------------------------------


def restrictions(pod: Pod, node: Node, world: World) -> Verdict:
    for mine in pod.spec.volumes:
        for other in world.pods_on(node):
            if any(conflict(mine, theirs) for theirs in other.spec.volumes):
                return True, frozenset(("node(s) had no available disk",))
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        claim = world.claim(pod, volume)
        if claim is not None and "ReadWriteOncePod" in claim.spec.access_modes and is_in_use(claim, world):
            text = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
            return True, frozenset((f"node(s) unavailable due to {text}",))
    return None


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


def limits(pod: Pod, node: Node, world: World) -> Verdict:
    csi_node = world.find(CSINode, node.metadata.name)
    if csi_node is None:
        return None
    mine = attachable(pod, csi_node, world)
    theirs: dict[str, str] = {}
    for other in world.pods_on(node):
        theirs |= attachable(other, csi_node, world)
    attached = {**attachments(node, world), **theirs}
    new = {name: driver for name, driver in mine.items() if name not in theirs}
    for driver in csi_node.spec.drivers:
        count = driver.allocatable.count if driver.allocatable else None
        added = [*new.values()].count(driver.name)
        if count is not None and added and [*attached.values()].count(driver.name) + added > count:
            return True, frozenset(("node(s) exceed max volume count",))
    return None


def attachable(pod: Pod, csi_node: Any, world: World) -> dict[str, str]:
    is_migrated = EBS in csi_node.metadata.annotations.get("storage.alpha.kubernetes.io/migrated-plugins", "").split(
        ","
    )
    found: dict[str, str] = {}
    for volume in pod.spec.volumes:
        disk = volume.aws_elastic_block_store
        if volume.persistent_volume_claim or volume.ephemeral is not None:
            claim = world.claim(pod, volume)
            if claim is None:
                continue
            made = world.find(PersistentVolume, claim.spec.volume_name)
            if made is None:
                storage_class = world.find(StorageClass, claim.storage_class)
                if storage_class is not None:
                    found[f"{storage_class.provisioner}/claim {claim.key}"] = storage_class.provisioner
                continue
            if made.spec.csi:
                found[f"{made.spec.csi.driver}/{made.spec.csi.volume_handle}"] = made.spec.csi.driver
                continue
            disk = made.spec.aws_elastic_block_store
        if disk is not None and is_migrated:
            found[f"ebs.csi.aws.com/{disk.volume_id.rpartition('/')[2]}"] = "ebs.csi.aws.com"
    return found


def attachments(node: Node, world: World) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in world.all(VolumeAttachment):
        volume = world.find(PersistentVolume, one.spec.source.persistent_volume_name or "")
        if one.spec.node_name == node.metadata.name and volume is not None and volume.spec.csi:
            found[f"{one.spec.attacher}/{volume.spec.csi.volume_handle}"] = one.spec.attacher
    return found


# --- VolumeZone -------------------------------------------------------------------------------------------------------


def zone(pod: Pod, node: Node, world: World) -> Verdict:
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


# --- VolumeBinding ----------------------------------------------------------------------------------------------------


def binding(pod: Pod, node: Node, world: World) -> Verdict:
    claims = [world.claim(pod, volume) for volume in pod.spec.volumes if volume.persistent_volume_claim]
    known = [claim for claim in claims if claim is not None]
    reasons = {bound_reason([claim for claim in known if claim.spec.volume_name], node, world)}
    reasons.add(open_reason([claim for claim in known if not claim.spec.volume_name], node, world))
    told = frozenset(reason for reason in reasons if reason)
    return (False, told) if told else None


def bound_reason(claims: list[PersistentVolumeClaim], node: Node, world: World) -> str:
    for claim in claims:
        volume = world.find(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
        if not reaches(volume, node):
            return "node(s) didn't match PersistentVolume's node affinity"
    return ""


def reaches(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    terms = map(parse_node_term, affinity.required.node_selector_terms)
    return any(term.matches(node.metadata.labels, "") for term in terms)


def open_reason(claims: list[PersistentVolumeClaim], node: Node, world: World) -> str:
    nothing = "node(s) didn't find available persistent volumes to bind"
    chosen = [claim.metadata.annotations[SELECTED] for claim in claims if SELECTED in claim.metadata.annotations]
    if any(name != node.metadata.name for name in chosen):
        return nothing
    to_be_made = [claim for claim in claims if SELECTED in claim.metadata.annotations]
    taken: set[str] = set()
    for claim in sorted((claim for claim in claims if claim not in to_be_made), key=size):
        volume = best_volume(claim, node, world, taken)
        if volume is None:
            to_be_made.append(claim)
        else:
            taken.add(volume.metadata.name)
    for claim in to_be_made:
        reason = cannot_be_made(claim, node, world)
        if reason:
            return nothing if reason == "nothing" else reason
    return ""


def size(claim: PersistentVolumeClaim) -> int:
    return nano_value(claim.spec.resources.requests["storage"])


def best_volume(claim: PersistentVolumeClaim, node: Node, world: World, taken: set[str]) -> PersistentVolume | None:
    best: PersistentVolume | None = None
    for volume in world.all(PersistentVolume):
        owner = volume.spec.claim_ref
        capacity = nano_value(volume.spec.capacity["storage"])
        if volume.storage_class != claim.storage_class or volume.metadata.name in taken or capacity < size(claim):
            continue
        if owner is not None:
            if (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name):
                return volume if reaches(volume, node) else None
            continue
        if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue
        selector = claim.spec.selector
        if selector is not None and not parse_label_selector(selector).matches(volume.metadata.labels):
            continue
        if reaches(volume, node) and (best is None or capacity < nano_value(best.spec.capacity["storage"])):
            best = volume
    return best


def cannot_be_made(claim: PersistentVolumeClaim, node: Node, world: World) -> str:
    storage_class = world.find(StorageClass, claim.storage_class)
    terms = storage_class.allowed_topologies
    if storage_class.provisioner == "kubernetes.io/no-provisioner" or not (not terms or any(allows(terms, node))):
        return "nothing"
    driver = world.find(CSIDriver, storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return ""
    for one in world.all(CSIStorageCapacity):
        sees = one.node_topology is not None and parse_label_selector(one.node_topology).matches(node.metadata.labels)
        limit = one.capacity if one.maximum_volume_size is None else one.maximum_volume_size
        wanted = value(claim.spec.resources.requests["storage"])
        if one.storage_class_name == claim.storage_class and sees and limit is not None and value(limit) >= wanted:
            return ""
    return "node(s) did not have enough free storage"


def allows(terms: Any, node: Node) -> Iterator[bool]:
    for term in terms:
        expressions = term.match_label_expressions
        yield bool(expressions) and all(node.metadata.labels.get(one.key) in one.values for one in expressions)
