"""Reads a pod's claims for the hollow kubelets, prepares them, and tells by an Event why that cannot be done."""

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import RESOURCE_CLAIMS
from kscheduler.client import APIClient, APIError
from kscheduler.simulation.hollow.prepared_claims import PreparedClaims, UnpreparedError, claim_names

_REASON = "FailedPrepareDynamicResources"
_PREFIX = "Failed to prepare dynamic resources: "


class ClaimPreparation:
    """The claims of all hollow nodes."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._prepared = PreparedClaims()
        self._told: dict[str, str] = {}
        """What was last told of a pod, by its UID, so that it is not told at each attempt."""

    async def prepare(self, pod: Pod, now: str) -> bool:
        """Whether the pod may start. Raises `APIError`, `ClientError`."""
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return True
        try:
            claims = [await self._read(pod, name) for name in claim_names(pod)]
            self._prepared.prepare(pod, claims)
        except UnpreparedError as error:
            await self._tell(pod, str(error), now)
            return False
        self._told.pop(pod.metadata.uid, None)
        return True

    def release(self, pod: Pod) -> None:
        """The pod has ended or is gone."""
        self._told.pop(pod.metadata.uid, None)
        self._prepared.release(pod)

    async def _read(self, pod: Pod, name: str) -> ResourceClaim:
        path = f"/apis/{RESOURCE_CLAIMS.group}/{RESOURCE_CLAIMS.version}/namespaces/{pod.metadata.namespace}"
        try:
            body = await self._client.get(f"{path}/{RESOURCE_CLAIMS.plural}/{name}")
        except APIError as error:
            if error.is_not_found:
                text = f"could not find ResourceClaim {name} for pod {pod.metadata.name}"
                raise UnpreparedError(text) from None
            raise
        return convert(msgspec.json.decode(body), ResourceClaim)

    async def _tell(self, pod: Pod, text: str, now: str) -> None:
        metadata = pod.metadata
        if self._told.get(metadata.uid) == text:
            return
        about = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
        }
        source = {"component": "kubelet", "host": pod.spec.node_name}
        event = {
            "metadata": {"generateName": f"{metadata.name}.", "namespace": metadata.namespace},
            "involvedObject": about,
            "reason": _REASON,
            "message": f"{_PREFIX}{text}",
            "type": "Warning",
            "source": source,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        await self._client.post(f"/api/v1/namespaces/{metadata.namespace}/events", msgspec.json.encode(event))
        self._told[metadata.uid] = text
