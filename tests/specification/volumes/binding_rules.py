"""VolumeBinding for one pod and one node: the verdict, and which volume serves which claim.

Claims and volumes count as they are assumed. The choice is part of the rule: claims from the smallest request up, each
gets the volume that is set aside for it, else the smallest that fits, of equals the first by name.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import msgspec

from kscheduler.api.core import Node, NodeSelectorRequirement, NodeSelectorTerm, Pod
from kscheduler.api.quantity import nano_value, value
from kscheduler.api.selectors import parse_label_selector
from kscheduler.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from tests.specification.rules import LoggedFailure, is_sound, requirement_holds
from tests.specification.volumes.rules import (
    BETA_REGION,
    BETA_ZONE,
    EBS,
    GA_REGION,
    GA_ZONE,
    GCE,
    World,
    claim_key,
    disk_of,
    migrated_plugins,
    needs_claim,
)

SELECTED = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
ZONE_OF_DRIVER = {EBS: "topology.ebs.csi.aws.com/zone", GCE: "topology.gke.io/zone"}
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"


@dataclass
class Choice:
    """What is to be done for a pod on a node."""

    reasons: set[str] = field(default_factory=set)
    bound: dict[str, str] = field(default_factory=dict)
    """Volume to the claim that it is to belong to."""
    made: set[str] = field(default_factory=set)
    """Claims whose volumes are to be made for the node."""

    def set_aside(self) -> set[tuple[type, str]]:
        """Volumes and claims that are not free any more then."""
        volumes = {(PersistentVolume, name) for name in self.bound}
        return volumes | {(PersistentVolumeClaim, key) for key in self.made}


def binding_problem(pod: Pod, world: World) -> str:
    """Why the whole pod is rejected, or empty."""
    claims: list[PersistentVolumeClaim] = []
    for volume in pod.spec.volumes:
        if not needs_claim(volume):
            continue
        key = claim_key(pod, volume)
        name, claim = key.split("/")[1], world.see(PersistentVolumeClaim, key)
        if claim is None and volume.ephemeral is not None:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if claim.status.phase == "Lost":
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
        if claim.metadata.deletion_timestamp:
            return f'persistentvolumeclaim "{name}" is being deleted'
        claims.append(claim)
    for claim in claims:
        storage_class = world.find(StorageClass, claim.storage_class)
        waits = storage_class is not None and storage_class.volume_binding_mode == "WaitForFirstConsumer"
        if not is_bound(claim) and (claim.spec.volume_name or not waits):
            return "pod has unbound immediate PersistentVolumeClaims"
    return ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BOUND in claim.metadata.annotations


def binding(pod: Pod, node: Node, world: World) -> LoggedFailure:
    reasons = choice(pod, node, world).reasons
    return (False, frozenset(reasons)) if reasons else None


def choice(pod: Pod, node: Node, world: World) -> Choice:
    keys = {claim_key(pod, volume): None for volume in pod.spec.volumes if needs_claim(volume)}
    claims = [world.see(PersistentVolumeClaim, key) for key in keys]
    found = Choice()
    for claim in claims:
        if is_bound(claim):
            reason = cannot_be_reached(claim, node, world)
            if reason:
                found.reasons.add(reason)
                break
    serve([claim for claim in claims if not is_bound(claim)], node, world, found)
    return found


def cannot_be_reached(claim: PersistentVolumeClaim, node: Node, world: World) -> str:
    volume = world.see(PersistentVolume, claim.spec.volume_name)
    if volume is None:
        return "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    plugin, _ = disk_of(volume)
    is_migrated = plugin in migrated_plugins(world.find(CSINode, node.metadata.name))
    terms = terms_of_driver(volume, ZONE_OF_DRIVER[plugin]) if plugin and is_migrated else terms_of(volume)
    return "" if is_admitted(terms, node) else "node(s) didn't match PersistentVolume's node affinity"


# --- from where a volume can be reached -------------------------------------------------------------------------------


def terms_of(volume: PersistentVolume) -> list[NodeSelectorTerm] | None:
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return None if required is None else list(required.node_selector_terms)


def is_admitted(terms: list[NodeSelectorTerm] | None, node: Node) -> bool:
    """What a term says of the node's name is skipped."""
    return terms is None or any(
        bool(term.match_expressions or term.match_fields)
        and is_sound(term)
        and all(requirement_holds(one, node.metadata.labels.get(one.key)) for one in term.match_expressions)
        for term in terms
    )


