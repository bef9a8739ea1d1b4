"""What PreFilter finds out about a pod's claims, and what Filter adds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.selectors import NodeTerm, parse_node_term
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.status import Fault, StatusError
from kscheduler.plugins.dynamic_resources.extended import ExtendedResources
from kscheduler.plugins.dynamic_resources.kept_answers import Answer
from kscheduler.plugins.dynamic_resources.search import DeviceSearch


@dataclass(slots=True)
class ClaimsInCycle:
    """The claims of one pod in one cycle. Without claims it says that PreFilter has run, and ended early."""

    claims: Sequence[ResourceClaim] = ()
    """Those that the pod names, in its order, as they were when the cycle began."""
    reachable: Sequence[Sequence[NodeTerm] | None] = ()
    """By claim, the nodes that can use its allocation: those that satisfy one of the terms; `None`: all."""
    search: DeviceSearch | None = None
    """The search for devices of the claims that have none; `None`: all have, or `extended` is what is searched for."""
    extended: ExtendedResources | None = None
    """Extended resources that devices may stand for; the pod's claim for them is not among `claims`."""
    found: dict[str, Answer] = field(default_factory=dict)
    """By node that passed, what each of `claims_on` would get there, if the search does not keep that."""
    unavailable: set[int] = field(default_factory=set)
    """Places in `claims` of claims that have devices which some node cannot use."""
    shared: Mapping[str, AllocationResult] = field(default_factory=dict)
    """By UID of a claim, what a member before this one has chosen for it, in the same trial of their group."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be judged."""
        return not self.claims and self.extended is None

    def devices_on(self, info: NodeInfo) -> Sequence[AllocationResult] | int:
        """What each claim that needs devices gets on a node, or a code of Filter. Raises `StatusError`."""
        if self.extended is not None:
            return self.extended.on(info)
        node = info.node
        return () if self.search is None or node is None else self.search.on(node)

    def search_on(self, info: NodeInfo) -> DeviceSearch | None:
        """The search that `devices_on` needs for a node; `None` if it needs none."""
        return self.search if self.extended is None else self.extended.search_on(info)

    def found_on(self, info: NodeInfo) -> Sequence[AllocationResult] | None:
        """What Filter has found on a node for each of `claims_on`; `None` where the node did not pass.

        Raises `StatusError`.
        """
        found = self.found.get(info.name)
        if found is None and self.search is not None and info.node is not None:
            found = self.search.to_its_end(info.node)
        return None if isinstance(found, int) else found

    def claims_on(self, info: NodeInfo) -> Sequence[ResourceClaim]:
        """The claims that must get devices on a node, in the order of what is found for them."""
        return self.to_allocate if self.extended is None else self.extended.claims_on(info)

    def with_devices(self, info: NodeInfo) -> list[tuple[ResourceClaim, AllocationResult]]:
        """The claims with the devices that they have, or would get on a node. Raises `StatusError`."""
        found = self.found_on(info) or ()
        chosen = {claim.metadata.uid: each for claim, each in zip(self.claims_on(info), found, strict=False)}
        claims = [*self.claims, *(claim for claim in self.claims_on(info) if claim not in self.claims)]
        pairs = [(claim, self.allocation_of(claim) or chosen.get(claim.metadata.uid)) for claim in claims]
        return [(claim, allocation) for claim, allocation in pairs if allocation is not None]

    @property
    def to_allocate(self) -> Sequence[ResourceClaim]:
        """The claims that have no devices yet, in the pod's order."""
        return [claim for claim in self.claims if self.allocation_of(claim) is None]

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """The devices that a claim has, or that the pod's group has chosen for it; `None`: it needs some."""
        return claim.status.allocation or self.shared.get(claim.metadata.uid)


@dataclass(slots=True)
class ChosenByGroup:
    """A value of the group's state: the claims for which members have chosen devices in this trial."""

    uids: set[str] = field(default_factory=set)


MOST_TERMS: Final = 1_000
"""Of the nodes that can use an allocation. A scheduler writes one."""


def reachable_from(claim: ResourceClaim, allocation: AllocationResult) -> Sequence[NodeTerm] | None:
    """The nodes that can use an allocation, as terms of which one must hold; `None`: all can.

    Raises `StatusError` for more terms than can be evaluated in the time of a decision.
    """
    selector = allocation.node_selector
    if selector is None:
        return None
    terms = selector.node_selector_terms
    if len(terms) > MOST_TERMS:
        many = f"the node selector of its allocation has {len(terms):,} terms, and {MOST_TERMS:,} are evaluated at most"
        raise StatusError(f"resource claim {claim.key}: {many}", Fault.CLAIM)
    return [parse_node_term(term) for term in terms]
