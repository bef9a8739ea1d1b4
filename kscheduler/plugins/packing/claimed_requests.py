"""What a pod's claims ask for: the first alternative of each request.

A claim of several pods counts once: without devices for whoever asks, with devices for the pod for which it was
reserved first. Requests for admin access take nothing away, and do not count.
"""

from collections.abc import Iterator

from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaim
from kscheduler.devices.wanted import Wanted, wanted_of
from kscheduler.framework.cluster.devices import Claims


def claimed_requests(pod: Pod, claims: Claims, *, with_devices: bool) -> Iterator[Wanted]:
    """By claim, in the order of the pod. `with_devices`: also of claims that have devices."""
    for claim in _claims_of(pod, claims):
        has_devices = claim.status.allocation is not None or claims.pending(claim.metadata.uid) is not None
        if has_devices and not (with_devices and _is_first(pod, claim)):
            continue
        for request in claim.spec.devices.requests:
            first = next(iter(wanted_of(request)), None)
            if first is not None and not first.is_admin:
                yield first


def _claims_of(pod: Pod, claims: Claims) -> Iterator[ResourceClaim]:
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for entry in pod.spec.resource_claims:
        name = entry.resource_claim_name or made.get(entry.name)
        claim = claims.get(f"{pod.metadata.namespace}/{name}") if name else None
        if claim is not None:
            yield claim


def _is_first(pod: Pod, claim: ResourceClaim) -> bool:
    users = claim.status.reserved_for
    return not users or users[0].uid == pod.metadata.uid
