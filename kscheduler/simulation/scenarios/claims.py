"""The stand-in's claims to devices: writes are accepted at once, and shown with the next events."""

from typing import Any

import msgspec

from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.api.meta import ObjectMeta
from kscheduler.client.errors import APIError, StatusAnswer
from kscheduler.client.writes.claims import StoredClaim
from kscheduler.simulation.scenarios.cluster import StandIn

_replace = msgspec.structs.replace
_PROTECTED: dict[str, Any] = {"metadata": {"finalizers": [DELETE_PROTECTION]}}
_UNPROTECTED: dict[str, Any] = {"metadata": {}}


class StandInClaims:
    """Implements `scheduling.claims.claim_storage.ClaimStorage`."""

    def __init__(self, cluster: StandIn) -> None:
        self._cluster = cluster
        self._unseen: dict[str, ResourceClaim] = {}
        """Claims by key whose newest version is not shown yet."""
        self._created = 0

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The newest version. Raises `APIError` (404)."""
        key = f"{namespace}/{name}"
        shown: ResourceClaim | None = self._cluster.informers[RESOURCE_CLAIMS].store.get(key)
        unseen = self._unseen.get(key)
        if unseen is not None and (shown is None or shown is unseen):
            del self._unseen[key]  # it has been shown, and may be gone since
            unseen = None
        claim = unseen or shown
        if claim is None:
            raise APIError(StatusAnswer(kind="Status", code=404, reason="NotFound", message=f"{key} not found"))
        return StoredClaim(claim, _PROTECTED if claim.status.allocation is not None else _UNPROTECTED)

    async def protect(self, stored: StoredClaim) -> StoredClaim:
        """Accept the finalizer."""
        return StoredClaim(self._modified(stored.claim, stored.claim.status), _PROTECTED)

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Accept that it goes."""
        return StoredClaim(self._modified(stored.claim, stored.claim.status), _UNPROTECTED)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """Accept an allocation and a reservation."""
        status = stored.claim.status
        given = status.allocation if allocation is None else _replace(allocation, allocation_timestamp=allocated_at)
        status = _replace(status, allocation=given, reserved_for=(*status.reserved_for, consumer))
        return StoredClaim(self._modified(stored.claim, status), stored.tree)

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """Accept that the claim holds nothing."""
        return StoredClaim(self._modified(stored.claim, ResourceClaimStatus()), stored.tree)

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """Accept that a pod's reservation goes."""
        del claim_uid
        stored = await self.get_claim(namespace, name)
        status = stored.claim.status
        users = tuple(user for user in status.reserved_for if user.uid != pod_uid)
        return StoredClaim(self._modified(stored.claim, _replace(status, reserved_for=users)), stored.tree)

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """Accept a claim for extended resources."""
        self._created += 1
        name = f"{generate_name}{self._created}"
        meta: ObjectMeta = _replace(claim.metadata, name=name, uid=f"uid-of-{name}", resource_version="1")
        created = _replace(claim, metadata=meta)
        self._cluster.create(RESOURCE_CLAIMS, created)
        return StoredClaim(created, _UNPROTECTED)

    async def delete(self, claim: ResourceClaim) -> None:
        """Accept that a claim goes."""
        self._cluster.delete(RESOURCE_CLAIMS, claim)

    async def tell_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Accept a pod's status."""
        self._cluster.change(PODS, _replace(pod, status=_replace(pod.status, extended_resource_claim_status=status)))

    def _modified(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaim:
        changed = _replace(claim, status=status)
        self._cluster.change(RESOURCE_CLAIMS, changed)
        self._unseen[changed.key] = changed
        return changed
