"""What else the pod's volumes could be: smaller, of another class, reachable from elsewhere, or less in the way.

a claim without a volume   a smaller size, another storage class, a class without its allowed topologies
a claim with a volume      the same data in another zone
the limit of a node        an attachment goes that no pod of the node uses

No command changes a claim that a controller makes from a template (`makers`).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.api.quantity import Quantity, QuantityError
from kscheduler.api.quantity import value as whole_value
from kscheduler.api.storage import BETA_STORAGE_CLASS, STORAGE, PersistentVolume, PersistentVolumeClaim
from kscheduler.api.well_known import BETA_REGION, BETA_ZONE, REGION, ZONE
from kscheduler.explain.suggestions.kinds.resources import quantity_text
from kscheduler.explain.suggestions.kubectl_lines import kubectl, recreated
from kscheduler.explain.suggestions.makers import template_note
from kscheduler.explain.suggestions.object_changes import ADD, REMOVE, REPLACE, ObjectChange, Operation, pointer
from kscheduler.explain.suggestions.suggestion import HALF, Patch, Step, SuggestionKind
from kscheduler.explain.suggestions.trials import BY_VOLUMES, Trials
from kscheduler.framework.cluster.volumes import BrokenClaimError, claim_name
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.scenario.scenario import ClusterObjects

_ZONES: Final = (ZONE, REGION, BETA_ZONE, BETA_REGION)
_ZONES_TRIED: Final = 3
_SIZES_TRIED: Final = 8
# Of those with too many volumes.
_NODES_TRIED: Final = 8
_SIZE_OF_CLASS: Final = 0.6
_SIZE_OF_ZONE: Final = 0.9


class UnboundClaimChange(SuggestionKind, frozen=True):
    """A kind of change of a claim that has no volume yet: it is deleted and made again."""

    is_of_the_pod = True
    touched = BY_VOLUMES

    claim: str

    def command(self, step: Step) -> str:
        return recreated("pvc", step.changes[0])

    def no_command(self, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
        return template_note(self.claim, pod, objects, is_new=is_new)


class ShrinkClaim(UnboundClaimChange, frozen=True):
    """A smaller claim. Proposes all changes of the pod's volumes, claim by claim."""

    kind = "claimSize"
    is_paired_with_demands = True
    is_paired_with_claims = True

    size: int
    to: int

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """Of one claim the best of a kind comes first."""
        if not trials.objections.may_help(cls.touched):
            return
        volumes, pod = trials.cache.volumes, trials.pod.pod
        names = (claim_name(pod, volume) for volume in pod.spec.volumes)
        for name in dict.fromkeys(name for name in names if name is not None):
            claim = volumes.confirmed_claim(pod.metadata.namespace, name)
            if claim is None:
                continue
            if claim.spec.volume_name:
                yield from _other_zones(claim, trials)
            else:
                yield from _smaller(claim, trials)
                yield from _other_classes(claim, trials)
                yield from _wider_class(claim, trials)
        if pod.spec.volumes:
            yield from _detached(trials)

    def text(self, step: Step) -> str:
        smaller, now = (quantity_text(STORAGE, size) for size in (self.to, self.size))
        return f"request {smaller} in claim {self.claim} instead of {now}"


class ChangeClaimClass(UnboundClaimChange, frozen=True, rename={"storage_class": "class"}):
    """A claim of another storage class."""

    kind = "claimClass"

    storage_class: str
    to: str

    def text(self, step: Step) -> str:
        return f"let claim {self.claim} be of storage class {self.to} instead of {self.storage_class or 'none'}"


class WidenStorageClass(SuggestionKind, frozen=True, rename={"storage_class": "class"}):
    """The claim's storage class loses its allowed topologies."""

    kind = "storageClassTopology"
    touched = BY_VOLUMES

    claim: str
    storage_class: str

    def text(self, step: Step) -> str:
        of = f"storage class {self.storage_class} of claim {self.claim}"
        return f"let {of} make volumes anywhere (no allowedTopologies)"

    def command(self, step: Step) -> str:
        return recreated("storageclass", step.changes[0])


