"""The structured allocator: which devices the claims of a pod would get on a node, the same ones as kube-scheduler's.

It is pure: claims, classes, slices and what is allocated go in, allocations come out. Implements what upstream calls
the incubating allocator up to 1.37, and the stable one in 1.38: those that are used with default gates.
"""

from collections.abc import Callable, Mapping, Sequence
from uuid import uuid4

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kscheduler.api.devices import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.layouts import on_node
from kscheduler.devices.limits.capacity import published_name
from kscheduler.devices.limits.counters import FreeCounters, PoolCounters
from kscheduler.devices.plan import ClaimPlan, Parts, Planner, Request
from kscheduler.devices.pools import NodeIdentity
from kscheduler.devices.search import Chosen, Search
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures, FailedOnThisNodeError

# The allocation of a claim, from the devices that were chosen for it.


def allocation_of(
    plan: ClaimPlan, chosen: Sequence[Chosen], node_name: str, features: AllocatorFeatures
) -> AllocationResult:
    """The allocation on the node. Raises `AllocationError`."""
    results = tuple(_result(each, features) for each in chosen)
    devices = DeviceAllocationResult(results=results, config=_config(plan, chosen, features))
    return AllocationResult(devices=devices, node_selector=_node_selector(plan, chosen, node_name))


def _result(chosen: Chosen, features: AllocatorFeatures) -> DeviceRequestAllocationResult:
    identity, device, wanted = chosen.found.id, chosen.found.device, chosen.request.wanted
    consumed = {
        published_name(name, device, identity.driver, features): amount.text
        for name, amount in (chosen.consumed or {}).items()
    }
    return DeviceRequestAllocationResult(
        request=wanted.full_name,
        driver=identity.driver,
        pool=identity.pool,
        device=identity.device,
        admin_access=True if wanted.is_admin else None,
        tolerations=wanted.tolerations,
        binding_conditions=device.binding_conditions if features.binding_conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if features.binding_conditions else (),
        share_id=chosen.share_id,
        consumed_capacity=dict(sorted(consumed.items())),
    )


# --- configuration ----------------------------------------------------------------------------------------------------


def _config(
    plan: ClaimPlan, chosen: Sequence[Chosen], features: AllocatorFeatures
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Of the classes, each once, then of the claim."""
    picked = _picked(plan, chosen)
    by_class: dict[str, list[str]] = {}
    for request in picked:
        by_class.setdefault(request.wanted.class_name, []).append(request.wanted.full_name)
    classes = {request.wanted.class_name: request.device_class for request in picked}
    config = [
        DeviceAllocationConfiguration(source=FROM_CLASS, requests=tuple(names), opaque=part.opaque)
        for name, names in by_class.items()
        for part in classes[name].spec.config
    ]
    for part in plan.claim.spec.devices.config:
        named = sum(not {each.wanted.base, each.wanted.full_name}.isdisjoint(part.requests) for each in picked)
        times = named if features.repeats_config and part.requests else min(named or not part.requests, 1)
        config += [DeviceAllocationConfiguration(source=FROM_CLAIM, requests=part.requests, opaque=part.opaque)] * times
    if not features.shortens_config:
        return tuple(config)
    return tuple(_without_all(part, picked) for part in config)


def _picked(plan: ClaimPlan, chosen: Sequence[Chosen]) -> list[Request]:
    """Of each request the way in which it was satisfied, in the order of the claim."""
    by_name = {each.request.wanted.base: each.request for each in chosen}
    return [by_name.get(alternatives[0].wanted.base, alternatives[0]) for alternatives in plan.requests]


def _without_all(part: DeviceAllocationConfiguration, picked: Sequence[Request]) -> DeviceAllocationConfiguration:
    """A configuration for all requests lists none."""
    listed = set(part.requests)
    if listed and all({each.wanted.base, each.wanted.full_name} & listed for each in picked):
        return DeviceAllocationConfiguration(source=part.source, opaque=part.opaque)
    return part


# --- nodes ------------------------------------------------------------------------------------------------------------


def _node_selector(plan: ClaimPlan, chosen: Sequence[Chosen], node_name: str) -> NodeSelector | None:
    """The nodes that reach all devices; `None` for all nodes."""
    fields: list[NodeSelectorRequirement] = []
    labels: list[NodeSelectorRequirement] = []
    for each in chosen:
        device, spec = each.found.device, each.found.slice.spec
        is_own = bool(spec.per_device_node_selection)
        name = device.node_name if is_own else spec.node_name
        selector = device.node_selector if is_own else spec.node_selector
        if name is not None or device.binds_to_node:
            return on_node(node_name)
        terms = selector.node_selector_terms if selector is not None else ()
        if len(terms) > 1:
            message = f"create NodeSelector for claim {plan.claim.metadata.name}: "
            message += f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            raise AllocationError(message)
        for term in terms:
            _merge(term.match_fields, fields)
            _merge(term.match_expressions, labels)
    if not fields and not labels:
        return None
    return NodeSelector((NodeSelectorTerm(match_expressions=tuple(labels), match_fields=tuple(fields)),))


def _merge(more: Sequence[NodeSelectorRequirement], into: list[NodeSelectorRequirement]) -> None:
    for requirement in more:
        if not any(
            requirement.key == known.key
            and requirement.operator == known.operator
            and set(requirement.values) == set(known.values)
            for known in into
        ):
            into.append(requirement)


class Allocator:
    """Allocates for the claims of one pod, on any node, in one state of devices and allocations."""

    def __init__(
        self,
        features: AllocatorFeatures,
        claims: Sequence[ResourceClaim],
        allocated: AllocatedState,
        classes: Callable[[str], DeviceClass | None],
        slices: SliceIndex,
        selections: Selections,
        new_share_id: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        """`classes`: a class by its name. `selections`: shared by all allocators with the same compiler."""
        self._features = features
        self._allocated = allocated
        self._slices = slices
        self._planner = Planner(features, claims, classes, selections, allocated)
        self._counters = FreeCounters(features, allocated)
        self._new_share_id = new_share_id

    def allocate(self, node_name: str, node_labels: Mapping[str, str]) -> list[AllocationResult] | None:
        """What each claim gets on the node; `None` if they do not all get something.

        Raises `AllocationError`, `FailedOnThisNodeError`.
        """
        parts = self.allocate_in_parts(node_name, node_labels)
        while True:
            try:
                next(parts)
            except StopIteration as ended:
                results: list[AllocationResult] | None = ended.value
                return results

    def allocate_in_parts(self, node_name: str, node_labels: Mapping[str, str]) -> Parts[list[AllocationResult] | None]:
        """As `allocate`; who runs it may pause at each `yield`, if what is allocated does not change meanwhile."""
        node = NodeIdentity(node_name, node_labels)
        pools = self._slices.pools(node_name, node_labels)
        plans = yield from self._planner.plans(pools, node)
        counters = PoolCounters(self._counters, self._features)
        search = Search(self._features, plans, pools, node, self._allocated, counters, self._new_share_id)
        if not (yield from search.parts()):
            if any(pool.is_invalid for pool in pools):
                raise FailedOnThisNodeError("invalid resource pools were encountered")
            return None
        return [
            allocation_of(plan, chosen, node_name, self._features)
            for plan, chosen in zip(plans, search.chosen, strict=True)
        ]
