"""The API server of a never-stuck run as writers of claims see it: each write is applied at once."""

import asyncio
from copy import deepcopy
from typing import Any

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import (
    DELETE_PROTECTION,
    AllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from kscheduler.api.kinds import RESOURCE_CLAIMS
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, APIStatus
from tests.scheduling.never_stuck.server import Server, Tree


class StoredClaims:
    """Implements `scheduling.claims.claim_storage.ClaimStorage`."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.refusal: asyncio.Future[None] | None = None
        """Set: a write of an allocation waits until this is done, and is refused."""

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The claim as it is stored. Raises `APIError` where it is gone."""
        return self._stored(self._tree(f"{namespace}/{name}"))

    async def protect(self, stored: StoredClaim) -> StoredClaim:
        """With the finalizer."""
        return self._put(stored, lambda tree: tree["metadata"].update(finalizers=[DELETE_PROTECTION]))

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Without the finalizer."""
        return self._put(stored, lambda tree: tree["metadata"].pop("finalizers", None))

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """With allocation and reservation. Raises `APIError` where a test refuses it."""
        del allocated_at
        if self.refusal is not None:
            await self.refusal
            raise APIError(APIStatus(kind="Status", code=403, message="refused", reason="Forbidden"))

        def change(tree: Tree) -> None:
            status = tree.setdefault("status", {})
            status.setdefault("reservedFor", []).append(msgspec.to_builtins(consumer))
            if allocation is not None:
                status["allocation"] = msgspec.to_builtins(allocation)

        return self._put(stored, change)

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """Without allocation and reservations."""
        return self._put(stored, lambda tree: tree.update(status={}))

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """Without the reservation of one pod."""
        del claim_uid
        stored = await self.get_claim(namespace, name)

        def change(tree: Tree) -> None:
            reserved = tree["status"].get("reservedFor", [])
            tree["status"]["reservedFor"] = [entry for entry in reserved if entry["uid"] != pod_uid]

        return self._put(stored, change)

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """A claim with a name of its own."""
        tree = msgspec.to_builtins(claim)
        tree["metadata"]["name"] = f"{generate_name}{self._server.version}"
        return self._stored(self._server.put(RESOURCE_CLAIMS, tree))

    async def delete(self, claim: ResourceClaim) -> None:
        """The claim is gone."""
        self._server.delete(RESOURCE_CLAIMS, claim.key)

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Nobody reads it here."""

    def _tree(self, key: str) -> Tree:
        tree = self._server.get(RESOURCE_CLAIMS, key)
        if tree is None:
            raise APIError(APIStatus(kind="Status", code=404, message="not found", reason="NotFound"))
        return tree

    def _put(self, stored: StoredClaim, change: Any) -> StoredClaim:
        tree = self._tree(stored.claim.key)
        if tree["metadata"]["resourceVersion"] != stored.claim.metadata.resource_version:
            raise APIError(APIStatus(kind="Status", code=409, message="modified", reason="Conflict"))
        change(tree)
        return self._stored(self._server.put(RESOURCE_CLAIMS, tree))

    def _stored(self, tree: Tree) -> StoredClaim:
        return StoredClaim(convert(tree, ResourceClaim), deepcopy(tree))
