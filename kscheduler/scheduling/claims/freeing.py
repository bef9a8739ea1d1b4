"""Taking an allocation away from a claim that keeps its pod from every node; deleting a claim for extended resources.

kube-scheduler does this within the cycle, with its cached claim: if the claim has changed meanwhile, the API server
answers 409, and the pod is tried again. Here it runs beside the cycle. The claim is read anew, and is left alone unless
it has the same devices and nobody but the pod has it reserved; whoever changed it has caused an event for the pod.
"""

from kscheduler.aio.clock import Clock
from kscheduler.api.devices import ResourceClaim
from kscheduler.client.errors import APIError
from kscheduler.framework.cluster.claim_writing import Deallocation
from kscheduler.scheduling.claims.claim_storage import (
    CONFLICT_SECONDS,
    CONFLICT_TRIES,
    ClaimStorage,
    devices_of,
    is_not_found,
)


async def deallocate(storage: ClaimStorage, clock: Clock, deallocation: Deallocation) -> bool:
    """Clear the claim's status. Returns whether that was done. Raises `ClientError`, `UndecodableError`."""
    claim, pod = deallocation.claim, deallocation.pod
    for tries_left in reversed(range(CONFLICT_TRIES)):
        try:
            stored = await storage.get_claim(claim.metadata.namespace, claim.metadata.name)
            if not _is_as_seen(stored.claim, claim, pod.metadata.uid):
                return False
            await storage.free(stored)
        except APIError as failure:
            if is_not_found(failure):
                return False
            if not (failure.is_conflict and tries_left):
                raise
            await clock.sleep(CONFLICT_SECONDS)
        else:
            return True
    return False


def _is_as_seen(stored: ResourceClaim, seen: ResourceClaim, pod_uid: str) -> bool:
    is_same = stored.metadata.uid == seen.metadata.uid
    has_devices = devices_of(stored.status.allocation) == devices_of(seen.status.allocation)
    return is_same and has_devices and all(consumer.uid == pod_uid for consumer in stored.status.reserved_for)


async def delete(storage: ClaimStorage, clock: Clock, claim: ResourceClaim) -> None:
    """Delete the claim, whatever it holds, if it is there. Raises `ClientError`, `UndecodableError`."""
    for tries_left in reversed(range(CONFLICT_TRIES)):
        try:
            stored = await storage.get_claim(claim.metadata.namespace, claim.metadata.name)
            if stored.claim.metadata.uid != claim.metadata.uid:
                return
            if stored.is_protected:
                await storage.unprotect(stored)
            await storage.delete(claim)
        except APIError as failure:
            if is_not_found(failure):
                return
            if not (failure.is_conflict and tries_left):
                raise
            await clock.sleep(CONFLICT_SECONDS)
        else:
            return
