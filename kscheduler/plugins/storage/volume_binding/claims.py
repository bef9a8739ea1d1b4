"""The pod's claims: which are bound, and which still have to be bound."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from kscheduler.api.meta import KubeObject
from kscheduler.api.storage import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import (
    CLAIM,
    POD,
    VOLUME,
    Subject,
    Volumes,
    claim_name,
    claim_not_found,
    ownership_problem,
)
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error, unresolvable
from kscheduler.plugins.storage.volume_binding.reach import reaches

LOST = "Lost"


class PodClaims(msgspec.Struct, frozen=True):
    """Claims in the order of the pod's volumes, each once.

    Upstream looks for a volume for each mention of a claim, so that a pod that mounts a claim twice needs two disks for
    it, and reserves both.
    """

    bound: tuple[PersistentVolumeClaim, ...] = ()
    """Claims that are bound to their volumes."""
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    """Unbound claims that wait for their first consumer."""


def pod_claims(pod: PodInfo, volumes: Volumes) -> PodClaims | Status:
    """The pod's claims, or a status with the reason why the pod cannot be placed now."""
    found = _usable_claims(pod, volumes)
    if isinstance(found, Status):
        return found
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    is_waiting = False
    for claim in found:
        if claim.is_fully_bound:
            bound.append(claim)
            continue
        waits_for_consumer = _waits_for_consumer(claim, volumes)
        if isinstance(waits_for_consumer, Status):
            return waits_for_consumer
        if waits_for_consumer and not claim.spec.volume_name:
            delayed.append(claim)
        else:
            is_waiting = True
    if is_waiting:
        return unresolvable("pod has unbound immediate PersistentVolumeClaims")
    return PodClaims(tuple(bound), tuple(delayed))


def _usable_claims(pod: PodInfo, volumes: Volumes) -> list[PersistentVolumeClaim] | Status:
    claims: dict[str, PersistentVolumeClaim] = {}
    for volume in pod.pod.spec.volumes:
        name = claim_name(pod.pod, volume)
        if name is None:
            continue
        is_ephemeral = volume.persistent_volume_claim is None
        claim = volumes.claim(pod.namespace, name)
        if claim is None:
            waiting = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return unresolvable(waiting if is_ephemeral else claim_not_found(name))
        problem = _problem(claim) or (ownership_problem(pod.pod, claim) if is_ephemeral else "")
        if problem:
            return unresolvable(problem)
        claims[name] = claim
    return list(claims.values())


def _problem(claim: PersistentVolumeClaim) -> str:
    name = claim.metadata.name
    if claim.status.phase == LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{claim.spec.volume_name}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    return ""


