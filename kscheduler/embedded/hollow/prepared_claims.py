"""The devices that hollow kubelets have prepared: a check of claims that is independent of the scheduler's.

A pod with claims starts when each of them is allocated, reserved for the pod, and holds no device that another claim
holds. Devices with admin access and shares of a device count for nobody. No I/O: the kubelets read the claims.
"""

from collections.abc import Iterable, Iterator

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.kinds import RESOURCE_CLAIMS
from kscheduler.client.errors import APIError
from kscheduler.client.rest import APIClient

# Reads a pod's claims for the hollow kubelets, prepares them, and tells by an Event why that cannot be done.

_REASON = "FailedPrepareDynamicResources"
_PREFIX = "Failed to prepare dynamic resources: "


class ClaimPreparation:
    """The claims of all hollow nodes."""

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._prepared = PreparedClaims()
        self._reported: dict[str, str] = {}
        """What was last told of a pod, by its UID, so that it is not told at each attempt."""

    async def prepare(self, pod: Pod, now: str) -> bool:
        """Whether the pod may start. Raises `APIError`, `ClientError`."""
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return True
        try:
            claims = [await self._read(pod, name) for name in claim_names(pod)]
            self._prepared.prepare(pod, claims)
        except UnpreparedError as error:
            await self._report(pod, str(error), now)
            return False
        self._reported.pop(pod.metadata.uid, None)
        return True

    def release(self, pod: Pod) -> None:
        """The pod has ended or is gone."""
        self._reported.pop(pod.metadata.uid, None)
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

    async def _report(self, pod: Pod, text: str, now: str) -> None:
        metadata = pod.metadata
        if self._reported.get(metadata.uid) == text:
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
        self._reported[metadata.uid] = text


# (driver, pool, device).
Device = tuple[str, str, str]


class UnpreparedError(Exception):
    """A claim that cannot be prepared; the text is that of the Event that tells it."""


def claim_names(pod: Pod) -> list[str]:
    """The names of a pod's claims, with that for its extended resources. Raises `UnpreparedError` if one is not made.

    An entry of the status without a name means that no claim is needed.
    """
    statuses = {status.name: status for status in pod.status.resource_claim_statuses}
    names = []
    for entry in pod.spec.resource_claims:
        status = statuses.get(entry.name)
        if entry.resource_claim_name is not None:
            names.append(entry.resource_claim_name)
        elif status is None:
            raise UnpreparedError(f'pod "{pod.key}": ResourceClaim not created yet')
        elif status.resource_claim_name:
            names.append(status.resource_claim_name)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        names.append(extended.resource_claim_name)
    return names


class PreparedClaims:
    """What is prepared, on all nodes. It ends with the pods: each pod's entries go when the pod does."""

    def __init__(self) -> None:
        self._holders: dict[Device, ResourceClaim] = {}
        self._claims: dict[str, dict[str, ResourceClaim]] = {}
        """Claims by UID, by the pod's UID."""

    def __len__(self) -> int:
        return len(self._holders)

    def prepare(self, pod: Pod, claims: Iterable[ResourceClaim]) -> None:
        """Prepare a pod's claims, all or none. Raises `UnpreparedError`."""
        checked = {claim.metadata.uid: claim for claim in claims}
        for claim in checked.values():
            self._check(pod, claim)
        held: dict[Device, ResourceClaim] = {}
        for claim in checked.values():
            for device in _own_devices(claim):
                holder = held.get(device) or self._holders.get(device)
                if holder is not None and holder.metadata.uid != claim.metadata.uid:
                    text = f"device {'/'.join(device)} of ResourceClaim {claim.metadata.name} is already prepared for"
                    raise UnpreparedError(f"{text} ResourceClaim {holder.metadata.namespace}/{holder.metadata.name}")
                held[device] = claim
        self._holders |= held
        self._claims[pod.metadata.uid] = checked

    def release(self, pod: Pod) -> None:
        """A pod has ended or is gone: free the devices that no other pod uses."""
        left = self._claims.pop(pod.metadata.uid, {})
        used = {uid for claims in self._claims.values() for uid in claims} if left else set()
        for uid, claim in left.items():
            for device in _own_devices(claim) if uid not in used else ():
                self._holders.pop(device, None)

    def _check(self, pod: Pod, claim: ResourceClaim) -> None:
        name, uid = claim.metadata.name, claim.metadata.uid
        if claim.status.allocation is None:
            raise UnpreparedError(f"ResourceClaim {name} is not allocated")
        group = pod.spec.scheduling_group
        names = {pod.metadata.uid}
        for consumer in claim.status.reserved_for:
            is_group = consumer.resource == "podgroups" and group is not None
            if consumer.uid in names or (is_group and group is not None and consumer.name == group.pod_group_name):
                return
        who = f"pod {pod.metadata.name} ({pod.metadata.uid})"
        raise UnpreparedError(f"{who} is not allowed to use ResourceClaim {name} ({uid})")


def _own_devices(claim: ResourceClaim) -> Iterator[Device]:
    allocation = claim.status.allocation
    for result in allocation.devices.results if allocation is not None else ():
        if not result.admin_access and result.share_id is None:
            yield result.driver, result.pool, result.device
