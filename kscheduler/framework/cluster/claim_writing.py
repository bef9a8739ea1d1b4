"""Writing claims to devices: the instructions that DynamicResources gives, and who carries them out.

    Reserve     the plugin makes a `PodReservation` and counts the chosen devices as pending (`Claims.signal_pending`)
    PreBind     `ClaimWriter.pre_bind` writes allocations and reservations, and waits for binding conditions
    Unreserve   `ClaimWriter.unreserve` gives back what is pending and what was written, at once or when it is known
    PostFilter  answers with a `Deallocation`; the attempt starts it after the cycle (`ClaimWriter.free`)

A write of a claim is never cancelled, and its devices stay pending until it is certain whether it was applied.
"""

from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from kscheduler.api.core import ContainerExtendedResourceRequest, Pod
from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, error

# PreBind's answer where the `Handle` has no `ClaimWriter`.
NO_CLAIM_WRITER: Final = error("claims to devices cannot be written here")
# The default of `bindingTimeout` in DynamicResourcesArgs.
BINDING_TIMEOUT_SECONDS: Final = 600.0


@dataclass(slots=True, eq=False)
class ReservedClaim:
    """A claim of a pod in one attempt."""

    claim: ResourceClaim
    """As the cycle saw it; after PreBind as it was written."""
    allocation: AllocationResult | None = None
    """The devices that the cycle has chosen; `None`: the claim is allocated already."""
    pending_uid: str = ""
    """The UID under which its devices count as pending on behalf of this pod: set it when `Claims.signal_pending` was
    called. Empty: they do not, and nothing pending is given back."""
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    """Of the claim for extended resources: which request serves which container. Such a claim has no resource version
    until it is created; it carries its requests, owner, annotation and generated name."""
    is_of_group: bool = False
    """The pod is tried with its group: other members may get the same claim with the same devices, in this attempt."""


@dataclass(slots=True, eq=False)
class PodReservation:
    """The claims of a pod in one attempt, in the pod's order; the one for extended resources is last."""

    pod: PodInfo
    node_name: str
    claims: list[ReservedClaim] = field(default_factory=list)


class ClaimRules(msgspec.Struct, frozen=True):
    """What gates, arguments and the followed version say about PreBind."""

    has_binding_conditions: bool = True
    """The gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus are both on."""
    binding_timeout_seconds: float = BINDING_TIMEOUT_SECONDS
    keeps_pending: bool = True
    """Devices stay pending until all claims of the pod are written (1.37), not until their own claim is."""


class Deallocation(msgspec.Struct, frozen=True):
    """An instruction to take an allocation away from a claim that keeps its pod from every node."""

    pod: Pod
    """The pod whose claim it is: nobody else may have it reserved."""
    claim: ResourceClaim
    """As the cycle saw it."""
    is_deletion: bool = False
    """The claim was made for extended resources: it is deleted."""


class ClaimWriter(Protocol):
    """Writes claims: `scheduling.claims.claim_commits.ClaimCommits`."""

    async def pre_bind(self, reservation: PodReservation, rules: ClaimRules) -> Status:
        """Write what the pod needs of its claims. An Error has kube-scheduler's text; after it, call `unreserve`."""
        ...

    def unreserve(self, reservation: PodReservation) -> None:
        """The pod is not bound after all: give back what was reserved. Returns at once; requests run beside.

        A claim that was written stays allocated, but not reserved for the pod.
        """
        ...

    def free(self, deallocation: Deallocation) -> None:
        """Clear a claim's allocation if it still is as the cycle saw it. Returns at once; the request runs beside."""
        ...
