"""The pod's claims: which are bound, and which still have to be bound."""

from dataclasses import dataclass

from kscheduler.api.storage import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import Volumes, claim_name, claim_not_found, ownership_problem
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, error, unresolvable

LOST = "Lost"


@dataclass(frozen=True, slots=True)
class PodClaims:
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
