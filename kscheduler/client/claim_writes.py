"""A scheduler's writes to claims: of devices, and of volumes.

A resource claim has fields that we do not know. So its status is changed in the JSON that the API server has answered
with, and sent back (PUT) with that resource version: the API server answers 409 if the claim has changed. The finalizer
is added by a patch with the version that the decision was based on, so the claim need not be read before. A reservation
is taken away by a patch, which needs no version.

Volumes and their claims get merge patches with UID and resource version of the object that the decision was based on:
409 if it has changed meanwhile, so no volume is given away twice. Patches rather than updates, because our typed
objects keep only the fields that a scheduler reads.
"""

from typing import Any, Final
from urllib.parse import quote

import msgspec

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import DELETE_PROTECTION, AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS, Kind
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from kscheduler.client.pod_writes import BIND_SECONDS, pod_path
from kscheduler.client.rest import MERGE, STRATEGIC_MERGE, APIClient

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_claims: Decoder[ResourceClaim] = Decoder(ResourceClaim)
_volumes: Decoder[PersistentVolume] = Decoder(PersistentVolume)
_volume_claims: Decoder[PersistentVolumeClaim] = Decoder(PersistentVolumeClaim)
# As for a Binding: the claim is read after that.
WRITE_SECONDS: Final = BIND_SECONDS


class StoredClaim(msgspec.Struct, frozen=True):
    """A claim as the API server has it."""

    claim: ResourceClaim
    tree: dict[str, Any]
    """All of its fields. It must not be changed."""

    @classmethod
    def from_json(cls, body: bytes) -> "StoredClaim":
        """Raises `UndecodableError`."""
        try:
            tree = _decode(body)
        except msgspec.DecodeError as failure:
            raise UndecodableError(f"not a claim: {failure}") from None
        return cls(_claims.decode(body), tree)

    @property
    def is_protected(self) -> bool:
        """Whether it has the finalizer of allocated claims."""
        return DELETE_PROTECTION in (self.tree["metadata"].get("finalizers") or ())

    def is_reserved_for(self, uid: str) -> bool:
        """Whether the pod with this UID may use it."""
        return any(consumer.uid == uid for consumer in self.claim.status.reserved_for)


