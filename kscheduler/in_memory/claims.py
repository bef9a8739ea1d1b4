"""The API server's part of claims to devices, in memory: each write is accepted, and shown at once.

`ReadyClaims` also plays drivers and the controller of claims: devices are ready as soon as they are allocated, and a
pod that is gone holds no claim.

Limits: a finalizer protects nothing, as nobody deletes a claim that is being written. Binding conditions are the
drivers' part, and nobody plays them.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.framework.rules.device_readiness import DeviceFailedError, is_ready
from kscheduler.in_memory.cluster import InMemoryCluster

FREE: Final = ResourceClaimStatus()
PROTECTED: Final[dict[str, Any]] = {"metadata": {"finalizers": [DELETE_PROTECTION]}}
UNPROTECTED: Final[dict[str, Any]] = {"metadata": {}}


class InMemoryClaims:
    """The claims of a cluster. Implements `scheduling.claims.claim_storage.ClaimStorage`."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self._cluster = cluster
        self._version = 0
        """Of the newest claim."""

    def find(self, key: str) -> ResourceClaim | None:
        """The newest state of a claim."""
        found: ResourceClaim | None = self._cluster.store(RESOURCE_CLAIMS).get(key)
        return found

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """A claim is written. Returns it in its new version."""
        self._version += 1
        written = replace(claim, metadata=replace(claim.metadata, resource_version=str(self._version)))
        self._cluster.put(RESOURCE_CLAIMS, written)
        return written

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The newest state. Raises `APIError` (404)."""
        claim = self.find(f"{namespace}/{name}")
        if claim is None:
            text = f'resourceclaims.resource.k8s.io "{name}" not found'
            raise APIError(APIStatus(kind="Status", code=404, reason="NotFound", message=text))
        return read(claim)

    async def protect(self, claim: ResourceClaim) -> StoredClaim:
        """Add its finalizer. Raises `APIError`: 404, or 409 if the claim has changed."""
        await self.check_version(claim)
        return StoredClaim(self.put(claim), PROTECTED)

    async def check_version(self, claim: ResourceClaim) -> None:
        """Raises `APIError`: 404, or 409 if the claim is no longer the stored one."""
        stored = (await self.get_claim(claim.metadata.namespace, claim.metadata.name)).claim.metadata
        if (stored.uid, stored.resource_version) != (claim.metadata.uid, claim.metadata.resource_version):
            text = f'resourceclaims.resource.k8s.io "{claim.metadata.name}": the object has been modified'
            raise APIError(APIStatus(kind="Status", code=409, reason="Conflict", message=text))

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Remove its finalizer."""
        return StoredClaim(self.put(stored.claim), UNPROTECTED)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """The allocation, if there is one, and the reservation are written."""
        status = stored.claim.status
        if allocation is not None:
            status = replace(status, allocation=replace(allocation, allocation_timestamp=allocated_at))
        return read(self.put(replace(stored.claim, status=reserved(status, consumer))))

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """The claim holds nothing any more."""
        return read(self.put(replace(stored.claim, status=FREE)))

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """A pod's reservation goes."""
        del claim_uid
        claim = (await self.get_claim(namespace, name)).claim
        left = tuple(user for user in claim.status.reserved_for if user.uid != pod_uid)
        return read(self.put(replace(claim, status=replace(claim.status, reserved_for=left))))

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """A claim for extended resources."""
        namespace, number = claim.metadata.namespace, 1
        while self.find(f"{namespace}/{generate_name}{number}") is not None:
            number += 1
        name = f"{generate_name}{number}"
        metadata = replace(claim.metadata, name=name, uid=f"uid-of-{namespace}/{name}")
        return read(self.put(replace(claim, metadata=metadata)))

    async def delete(self, claim: ResourceClaim) -> None:
        """The claim goes."""
        self._cluster.remove(RESOURCE_CLAIMS, claim.key)

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """The pod's status names the claim for its extended resources."""
        current = self._cluster.current(pod)
        if current is not None:
            changed = replace(current.status, extended_resource_claim_status=status)
            self._cluster.write(PODS, current, replace(current, status=changed))


