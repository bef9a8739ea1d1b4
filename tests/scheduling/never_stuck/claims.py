"""The API server of a never-stuck run as the scheduler's writes reach it: applied at once, unless they conflict."""

import asyncio

import msgspec
from msgspec.structs import replace

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS, Kind
from kscheduler.api.meta import Condition, KubeObject
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, APIStatus
from kscheduler.in_memory.claims import InMemoryClaims
from kscheduler.in_memory.cluster import InMemoryCluster, T
from tests.scheduling.never_stuck.server import Server


class WrittenObjects(InMemoryCluster):
    """Requests of the scheduler change the server's objects; the watches show that when they are delivered."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self.server = server

    def current(self, pod: Pod) -> Pod | None:
        """The pod as the server has it."""
        tree = self.server.objects[PODS].get(pod.key)
        return convert(tree, Pod) if tree is not None and tree["metadata"]["uid"] == pod.metadata.uid else None

    def write(self, kind: Kind, old: KubeObject, new: T) -> T:
        """A request has changed an object."""
        tree = msgspec.json.decode(msgspec.json.encode(new))
        known = self.server.get(kind, new.key) or {"metadata": {}, "spec": {}}
        # What has its default is left out of a tree: that has an effect in a status, and nothing else is reset.
        parts = {part: {**known[part], **tree.get(part, {})} for part in ("metadata", "spec")}
        return convert(self.server.put(kind, {**parts, "status": tree.get("status", {})}), type(new))

    def apply_eviction(self, pod: Pod, condition: Condition) -> None:
        """A victim begins to terminate; the test, which plays the kubelet, ends it."""
        metadata = replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z")
        preempted = Condition(type=condition.type, status="True", reason=condition.reason)
        self.write(PODS, pod, replace(pod, metadata=metadata, status=replace(pod.status, conditions=(preempted,))))


class StoredClaims(InMemoryClaims):
    """Claims to devices of that server."""

    def __init__(self, objects: WrittenObjects) -> None:
        super().__init__(objects)
        self._server = objects.server
        self.refusal: asyncio.Future[None] | None = None
        """Set: a write of an allocation waits until this is done, and is refused."""

    def find(self, key: str) -> ResourceClaim | None:
        """The claim as it is stored."""
        tree = self._server.objects[RESOURCE_CLAIMS].get(key)
        return None if tree is None else convert(tree, ResourceClaim)

    def put(self, claim: ResourceClaim) -> ResourceClaim:
        """A claim is written. Raises `APIError` where somebody else was faster."""
        known = self.find(claim.key)
        if known is not None and known.metadata.resource_version != claim.metadata.resource_version:
            raise APIError(APIStatus(kind="Status", code=409, message="modified", reason="Conflict"))
        return self._cluster.write(RESOURCE_CLAIMS, claim, claim)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """With allocation and reservation. Raises `APIError` where a test refuses it."""
        if self.refusal is not None:
            await self.refusal
            raise APIError(APIStatus(kind="Status", code=403, message="refused", reason="Forbidden"))
        return await super().reserve(stored, consumer, allocation, allocated_at)

    async def delete(self, claim: ResourceClaim) -> None:
        """The claim is gone."""
        self._server.delete(RESOURCE_CLAIMS, claim.key)

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Nobody reads it here."""
