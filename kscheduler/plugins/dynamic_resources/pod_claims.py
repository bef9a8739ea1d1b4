"""The claims of a pod, by name or made from a template, or the reason why the pod must wait for them.

entry names a claim          that claim, whoever owns it
entry names a template       the claim that a controller made for this pod; `status.resourceClaimStatuses` names it.
                             No name there: this pod needs no claim for the entry
"""

from collections.abc import Iterator, Sequence

from kscheduler.api.core import Pod, PodResourceClaim
from kscheduler.api.devices import ResourceClaim
from kscheduler.framework.cluster.devices import Claims
from kscheduler.framework.status import Status, unresolvable


class ClaimNotReadyError(LookupError):
    """A claim of the pod is not there yet, or is going, or is another pod's. The text is kube-scheduler's."""

    def __init__(self, text: str, claim: str = "") -> None:
        super().__init__(text)
        self.claim = claim
        """Its key; empty where the pod names none."""


def pod_claims(pod: Pod, claims: Claims) -> Sequence[ResourceClaim]:
    """The claims of a pod in its order. Raises `ClaimNotReadyError` for the first that is not ready."""
    return [claim for _, claim in named_claims(pod, claims)]


def named_claims(pod: Pod, claims: Claims) -> Iterator[tuple[str, ResourceClaim]]:
    """The claims of a pod in its order, each with the name of its entry. Raises `ClaimNotReadyError`."""
    for entry in pod.spec.resource_claims:
        name = claim_name(pod, entry)
        if name is None:
            continue
        key = f"{pod.metadata.namespace}/{name}"
        claim = claims.get(key)
        if claim is None:
            raise ClaimNotReadyError(f'could not find ResourceClaim "{key}"', key)
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimNotReadyError(f'resourceclaim "{name}" is being deleted', key)
        if entry.resource_claim_name is None and not is_made_for(pod, claim):
            text = f"ResourceClaim {key} was not created for Pod {pod.key} (Pod is not owner)"
            raise ClaimNotReadyError(text, key)
        yield entry.name, claim


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """The name of the claim that an entry stands for; `None`: none is needed. Raises `ClaimNotReadyError`."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        text = f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
        raise ClaimNotReadyError(text)
    for made in pod.status.resource_claim_statuses:
        if made.name == entry.name:
            return made.resource_claim_name
    raise ClaimNotReadyError(f'pod "{pod.key}": ResourceClaim not created yet')


def is_made_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod is the claim's controller."""
    return any(owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references)


def is_reserved_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the pod may use the claim already."""
    return any(consumer.uid == pod.metadata.uid for consumer in claim.status.reserved_for)


def missing_claim(pod: Pod, claims: Claims) -> Status | None:
    """Why the pod must wait for its claims; `None` if it need not."""
    try:
        pod_claims(pod, claims)
    except ClaimNotReadyError as problem:
        return unresolvable(str(problem))
    return None


def awaited_claims(pod: Pod, claims: Claims) -> Sequence[str] | None:
    """The key of the first claim that is not ready, none where the pod itself must change; `None`: all are ready."""
    try:
        pod_claims(pod, claims)
    except ClaimNotReadyError as problem:
        return [problem.claim] if problem.claim else []
    return None