class ReadyClaims(InMemoryClaims):
    """Claims whose devices are ready as soon as they are allocated."""

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The claim with its devices ready. Raises `APIError` (404)."""
        return read(_as_if_ready((await super().get_claim(namespace, name)).claim))

    async def protect(self, claim: ResourceClaim) -> StoredClaim:
        """Nothing is deleted meanwhile. Raises `APIError` (404, 409)."""
        await self.check_version(claim)
        return StoredClaim(claim, PROTECTED)

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Nothing is deleted meanwhile."""
        return StoredClaim(stored.claim, UNPROTECTED)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """The devices are ready as soon as they are allocated, and nobody reads when that was."""
        del allocated_at
        status = stored.claim.status if allocation is None else replace(stored.claim.status, allocation=allocation)
        written = replace(stored.claim, status=reserved(status, consumer))
        return read(self.put(_as_if_ready(written)))

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """The pod's status names the claim for its extended resources; the watch shows it with the next change."""
        before = self._cluster.current(pod)
        if before is not None:
            changed = replace(before.status, extended_resource_claim_status=status)
            self._cluster.store(PODS).put(pod.key, replace(before, status=changed))

    def pod_is_gone(self, pod: Pod) -> None:
        """The claims that were made for it go, too; others lose its reservation, the last one the devices."""
        uid = pod.metadata.uid
        for key in claim_keys(pod):
            claim = self.find(key)
            if claim is None:
                continue
            owner = claim.metadata.controller
            if owner is not None and owner.uid == uid:
                self.remove(claim)
            else:
                self.end_reservation(claim, uid)

    def remove(self, claim: ResourceClaim) -> None:
        """The claim is gone."""
        self._cluster.remove(RESOURCE_CLAIMS, claim.key)

    def end_reservation(self, claim: ResourceClaim, pod_uid: str) -> None:
        """A pod's reservation goes, if there is one; with the last one the devices."""
        left = tuple(user for user in claim.status.reserved_for if user.uid != pod_uid)
        if len(left) < len(claim.status.reserved_for):
            self.put(replace(claim, status=replace(claim.status, reserved_for=left) if left else FREE))


def claim_keys(pod: Pod) -> Iterator[str]:
    """The claims of the pod, with that for its extended resources."""
    namespace, status = pod.metadata.namespace, pod.status
    made = (entry.resource_claim_name for entry in status.resource_claim_statuses)
    extended = status.extended_resource_claim_status
    names = [*(entry.resource_claim_name for entry in pod.spec.resource_claims), *made]
    if extended is not None:
        names.append(extended.resource_claim_name)
    return (f"{namespace}/{name}" for name in dict.fromkeys(names) if name)


def read(claim: ResourceClaim) -> StoredClaim:
    """A claim as it is read: one that is allocated has its finalizer."""
    return StoredClaim(claim, PROTECTED if claim.status.allocation is not None else UNPROTECTED)


def reserved(status: ResourceClaimStatus, consumer: ResourceClaimConsumerReference) -> ResourceClaimStatus:
    """With a reservation for the consumer."""
    if consumer.uid in [user.uid for user in status.reserved_for]:
        return status
    return replace(status, reserved_for=(*status.reserved_for, consumer))


def _as_if_ready(claim: ResourceClaim) -> ResourceClaim:
    """The claim without conditions that its devices would still have to meet; one that has failed stays as it is."""
    allocation = claim.status.allocation
    try:
        if allocation is None or is_ready(claim):
            return claim
    except DeviceFailedError:
        return claim
    results = tuple(
        replace(each, binding_conditions=(), binding_failure_conditions=()) for each in allocation.devices.results
    )
    ready = replace(allocation, devices=replace(allocation.devices, results=results))
    return replace(claim, status=replace(claim.status, allocation=ready))