class MoveVolume(SuggestionKind, frozen=True):
    """The data of a volume elsewhere; or that of all the pod's volumes, where several are in different places."""

    kind = "claimZone"
    touched = BY_VOLUMES
    by_kubectl = False

    claim: str
    volume: str
    to: str | None
    """The zone; `None`: wherever other nodes can reach it."""

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        """All volumes at once; one by one they are proposed by `ShrinkClaim`."""
        if not trials.objections.may_help(cls.touched):
            return
        volumes, pod = trials.cache.volumes, trials.pod.pod
        changes: list[ObjectChange] = []
        names: list[str] = []
        seen: set[str] = set()  # volumes: of two claims that name one, at most one has it
        for name in dict.fromkeys(claim_name(pod, volume) for volume in pod.spec.volumes):
            claim = volumes.confirmed_claim(pod.metadata.namespace, name) if name is not None else None
            volume = volumes.confirmed_volume(claim.spec.volume_name) if claim is not None else None
            patch = _anywhere(volume) if volume is not None else ()
            if claim is not None and volume is not None and patch and volume.metadata.name not in seen:
                seen.add(volume.metadata.name)
                changes.append(ObjectChange("persistentvolumes", "", volume.metadata.name, patch))
                names.append(claim.metadata.name)
        if len(changes) > 1:
            facts = cls(", ".join(names), ", ".join(change.name for change in changes), None)
            yield Step(facts, tuple(changes), 1.0, facts.claim)

    def text(self, step: Step) -> str:
        volume = f"volume {self.volume} of claim {self.claim}"
        if self.to is None:
            return f"move the data of {volume} to a volume that other nodes can reach"
        return f"move the data of {volume} to a volume in zone {self.to}"


class DetachVolume(SuggestionKind, frozen=True):
    """An attachment goes that no pod of the node uses."""

    kind = "detachVolume"
    touched = BY_VOLUMES

    node: str
    volume: str
    attachment: str

    def text(self, step: Step) -> str:
        return f"detach volume {self.volume}, which no pod uses there, from node {self.node}"

    def command(self, step: Step) -> str:
        return kubectl("delete", "volumeattachment", step.changes[0].name)


# --- a claim without a volume -----------------------------------------------------------------------------------------


def _smaller(claim: PersistentVolumeClaim, trials: Trials) -> Iterator[Step]:
    """The sizes that volumes without a claim have, and that drivers can still make, the largest first."""
    volumes, name = trials.cache.volumes, claim.metadata.name
    now = _size(claim.spec.resources.requests.get(STORAGE))
    sizes = {_size(volume.spec.capacity.get(STORAGE)) for volume in volumes.volumes_for(claim)}
    sizes |= {_size(capacity.limit) for capacity in volumes.capacities(claim.storage_class)}
    for size in sorted((size for size in sizes if 0 < size < now), reverse=True)[:_SIZES_TRIED]:
        patch = (Operation(REPLACE, "/spec/resources/requests/storage", quantity_text(STORAGE, size)),)
        yield Step(ShrinkClaim(name, now, size), (_change_of(claim, patch),), (now - size) / now, name)


def _other_classes(claim: PersistentVolumeClaim, trials: Trials) -> Iterator[Step]:
    name = claim.metadata.name
    for other in sorted(trials.cache.volumes.storage_class_names()):
        if other == claim.storage_class:
            continue
        patch = (Operation(ADD, "/spec/storageClassName", other),)
        if BETA_STORAGE_CLASS in claim.metadata.annotations:  # it wins over the field
            patch = (Operation(REPLACE, pointer("metadata", "annotations", BETA_STORAGE_CLASS), other),)
        facts = ChangeClaimClass(name, claim.storage_class, other)
        yield Step(facts, (_change_of(claim, patch),), _SIZE_OF_CLASS, f"{name} {other}")


def _wider_class(claim: PersistentVolumeClaim, trials: Trials) -> Iterator[Step]:
    storage_class, name = trials.cache.volumes.storage_class(claim.storage_class), claim.metadata.name
    if storage_class is not None and storage_class.allowed_topologies:
        change = ObjectChange("storageclasses", "", claim.storage_class, (Operation(REMOVE, "/allowedTopologies"),))
        yield Step(WidenStorageClass(name, claim.storage_class), (change,), HALF, name)


def _change_of(claim: PersistentVolumeClaim, patch: Patch) -> ObjectChange:
    return ObjectChange("persistentvolumeclaims", claim.metadata.namespace, claim.metadata.name, patch)