class ApiClaimWriter:
    """Each method is one request. All raise as `APIClient`'s do, and `UndecodableError` for an unreadable answer."""

    def __init__(self, client: APIClient) -> None:
        self._client = client

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """The claim as the API server has it now."""
        return StoredClaim.from_json(await self._client.get(claim_path(namespace, name)))

    async def protect(self, claim: ResourceClaim) -> StoredClaim:
        """Add the finalizer of allocated claims, if it is not there; refused (409) if the claim has changed."""
        return await self._patch_metadata(claim.metadata, {"finalizers": [DELETE_PROTECTION]})

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Take the finalizer away."""
        gone = {"$deleteFromPrimitiveList/finalizers": [DELETE_PROTECTION]}
        return await self._patch_metadata(stored.claim.metadata, gone)

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """Write the allocation, if there is one, and add a reservation, if it is not there.

        `allocated_at` (RFC 3339) is written where the allocation has no timestamp yet; `None` writes none.
        """
        status = dict(stored.tree.get("status") or {})
        if allocation is not None:
            status["allocation"] = msgspec.to_builtins(allocation)
        if allocated_at is not None and not status["allocation"].get("allocationTimestamp"):
            status["allocation"] = {**status["allocation"], "allocationTimestamp": allocated_at}
        if not stored.is_reserved_for(consumer.uid):
            status["reservedFor"] = [*(status.get("reservedFor") or ()), msgspec.to_builtins(consumer)]
        return await self._put_status(stored, status)

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """Clear allocation, reservations and the status of devices."""
        cleared = ("allocation", "reservedFor", "devices")
        status = {name: part for name, part in (stored.tree.get("status") or {}).items() if name not in cleared}
        return await self._put_status(stored, status)

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """Take the reservation of a pod away, whatever else has changed; other claims of this name are left alone."""
        removal = {"$patch": "delete", "uid": pod_uid}
        body = _encode({"metadata": {"uid": claim_uid}, "status": {"reservedFor": [removal]}})
        path = f"{claim_path(namespace, name)}/status"
        return StoredClaim.from_json(await self._client.patch(path, body, STRATEGIC_MERGE))

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """Create a claim; the API server makes its name from `generate_name`. Its status is not sent."""
        meta = claim.metadata
        owners = [msgspec.to_builtins(owner) for owner in meta.owner_references]
        metadata = {
            "generateName": generate_name,
            "namespace": meta.namespace,
            "annotations": meta.annotations,
            "ownerReferences": owners,
        }
        kind = {"apiVersion": RESOURCE_CLAIMS.group_version, "kind": RESOURCE_CLAIMS.name}
        body = _encode({**kind, "metadata": metadata, "spec": msgspec.to_builtins(claim.spec)})
        path = claim_path(meta.namespace, "").rstrip("/")
        return StoredClaim.from_json(await self._client.post(path, body, retries=0, timeout_seconds=WRITE_SECONDS))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete this claim, not a later one of its name."""
        meta = claim.metadata
        body = _encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": meta.uid}})
        await self._client.delete(claim_path(meta.namespace, meta.name), body)

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Write into the pod's status which claim stands for its extended resources."""
        meta = pod.metadata
        reported = {"extendedResourceClaimStatus": msgspec.to_builtins(status)}
        body = _encode({"metadata": {"uid": meta.uid}, "status": reported})
        await self._client.patch(f"{pod_path(meta.namespace, meta.name)}/status", body, STRATEGIC_MERGE)

    async def _patch_metadata(self, meta: ObjectMeta, change: dict[str, Any]) -> StoredClaim:
        body = _encode({"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, **change}})
        path = claim_path(meta.namespace, meta.name)
        return StoredClaim.from_json(
            await self._client.patch(path, body, STRATEGIC_MERGE, timeout_seconds=WRITE_SECONDS)
        )

    async def _put_status(self, stored: StoredClaim, status: dict[str, Any]) -> StoredClaim:
        meta, body = stored.claim.metadata, _encode({**stored.tree, "status": status})
        path = f"{claim_path(meta.namespace, meta.name)}/status"
        return StoredClaim.from_json(await self._client.put(path, body, timeout_seconds=WRITE_SECONDS))


def claim_path(namespace: str, name: str) -> str:
    """The claim's URL path."""
    return RESOURCE_CLAIMS.object_path(quote(name, safe=""), quote(namespace, safe=""))


class ApiVolumeWriter:
    """Writes claim references and selected nodes. Raises as `APIClient`'s writes do, and `UndecodableError`."""

    def __init__(self, client: APIClient) -> None:
        self._client = client

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write the volume's claim reference and bound-by-controller annotation; returns the new volume."""
        annotations = _kept(volume.metadata, BOUND_BY_CONTROLLER)
        spec = {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}
        # A webhook on volumes may ask for whom they are: what hangs for one namespace must not hold up the others'.
        tenant = volume.spec.claim_ref.namespace if volume.spec.claim_ref is not None else ""
        patch = self._patch(PERSISTENT_VOLUMES, volume.metadata, annotations, {"spec": spec}, tenant)
        return _volumes.decode(await patch)

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write the claim's selected node; returns the claim as it is now."""
        annotations = _kept(claim.metadata, SELECTED_NODE)
        return _volume_claims.decode(await self._patch(PERSISTENT_VOLUME_CLAIMS, claim.metadata, annotations, {}))

    async def _patch(
        self, kind: Kind, meta: ObjectMeta, annotations: dict[str, str], rest: dict[str, Any], tenant: str = ""
    ) -> bytes:
        metadata = {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations}
        path = kind.object_path(quote(meta.name, safe=""), quote(meta.namespace, safe=""))
        body = _encode({"metadata": metadata, **rest})
        return await self._client.patch(path, body, MERGE, tenant=tenant)


def _kept(meta: ObjectMeta, name: str) -> dict[str, str]:
    return {name: meta.annotations[name]} if name in meta.annotations else {}
