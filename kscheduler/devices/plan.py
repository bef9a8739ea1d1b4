"""What claims ask for, checked before any device is looked for."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from kscheduler.api.devices import ALL, EXACT_COUNT, DeviceClass, ResourceClaim
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.limits.capacity import CapacityError, capacities_of, consumption, has_room, is_allowed
from kscheduler.devices.limits.constraints import Constraint, constraint_of
from kscheduler.devices.pools import NodeIdentity, Pool, PoolDevice, reaches
from kscheduler.devices.selection import DeviceSelection, Selections
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures, BadPoolError, Wanted, wanted_of

T = TypeVar("T")
# Work in short parts: who runs it may pause, or end it, at each `yield`.
Parts = Generator[None, None, T]
# Devices of a claim.
MAX_RESULTS: Final = 32
_UNBOUNDED: Final = 2**63 - 1
_NOTHING_USED: Final[dict[str, int]] = {}


@dataclass(slots=True)
class Request:
    """One way to satisfy a request of a claim, on one node."""

    wanted: Wanted
    device_class: DeviceClass
    selection: DeviceSelection
    count: int
    """How many devices."""
    devices: Sequence[PoolDevice] | None = None
    """All that are asked for, where it is not a number."""


# The ways to satisfy one request; in the order of preference.
Alternatives = tuple[Request, ...]


class ClaimPlan(msgspec.Struct, frozen=True):
    """A claim, prepared for a node."""

    claim: ResourceClaim
    requests: tuple[Alternatives, ...]
    constraints: tuple[Constraint, ...]


class Planner:
    """Prepares claims for nodes. What does not depend on the node is worked out once."""

    def __init__(
        self,
        features: AllocatorFeatures,
        claims: Sequence[ResourceClaim],
        classes: Callable[[str], DeviceClass | None],
        selections: Selections,
        allocated: AllocatedState,
    ) -> None:
        self._features = features
        self._claims = claims
        self._classes = classes
        self._selections = selections
        self._allocated = allocated
        self._wanted = [[wanted_of(request) for request in claim.spec.devices.requests] for claim in claims]
        self._known: dict[tuple[int, int], Alternatives] = {}
        """Requests that are the same for all nodes, by claim and request."""

    def plans(self, pools: Sequence[Pool], node: NodeIdentity) -> Parts[list[ClaimPlan]]:
        """The claims as they are on a node with these pools. Raises `AllocationError`, `BadPoolError`."""
        plans = []
        for number, claim in enumerate(self._claims):
            yield
            plans.append((yield from self._plan(number, claim, pools, node)))
        return plans

    def _plan(self, number: int, claim: ResourceClaim, pools: Sequence[Pool], node: NodeIdentity) -> Parts[ClaimPlan]:
        requests, least = [], 0
        for place in range(len(claim.spec.devices.requests)):
            alternatives = self._known.get((number, place))
            if alternatives is None:
                alternatives = yield from self._alternatives(number, place, pools, node)
            needed = min([request.count for request in alternatives])
            if self._features.reports_device_of_error and needed > MAX_RESULTS - least:
                name = claim.spec.devices.requests[place].name
                message = f"claim {claim.key}, request {name}: adding {needed} devices exceeds the claim limit of "
                message += f"{MAX_RESULTS}, with {least} already accounted for"
                raise AllocationError(message)
            least += needed
            requests.append(alternatives)
        if least > MAX_RESULTS:
            message = f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(message)
        return ClaimPlan(claim, tuple(requests), self._constraints(claim))

    def _constraints(self, claim: ResourceClaim) -> tuple[Constraint, ...]:
        made = []
        for number, spec in enumerate(claim.spec.devices.constraints):
            constraint = constraint_of(spec, self._features)
            if constraint is None:
                message = f"claim {claim.key}, constraint #{number}: empty constraint (unsupported constraint type?)"
                raise AllocationError(message)
            made.append(constraint)
        return tuple(made)

    def _alternatives(self, number: int, place: int, pools: Sequence[Pool], node: NodeIdentity) -> Parts[Alternatives]:
        claim, wanted = self._claims[number], self._wanted[number][place]
        name = claim.spec.devices.requests[place].name
        if not wanted:
            raise AllocationError(f"claim {claim.key}, request {name}: unsupported request type")
        if not self._features.prioritized_list and wanted[0].parent:
            message = (
                f"claim {claim.key}, request {name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            )
            raise AllocationError(message)
        if not self._features.consumable_capacity:
            for each in wanted:
                if each.capacity is not None:
                    kind = "subrequest" if each.parent else "request"
                    why = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                    raise AllocationError(f"claim {claim.key}, {kind} {each.name}: {why}")
        requests = []
        for each in wanted:
            yield
            requests.append((yield from self._request(number, each, pools, node)))
        made = tuple(requests)
        if all(request.devices is None for request in made):
            self._known[number, place] = made
        return made

    def _request(self, number: int, wanted: Wanted, pools: Sequence[Pool], node: NodeIdentity) -> Parts[Request]:
        claim = self._claims[number]
        where = f"claim {claim.key}, request {wanted.name}"
        if wanted.has_derived_attributes and self._features.reports_device_of_error:
            raise AllocationError(f"{where}: cannot handle request with derived attributes, the feature is disabled")
        for place, selector in enumerate(wanted.selectors):
            if selector.cel is None:
                message = f"{where}, selector #{place}: CEL expression empty (unsupported selector type?)"
                raise AllocationError(message)
        if wanted.names_admin and not self._features.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        if not wanted.class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        device_class = self._classes(wanted.class_name)
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{wanted.class_name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {wanted.class_name}: {missing}")
        selection = self._selections.of(device_class, wanted.selectors, claim.key, wanted.full_name)
        request = Request(wanted, device_class, selection, min(wanted.count, _UNBOUNDED))
        if wanted.mode == ALL:
            request.devices = yield from self._all_devices(number, request, where, pools, node)
            request.count = len(request.devices)
        elif wanted.mode != EXACT_COUNT:
            raise AllocationError(f"{where}: unsupported count mode {wanted.mode}")
        return request

    def _all_devices(
        self, number: int, request: Request, where: str, pools: Sequence[Pool], node: NodeIdentity
    ) -> Parts[list[PoolDevice]]:
        devices: list[PoolDevice] = []
        for pool in pools:
            if pool.is_incomplete or pool.is_invalid:
                state = "being updated" if pool.is_incomplete else "invalid"
                problem = f"asks for all devices, but resource pool {pool.id} is currently {state}"
                if self._features.bad_pools_reject_one_node:
                    claim = self._claims[number].key
                    raise BadPoolError(claim, number, f"request {request.wanted.name}: {problem}")
                raise AllocationError(f"{where}: {problem}")
            for found in pool.devices:
                yield
                if (yield from self._counts(request, where, found, node)):
                    devices.append(found)
        return devices

    def _counts(self, request: Request, where: str, found: PoolDevice, node: NodeIdentity) -> Parts[bool]:
        if not (yield from is_selectable(request, found, node, self._features)):
            return False
        if not self._features.consumable_capacity:
            return True
        used = _NOTHING_USED
        if not self._features.all_means_static_capacity:
            used = dict(self._allocated.consumed.get(found.id, _NOTHING_USED))
        capacities = capacities_of(found.device, found.id.driver, self._features)
        try:
            taken = consumption(request.wanted.capacity, capacities, self._features, found.id.driver)
        except CapacityError as problem:
            raise AllocationError(f"{where}: checking capacity for device {found.device.name}: {problem}") from None
        return (
            taken is not None
            and is_allowed(taken, capacities, self._features)
            and has_room(taken, capacities, used, _NOTHING_USED)
        )


def is_selectable(request: Request, found: PoolDevice, node: NodeIdentity, features: AllocatorFeatures) -> Parts[bool]:
    """Whether the request may have the device, if it is free. Raises `AllocationError`."""
    device = found.device
    if device.binding_conditions and not features.binding_conditions:
        return False
    passes = request.selection.known(found)
    if passes is None:
        passes = yield from request.selection.worked_out(found)
    if not passes:
        return False
    if not found.slice.spec.per_device_node_selection:
        return True
    return reaches(node, device.node_name, device.node_selector, all_nodes=device.all_nodes)
