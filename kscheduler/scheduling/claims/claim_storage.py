"""The API server as the writers of claims see it, and how its failures read."""

from typing import Any, Final, Protocol

from kscheduler.api.core import Pod, PodExtendedResourceClaimStatus
from kscheduler.api.devices import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from kscheduler.client.claim_writes import StoredClaim
from kscheduler.client.errors import APIError, ForeignResponseError, NotSentError, UnknownOutcomeError
from kscheduler.framework.status import Fault

CONFLICT_TRIES: Final = 5
# As client-go after a 409: five tries, 10 ms between two.
CONFLICT_SECONDS: Final = 0.01
_REFUSALS: Final = frozenset({400, 403, 413, 422})

DeviceIdentity = tuple[str, str, str, str, str | None]


class ClaimStorage(Protocol):
    """`client.claim_writes.ApiClaimWriter`, which says what each method does and raises."""

    async def get_claim(self, namespace: str, name: str) -> StoredClaim:
        """Read a claim, uncached."""
        ...

    async def protect(self, claim: ResourceClaim) -> StoredClaim:
        """Add the finalizer."""
        ...

    async def unprotect(self, stored: StoredClaim) -> StoredClaim:
        """Take the finalizer away."""
        ...

    async def reserve(
        self,
        stored: StoredClaim,
        consumer: ResourceClaimConsumerReference,
        allocation: AllocationResult | None,
        allocated_at: str | None,
    ) -> StoredClaim:
        """Write allocation and reservation."""
        ...

    async def free(self, stored: StoredClaim) -> StoredClaim:
        """Clear allocation and reservations."""
        ...

    async def release(self, namespace: str, name: str, claim_uid: str, pod_uid: str) -> StoredClaim:
        """Take a pod's reservation away."""
        ...

    async def create(self, claim: ResourceClaim, generate_name: str) -> StoredClaim:
        """Create a claim for extended resources."""
        ...

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim."""
        ...

    async def report_pod(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        """Name that claim in the pod's status."""
        ...


def failure_text(failure: Exception) -> str:
    """The server's text as client-go shows it: without method and path."""
    return (failure.message if isinstance(failure, APIError) else "") or str(failure)


def fault_of(failure: Exception) -> Fault:
    """Whether another try may help soon."""
    is_refusal = isinstance(failure, APIError) and failure.code in _REFUSALS
    return Fault.REFUSED if is_refusal else Fault.PASSING


def is_conflict(failure: Exception) -> bool:
    """Whether the claim has changed since it was read."""
    return isinstance(failure, APIError) and failure.is_conflict


def is_not_found(failure: Exception) -> bool:
    """Whether the claim does not exist."""
    return isinstance(failure, APIError) and failure.is_not_found


def is_server_error(failure: Exception) -> bool:
    """Whether the server answered that it failed, or with what no API server answers: the write may have been applied
    all the same.
    """
    if isinstance(failure, APIError):
        return failure.is_server_error or failure.is_timeout
    return isinstance(failure, ForeignResponseError)


def leaves_doubt(failure: Exception) -> bool:
    """Whether a write may have been applied despite the failure."""
    return is_server_error(failure) or isinstance(failure, UnknownOutcomeError)


def was_not_sent(failure: Exception) -> bool:
    """Whether the request has certainly reached no server."""
    return isinstance(failure, NotSentError)


def devices_of(allocation: AllocationResult | None) -> tuple[DeviceIdentity, ...] | None:
    """What tells two allocations of a claim apart; the API server may write amounts and times in another way."""
    if allocation is None:
        return None
    results: Any = allocation.devices.results
    return tuple((found.request, found.driver, found.pool, found.device, found.share_id) for found in results)
