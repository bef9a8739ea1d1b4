"""A scheduler's writes to volumes and claims.

Merge patches with UID and resource version of the object that the decision was based on: the API server answers 409 if
it has changed meanwhile, so no volume is given away twice. Patches rather than updates, because our typed objects keep
only the fields that a scheduler reads.
"""

from typing import Any
from urllib.parse import quote

import msgspec

from kscheduler.api.codec import Decoder
from kscheduler.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from kscheduler.client.rest import MERGE, APIClient

_encode = msgspec.json.Encoder().encode
_volumes: Decoder[PersistentVolume] = Decoder(PersistentVolume)
_claims: Decoder[PersistentVolumeClaim] = Decoder(PersistentVolumeClaim)


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
        return _claims.decode(await self._patch(PERSISTENT_VOLUME_CLAIMS, claim.metadata, annotations, {}))

    async def _patch(
        self, kind: Kind, meta: ObjectMeta, annotations: dict[str, str], rest: dict[str, Any], tenant: str = ""
    ) -> bytes:
        metadata = {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations}
        path = kind.object_path(quote(meta.name, safe=""), quote(meta.namespace, safe=""))
        body = _encode({"metadata": metadata, **rest})
        return await self._client.patch(path, body, MERGE, tenant=tenant)


def _kept(meta: ObjectMeta, name: str) -> dict[str, str]:
    return {name: meta.annotations[name]} if name in meta.annotations else {}
