"""Points of a node: how far in front in their lists the alternatives stand that claims get there.

A request may name alternatives (`firstAvailable`), best first. Each alternative that is allocated adds 8 less its place
in the list; requests without alternatives add nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.plugins.dynamic_resources.in_cycle import ClaimsInCycle

MOST_ALTERNATIVES: Final = 8
"""How long a list of alternatives may be, by the API."""


def points(state: ClaimsInCycle, found: Sequence[AllocationResult]) -> int:
    """The points of a node where the claims without devices get `found`, in order."""
    results = iter(found)
    return sum(_points(claim, state.allocation_of(claim) or next(results)) for claim in state.claims)


def has_alternatives(claims: Iterable[ResourceClaim]) -> bool:
    """Whether any request names alternatives: without any, all nodes have 0 points."""
    return any(request.first_available for claim in claims for request in claim.spec.devices.requests)


def _points(claim: ResourceClaim, allocation: AllocationResult) -> int:
    allocated = {result.request for result in allocation.devices.results if "/" in result.request}
    return sum(
        MOST_ALTERNATIVES - place
        for request in claim.spec.devices.requests
        if request.exactly is None
        for place, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in allocated
    )