def terms_of_driver(volume: PersistentVolume, key: str) -> list[NodeSelectorTerm] | None:
    """Zones by the driver's own label; where the affinity names no zone, those of the volume's label."""
    terms = terms_of(volume)
    keys = [one.key for term in terms or () for one in term.match_expressions]
    zone = zone_label(keys, list(volume.metadata.labels))
    if zone in keys:
        terms = renamed(terms or [], zone, key)
    else:
        listed = volume.metadata.labels.get(zone, "").split("__")
        zones = tuple(sorted({one for one in listed if one}))
        if zones:
            more = NodeSelectorRequirement(key, "In", zones)
            terms = [
                NodeSelectorTerm((*t.match_expressions, more), t.match_fields) for t in terms or [NodeSelectorTerm()]
            ]
    return renamed(terms or [], BETA_REGION, GA_REGION) if zone == BETA_ZONE and BETA_REGION in keys else terms


def zone_label(keys: list[str], labels: list[str]) -> str:
    """The one that the volume speaks of: its affinity first, then its labels; of the two spellings the newer first."""
    for place in (keys, labels):
        for key in (GA_ZONE, BETA_ZONE):
            if key in place:
                return key
    return GA_ZONE


def renamed(terms: list[NodeSelectorTerm], old: str, new: str) -> list[NodeSelectorTerm]:
    return [
        NodeSelectorTerm(
            tuple(
                msgspec.structs.replace(one, key=new if one.key == old else one.key) for one in term.match_expressions
            ),
            term.match_fields,
        )
        for term in terms
    ]


# --- what serves a claim ----------------------------------------------------------------------------------------------


def serve(claims: list[PersistentVolumeClaim], node: Node, world: World, found: Choice) -> None:
    selected = [claim.metadata.annotations.get(SELECTED) for claim in claims]
    if any(name not in (None, node.metadata.name) for name in selected):
        found.reasons.add(NOTHING_TO_BIND)
        return
    to_be_made = [claim for claim in claims if SELECTED in claim.metadata.annotations]
    for claim in sorted((claim for claim in claims if SELECTED not in claim.metadata.annotations), key=size):
        volume = best_volume(claim, node, world, found.bound)
        if volume is None:
            to_be_made.append(claim)
        else:
            found.bound[volume.metadata.name] = claim.key
    for claim in to_be_made:
        reason = cannot_be_made(claim, node, world)
        if reason:
            found.reasons.add(reason)
            return
    found.made = {claim.key for claim in to_be_made}


def size(claim: PersistentVolumeClaim) -> int:
    return nano_value(claim.spec.resources.requests["storage"])


def capacity(volume: PersistentVolume) -> int:
    return nano_value(volume.spec.capacity["storage"])


def best_volume(
    claim: PersistentVolumeClaim, node: Node, world: World, taken: Iterable[str]
) -> PersistentVolume | None:
    names = [one.metadata.name for one in world.all(PersistentVolume)]
    volumes = [world.see(PersistentVolume, name) for name in names if name not in taken]
    fitting = [volume for volume in volumes if could_serve(volume, claim)]
    set_aside = [volume for volume in fitting if volume.spec.claim_ref is not None]
    if set_aside:
        return set_aside[0] if is_admitted(terms_of(set_aside[0]), node) else None
    free = [volume for volume in fitting if is_wanted(volume, claim) and is_admitted(terms_of(volume), node)]
    return min(free, key=capacity, default=None)


