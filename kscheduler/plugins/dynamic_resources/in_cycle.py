"""What PreFilter finds out about a pod's claims, and what Filter adds."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.selectors import NodeTerm, parse_node_term
from kscheduler.plugins.dynamic_resources.search import DeviceSearch


@dataclass(slots=True)
class ClaimsInCycle:
    """The claims of one pod in one cycle. Without claims it says that PreFilter has run, and ended early."""

    claims: Sequence[ResourceClaim] = ()
    """In the pod's order, as they were when the cycle began."""
    reachable: Sequence[Sequence[NodeTerm] | None] = ()
    """By claim, the nodes that can use its allocation: those that satisfy one of the terms; `None`: all."""
    search: DeviceSearch | None = None
    """The search for devices of the claims that have none; `None`: all have."""
    found: dict[str, Sequence[AllocationResult]] = field(default_factory=dict)
    """By node that passed, what each of `to_allocate` would get there."""
    unavailable: set[int] = field(default_factory=set)
    """Places in `claims` of allocated claims that some node cannot use."""

    @property
    def to_allocate(self) -> Sequence[ResourceClaim]:
        """The claims that have no devices yet, in the pod's order."""
        return [claim for claim in self.claims if claim.status.allocation is None]


def reachable_from(allocation: AllocationResult) -> Sequence[NodeTerm] | None:
    """The nodes that can use an allocation, as terms of which one must hold; `None`: all can."""
    selector = allocation.node_selector
    return None if selector is None else [parse_node_term(term) for term in selector.node_selector_terms]
