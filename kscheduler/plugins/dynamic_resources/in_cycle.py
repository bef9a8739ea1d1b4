"""What PreFilter finds out about a pod's claims, and what Filter adds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kscheduler.api.core import Pod, PodResourceClaim
from kscheduler.api.devices import AllocationResult, ResourceClaim
from kscheduler.api.selectors import NodeTerm, parse_node_term
from kscheduler.framework.cluster.devices import Claims, Devices
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.status import Fault, Status, StatusError, error, unresolvable
from kscheduler.plugins.dynamic_resources.alternatives import points_of
from kscheduler.plugins.dynamic_resources.extended import ExtendedResources
from kscheduler.plugins.dynamic_resources.node_result_cache import NodeResult
from kscheduler.plugins.dynamic_resources.search import DeviceSearch

# Whether the requests of a claim can be served at all, whatever the node.


def unservable(claim: ResourceClaim, devices: Devices, *, has_alternatives: bool) -> Status | None:
    """Why the claim cannot be served: the first problem of its requests, in order; `None` without one.

    `has_alternatives`: whether requests may name alternatives (gate DRAPrioritizedList).
    """
    for request in claim.spec.devices.requests:
        where = f"resource claim {claim.key}, request {request.name}"
        if request.exactly is not None:
            classes = [(request.name, request.exactly.device_class_name)]
        elif not request.first_available:
            return unresolvable(f"{where}: unknown request type")
        elif not has_alternatives:
            return unresolvable(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        else:
            classes = [(f"{request.name}/{each.name}", each.device_class_name) for each in request.first_available]
        for name, class_name in classes:
            if not class_name:
                return error(f"request {name}: unsupported request type", fault=Fault.CLAIM)
            if devices.device_class(class_name) is None:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
    return None


# The claims of a pod, by name or made from a template, or the reason why the pod must wait for them.
#
# entry names a claim          that claim, no matter who owns it
# entry names a template       the claim that a controller made for this pod; `status.resourceClaimStatuses` names it.
#                              No name there: this pod needs no claim for the entry


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
    uid = pod.metadata.uid
    for owner in claim.metadata.owner_references:  # noqa: SIM110  a generator costs as much as the one owner
        if owner.controller and owner.uid == uid:
            return True
    return False


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


@dataclass(slots=True)
class ClaimsInCycle:
    """The claims of one pod in one cycle."""

    claims: Sequence[ResourceClaim] = ()
    """Those that the pod names, in its order, as they were when the cycle began."""
    reachable: Sequence[Sequence[NodeTerm] | None] = ()
    """By claim, the nodes that can use its allocation: those that satisfy one of the terms; `None`: all."""
    search: DeviceSearch | None = None
    """The search for devices of the claims that have none; `None`: all have, or `extended` is what is searched for."""
    extended: ExtendedResources | None = None
    """Extended resources that devices may stand for; the pod's claim for them is not among `claims`."""
    found: dict[str, NodeResult] = field(default_factory=dict)
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

    def search_on_all(self, nodes: NodeTable, rows: Rows) -> DeviceSearch | None:
        """The search for all of these rows of the live table, which keeps its answers; `None` if there is not one."""
        return self.search if self.extended is None else self.extended.search_on_all(nodes, rows)

    def search_on(self, info: NodeInfo) -> DeviceSearch | None:
        """The search that `devices_on` needs for a node; `None` if it needs none."""
        return self.search if self.extended is None else self.extended.search_on(info)

    def found_on(self, info: NodeInfo) -> Sequence[AllocationResult] | None:
        """What Filter has found on a node for each of `claims_on`; `None` where the node did not pass.

        Raises `StatusError`.
        """
        found = self.found.get(info.name)
        if found is None and info.node is not None:
            search = self.search_on(info)
            found = None if search is None else search.to_its_end(info.node)
        return None if isinstance(found, int) else found

    def claims_on(self, info: NodeInfo) -> Sequence[ResourceClaim]:
        """The claims that must get devices on a node, in the order of what is found for them."""
        return self.to_allocate if self.extended is None else self.extended.claims_on(info)

    @property
    def searched_claims(self) -> Sequence[ResourceClaim]:
        """As `claims_on`, by their names only: what the one for extended resources asks for depends on the node."""
        return self.to_allocate if self.extended is None else [*self.extended.user_claims, self.extended.claim]

    def points(self, found: Sequence[AllocationResult]) -> int:
        """The points of a node where the claims without devices get `found`, in order."""
        results = iter(found)
        return sum(points_of(claim.spec, self.allocation_of(claim) or next(results)) for claim in self.claims)

    def points_on_rows(self, nodes: NodeTable, rows: Rows) -> Scores | None:
        """The same at rows of the live table, int64 [rows]; `None` where they are not all kept."""
        if self.extended is not None or self.search is None or self.found:
            return None
        kept = self.search.points_on_rows(nodes, rows)
        if kept is None:
            return None
        allocated = [(claim.spec, self.allocation_of(claim)) for claim in self.claims]
        return kept + sum([points_of(spec, allocation) for spec, allocation in allocated if allocation is not None])

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
        shared = self.shared  # as `allocation_of`, without a call for each claim
        return [each for each in self.claims if each.status.allocation is None and each.metadata.uid not in shared]

    def allocation_of(self, claim: ResourceClaim) -> AllocationResult | None:
        """The devices that a claim has, or that the pod's group has chosen for it; `None`: it needs some."""
        return claim.status.allocation or self.shared.get(claim.metadata.uid)


@dataclass(slots=True)
class ChosenByGroup:
    """A value of the group's state: the claims for which members have chosen devices in this trial."""

    uids: set[str] = field(default_factory=set)


# Of the nodes that can use an allocation. A scheduler writes one.
MAX_TERMS: Final = 1_000


def reachable_from(claim: ResourceClaim, allocation: AllocationResult) -> Sequence[NodeTerm] | None:
    """The nodes that can use an allocation, as terms of which one must hold; `None`: all can.

    Raises `StatusError` for more terms than can be evaluated in the time of a decision.
    """
    selector = allocation.node_selector
    if selector is None:
        return None
    terms = selector.node_selector_terms
    if len(terms) > MAX_TERMS:
        many = f"the node selector of its allocation has {len(terms):,} terms, and {MAX_TERMS:,} are evaluated at most"
        raise StatusError(f"resource claim {claim.key}: {many}", Fault.CLAIM)
    return [parse_node_term(term) for term in terms]