def could_serve(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    owner = volume.spec.claim_ref
    of_nobody_else = owner is None or (
        (owner.namespace, owner.name) == (claim.metadata.namespace, claim.metadata.name)
        and owner.uid in ("", claim.metadata.uid)
    )
    return (
        of_nobody_else
        and volume.storage_class == claim.storage_class
        and capacity(volume) >= size(claim)
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
        and not volume.metadata.deletion_timestamp
    )


def is_wanted(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    return (
        volume.status.phase == "Available"
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (selector is None or parse_label_selector(selector).matches(volume.metadata.labels))
    )


def cannot_be_made(claim: PersistentVolumeClaim, node: Node, world: World) -> str:
    storage_class = world.find(StorageClass, claim.storage_class)
    terms = storage_class.allowed_topologies
    if storage_class.provisioner == "kubernetes.io/no-provisioner" or (terms and not any(allows(terms, node))):
        return NOTHING_TO_BIND
    driver = world.find(CSIDriver, storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return ""
    if any(is_reported(one, claim, node, world) for one in world.all(CSIStorageCapacity)):
        return ""
    return NO_SPACE


def allows(terms: tuple[TopologySelectorTerm, ...], node: Node) -> Iterator[bool]:
    for term in terms:
        expressions = term.match_label_expressions
        yield bool(expressions) and all(node.metadata.labels.get(one.key) in one.values for one in expressions)


# --- how full the storage would be (with the gate StorageCapacityScoring) ---------------------------------------------


def capacity_points(pod: Pod, node: Node, world: World, shape: list[tuple[int, int]]) -> int:
    """Points of a node that passes; `shape` is (percent, 0 to 10) in rising order."""
    found = choice(pod, node, world)
    classes = storage_of_volumes(found, world) if found.bound else storage_to_be_made(pod, found, node, world)
    points = [class_points(requested, there, shape) for requested, there in classes.values()]
    return int(Fraction(sum(points), len(points)) + Fraction(1, 2)) if points else 0


def storage_of_volumes(found: Choice, world: World) -> dict[str, tuple[int, int]]:
    """Per class what is asked of its volumes, and what they have."""
    classes: dict[str, tuple[int, int]] = {}
    for name, key in found.bound.items():
        volume, claim = world.see(PersistentVolume, name), world.see(PersistentVolumeClaim, key)
        requested, there = classes.get(volume.spec.storage_class_name, (0, 0))
        requested += value(claim.spec.resources.requests["storage"])
        classes[volume.spec.storage_class_name] = requested, there + value(volume.spec.capacity["storage"])
    return classes


def storage_to_be_made(pod: Pod, found: Choice, node: Node, world: World) -> dict[str, tuple[int, int]]:
    """Per class what is asked for, and what is told for its last claim: the largest capacity that would do.

    Claims whose node was selected before come first, as the pod names them; the others follow from the smallest up.
    """
    classes: dict[str, tuple[int, int]] = {}
    keys = {claim_key(pod, volume): None for volume in pod.spec.volumes if needs_claim(volume)}
    claims = [world.see(PersistentVolumeClaim, key) for key in keys if key in found.made]
    given = [claim for claim in claims if SELECTED in claim.metadata.annotations]
    in_order = given + sorted((claim for claim in claims if claim not in given), key=size)
    for claim in in_order:
        wanted = value(claim.spec.resources.requests["storage"])
        driver = world.find(CSIDriver, world.find(StorageClass, claim.storage_class).provisioner)
        if driver is None or not driver.spec.storage_capacity:
            continue
        reported = [one for one in world.all(CSIStorageCapacity) if is_reported(one, claim, node, world)]
        requested, _ = classes.get(claim.storage_class, (0, 0))
        largest = max(value(one.capacity) if one.capacity is not None else 0 for one in reported)
        classes[claim.storage_class] = requested + wanted, largest
    return classes


def is_reported(one: CSIStorageCapacity, claim: PersistentVolumeClaim, node: Node, world: World) -> bool:
    sees = one.node_topology is not None and parse_label_selector(one.node_topology).matches(node.metadata.labels)
    limit = one.capacity if one.maximum_volume_size is None else one.maximum_volume_size
    wanted = claim.spec.resources.requests["storage"]
    if one.storage_class_name != claim.storage_class or not sees or limit is None:
        return False
    return nano_value(limit) >= nano_value(wanted) if world.compares_exactly else value(limit) >= value(wanted)


def class_points(requested: int, there: int, shape: list[tuple[int, int]]) -> int:
    percent = 100 if there == 0 or requested > there else requested * 100 // there
    corners = [(at, score * 10) for at, score in shape]
    below = [corner for corner in corners if corner[0] < percent]
    above = [corner for corner in corners if corner[0] >= percent]
    if not below or not above:
        return (above or below)[0 if above else -1][1]
    (x0, y0), (x1, y1) = below[-1], above[0]
    return y0 + int(Fraction((y1 - y0) * (percent - x0), x1 - x0))
