"""Points of a node: how far in front in their lists the alternatives stand that claims get there.

A request may name alternatives (`firstAvailable`), best first. Each alternative that is allocated adds 8 less its place
in the list; requests without alternatives add nothing.
"""

from collections.abc import Iterable
from typing import Final

from kscheduler.api.devices import AllocationResult, ResourceClaimSpec

# How long a list of alternatives may be, by the API.
MAX_ALTERNATIVES: Final = 8


def have_alternatives(specs: Iterable[ResourceClaimSpec]) -> bool:
    """Whether any request of these claims names alternatives: without any, all nodes have 0 points."""
    for spec in specs:  # no `any`: a generator costs as much as the one or two claims
        for request in spec.devices.requests:
            if request.first_available:
                return True
    return False


def points_of(spec: ResourceClaimSpec, allocation: AllocationResult) -> int:
    """The points for what a claim gets."""
    allocated = {result.request for result in allocation.devices.results if "/" in result.request}
    return sum(
        MAX_ALTERNATIVES - place
        for request in spec.devices.requests
        if request.exactly is None
        for place, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in allocated
    )