def _size(quantity: Quantity | None) -> int:
    """In bytes; 0 where there is none that can be read."""
    try:
        return 0 if quantity is None else whole_value(quantity)
    except QuantityError:
        return 0


# --- a claim with a volume --------------------------------------------------------------------------------------------


def _other_zones(claim: PersistentVolumeClaim, trials: Trials) -> Iterator[Step]:
    """The volume in the zone of most nodes that would do, else reachable from anywhere."""
    volume = trials.cache.volumes.confirmed_volume(claim.spec.volume_name)
    anywhere = _anywhere(volume) if volume is not None else ()
    if volume is None or not anywhere:
        return
    here = {volume.metadata.labels[key] for key in _ZONES if key in volume.metadata.labels}
    rows = trials.rows((ObjectChange("persistentvolumes", "", volume.metadata.name, anywhere),))
    for zone in _zones(trials, rows):
        if zone not in here:
            yield _moved(claim, volume, _in_zone(volume, zone), zone)
    yield _moved(claim, volume, anywhere, None)


def _moved(claim: PersistentVolumeClaim, volume: PersistentVolume, patch: Patch, zone: str | None) -> Step:
    change = ObjectChange("persistentvolumes", "", volume.metadata.name, patch)
    facts = MoveVolume(claim.metadata.name, volume.metadata.name, zone)
    return Step(facts, (change,), _SIZE_OF_ZONE, claim.metadata.name)


def _anywhere(volume: PersistentVolume) -> Patch:
    labels = [key for key in _ZONES if key in volume.metadata.labels]
    patch = [Operation(REMOVE, pointer("metadata", "labels", key)) for key in labels]
    if volume.spec.node_affinity is not None:
        patch.append(Operation(REMOVE, "/spec/nodeAffinity"))
    return tuple(patch)


def _in_zone(volume: PersistentVolume, zone: str) -> Patch:
    """The volume's zone is another one; regions and other rules go, as they may belong to the old zone."""
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    required = {"required": {"nodeSelectorTerms": [term]}}
    op = ADD if volume.spec.node_affinity is None else REPLACE
    labels = {ZONE: zone, BETA_ZONE: zone}
    patch = [Operation(op, "/spec/nodeAffinity", required)]
    for key in (key for key in _ZONES if key in volume.metadata.labels):
        at = pointer("metadata", "labels", key)
        patch.append(Operation(REPLACE, at, labels[key]) if key in labels else Operation(REMOVE, at))
    return tuple(patch)


def _zones(trials: Trials, rows: Rows) -> list[str]:
    """The zones of most of the rows."""
    numbers, values = trials.cache.nodes.label_values(ZONE, rows)
    counts = np.bincount(numbers, minlength=1)
    ordered = np.argsort(-counts, kind="stable").tolist()
    return [zone for number in ordered if counts[number] and (zone := values[number])][:_ZONES_TRIED]


# --- the limit of a node ----------------------------------------------------------------------------------------------


def _detached(trials: Trials) -> Iterator[Step]:
    """Attachments that no pod of the node uses, on nodes where only the number of volumes is in the way."""
    volumes, nodes = trials.cache.volumes, trials.cache.nodes
    for row in trials.rows_without(("NodeVolumeLimits",), trials.pod)[:_NODES_TRIED].tolist():
        node_name = nodes.name_of(row)
        attached = volumes.attachments_on(node_name)
        used = _used_on(trials, node_name) if attached else frozenset[str]()
        for attachment in attached:
            name = attachment.spec.source.persistent_volume_name or ""
            volume = volumes.confirmed_volume(name)
            handle = "" if volume is None or volume.spec.csi is None else volume.spec.csi.volume_handle
            if f"{attachment.spec.attacher}/{handle}" not in used:
                change = ObjectChange("volumeattachments", "", attachment.metadata.name, delete=True)
                yield Step(DetachVolume(node_name, name, attachment.metadata.name), (change,), HALF)


def _used_on(trials: Trials, node_name: str) -> frozenset[str]:
    volumes = trials.cache.volumes
    found: set[str] = set()
    for pod in volumes.pods_on(node_name):
        try:
            found.update(volume.unique_name for volume in volumes.attachable(pod.pod, is_new=False))
        except BrokenClaimError:
            continue
    return frozenset(found)