def _waits_for_consumer(claim: PersistentVolumeClaim, volumes: Volumes) -> bool | Status:
    """Whether the claim's volume is chosen when a pod is placed; without a (known) class it is chosen at once."""
    name = claim.storage_class
    storage_class = volumes.storage_class(name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        return error(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def selected_node(claim: PersistentVolumeClaim) -> str | None:
    """The node that the claim's volume has to be provisioned for, if that was decided before."""
    return claim.metadata.annotations.get(SELECTED_NODE)


# Whether the volumes that a pod waits for are bound: judged by what the API server shows, never by what was assumed.
#
# The volume controller and the provisioner answer through the objects: the claim becomes bound, or the selected node is
# removed from it (no volume could be made there). Every other state that can no longer succeed ends the wait as well:
# the pod is then tried again with the current objects.


@dataclass(slots=True)
class Undertaking:
    """The objects to write for a pod on a node; once written, the objects as the API server returned them."""

    pod: PodInfo
    node_name: str
    bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    """Volumes with the claims that they have to be bound to."""
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)
    """Claims whose volumes have to be provisioned for the node."""

    def subjects(self) -> Iterator[Subject]:
        """The objects that `progress` reads. It also reads node labels and migrated plugins, which send no signal."""
        yield POD, self.pod.uid
        for volume, claim in self.bindings:
            yield VOLUME, volume.key
            yield CLAIM, claim.key
        for claim in self.provisions:
            yield CLAIM, claim.key

    def progress(self, volumes: Volumes, nodes: NodeTable) -> Status | None:
        """Success once all is bound, an Error when that has become impossible, `None` while it is under way."""
        if nodes.row_of(self.node_name) < 0:
            return error(f'failed to get node "{self.node_name}": node "{self.node_name}" not found')
        if not volumes.is_on(self.pod.uid, self.node_name):
            return error(f'pod does not exist any more: pod "{self.pod.name}" not found')
        for volume, claim in self.bindings:
            status = self._bound(volume, claim, volumes, nodes)
            if status is not SUCCESS:
                return status
        for claim in self.provisions:
            status = self._provisioned(claim, volumes, nodes)
            if status is not SUCCESS:
                return status
        return SUCCESS

    def _bound(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, volumes: Volumes, nodes: NodeTable
    ) -> Status | None:
        # Missing objects are errors; an older version than the one written means that the watch lags, so wait.
        name = volume.metadata.name
        shown, shown_claim = volumes.confirmed_volume(name), _shown(claim, volumes)
        if shown is None:
            return error(f'failed to check binding: persistentvolumes "{name}" not found')
        if shown_claim is None:
            return error(f'failed to check binding: persistentvolumeclaims "{claim.key}" not found')
        if _is_newer(volume, shown):
            return None
        if not self._reaches(shown, volumes, nodes):
            return self._out_of_reach(name)
        if shown.spec.claim_ref is None or not shown.spec.claim_ref.uid:
            return error(f'ClaimRef got reset for pv "{name}"')
        if not shown_claim.is_fully_bound:
            return None
        if shown_claim.spec.volume_name != name:
            other = shown_claim.spec.volume_name
            return error(f'PVC "{claim.metadata.name}" was bound to another pv "{other}" instead of "{name}"')
        return SUCCESS

    def _provisioned(self, claim: PersistentVolumeClaim, volumes: Volumes, nodes: NodeTable) -> Status | None:
        # The provisioner refuses a node by removing the selected node. The volume may show later than the claim.
        shown = _shown(claim, volumes)
        if shown is None:
            return error(f'failed to check provisioning pvc: persistentvolumeclaims "{claim.key}" not found')
        if _is_newer(claim, shown):
            return None
        if not shown.metadata.annotations:
            return error(f'selectedNode annotation reset for PVC "{shown.metadata.name}"')
        if selected_node(shown) != self.node_name:
            return error(f'provisioning failed for PVC "{shown.metadata.name}"')
        if shown.spec.volume_name:
            volume = volumes.confirmed_volume(shown.spec.volume_name)
            if volume is None:
                return None  # its event may come later; if the volume is deleted, the claim is unbound
            if not self._reaches(volume, volumes, nodes):
                return self._out_of_reach(volume.metadata.name)
        return SUCCESS if shown.is_fully_bound else None

    def _reaches(self, volume: PersistentVolume, volumes: Volumes, nodes: NodeTable) -> bool:
        node = nodes.info(nodes.row_of(self.node_name)).node
        return node is not None and reaches(volume, volumes, node)

    def _out_of_reach(self, name: str) -> Status:
        text = "no matching NodeSelectorTerms"
        return error(f'pv "{name}" node affinity doesn\'t match node "{self.node_name}": {text}')


def _shown(claim: PersistentVolumeClaim, volumes: Volumes) -> PersistentVolumeClaim | None:
    """The claim as the API server shows it; a claim created again under the same name is another claim."""
    found = volumes.confirmed_claim(claim.metadata.namespace, claim.metadata.name)
    return found if found is not None and found.metadata.uid == claim.metadata.uid else None


def _is_newer(written: KubeObject, shown: KubeObject) -> bool:
    """Whether the watch has not yet shown what was written. The versions of an object are growing numbers."""
    own, seen = written.metadata.resource_version, shown.metadata.resource_version
    return own.isdecimal() and seen.isdecimal() and int(own) > int(seen)
