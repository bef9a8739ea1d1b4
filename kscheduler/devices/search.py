"""The search: devices for all claims of a pod on one node, the first solution in the order of pools and devices.

One device after the other is chosen, for one request after the other; where it does not go on, the last choice is
undone. The devices of a request come in the order of the pools, so that no set of devices is tried twice. The steps
are generators that one loop drives: as many devices as a pod may claim do not fit on Python's stack.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final

from kscheduler.api.devices import DeviceToleration
from kscheduler.devices.ids import AllocatedState, DeviceID
from kscheduler.devices.limits.capacity import Amount, CapacityError, capacities_of, consumption, has_room, is_allowed
from kscheduler.devices.limits.constraints import Constraint, UnsupportedValueError
from kscheduler.devices.limits.counters import PoolCounters
from kscheduler.devices.plan import MAX_RESULTS, ClaimPlan, Parts, Request, is_selectable
from kscheduler.devices.pools import NodeIdentity, Pool, PoolDevice
from kscheduler.devices.taints import untolerated
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures

# Of which each pool knows whether they can be read.
_MAX_ATTRIBUTES: Final = 16
# Steps, or devices that are in use, after which the search pauses: each takes a microsecond or two, as a pause does.
_BETWEEN_PAUSES: Final = 32


class SearchEnd(Enum):
    """How a step of the search ended."""

    FOUND = auto()
    NONE = auto()
    TOO_MANY = auto()
    """The claim would have more devices than its status can list."""


# It yields the next step, and is sent how that ended; or nothing, between two parts of its own work.
Step = Generator["Step | None", SearchEnd, SearchEnd]


@dataclass(slots=True)
class Chosen:
    """A device that a request gets."""

    found: PoolDevice
    request: Request
    is_shared: bool
    """Whether others may have shares of it."""
    share_id: str | None = None
    consumed: dict[str, Amount] | None = None
    """What the share takes."""
    counted: bool = False
    marked: bool = False
    constraints: int = 0
    """How many constraints have taken it in."""


class Fitting:
    """The devices that fit a request, looked at one by one, in order, as far as they are needed.

    Each is looked at once: what later requests had is given back before another device is looked for here.
    """

    def __init__(
        self,
        devices: Sequence[PoolDevice],
        is_in_use: Callable[[DeviceID], bool],
        fits: Callable[[PoolDevice], Parts[bool]],
        *,
        tries_all: bool,
    ) -> None:
        """`fits` is asked about devices that are not in use only."""
        self.devices: list[PoolDevice] = []
        self.tries_all = tries_all
        """Whether each is to be tried, even where there are too few anyhow."""
        self._rest = iter(devices)
        self._is_in_use = is_in_use
        self._fits = fits

    def has(self, count: int) -> Parts[bool]:
        """Whether there are so many; then they are in `devices`."""
        if len(self.devices) >= count:
            return True
        until_pause = _BETWEEN_PAUSES
        for found in self._rest:
            # Most devices of a busy node are in use: a pause for each would cost more than to look at it.
            if self._is_in_use(found.id):
                until_pause -= 1
                if not until_pause:
                    until_pause = _BETWEEN_PAUSES
                    yield
                continue
            yield
            if (yield from self._fits(found)):
                self.devices.append(found)
                if len(self.devices) >= count:
                    return True
        return False


class Search:
    """One search on one node."""

    def __init__(
        self,
        features: AllocatorFeatures,
        plans: Sequence[ClaimPlan],
        pools: Sequence[Pool],
        node: NodeIdentity,
        allocated: AllocatedState,
        counters: PoolCounters,
        new_share_id: Callable[[], str],
    ) -> None:
        self._features = features
        self._plans = plans
        self._node = node
        self._allocated = allocated
        self._counters = counters
        self._new_share_id = new_share_id
        self._pools = [pool for pool in pools if pool.is_usable]
        self._devices = [found for pool in self._pools for found in pool.devices]
        self._remembers = _remembers(features, self._pools)
        self.chosen: list[list[Chosen]] = [[] for _ in plans]
        """By claim."""
        self._taken: dict[DeviceID, set[int]] = {}
        """Devices that are chosen, and by which claims; shares are not in it."""
        self._shares: dict[DeviceID, list[dict[str, Amount]]] = {}
        """What the chosen shares of each device take."""

    def parts(self) -> Parts[bool]:
        """Whether there is a solution; it is in `chosen`. Raises `AllocationError`."""
        steps, answer, until_pause = [self._claim(0)], None, _BETWEEN_PAUSES
        while steps:
            until_pause -= 1
            if not until_pause:
                until_pause = _BETWEEN_PAUSES
                yield
            try:
                step = steps[-1].send(answer)  # type: ignore[arg-type]  # a new generator is sent None
                answer = None
                if step is None:  # the step pauses: before it looks at a device, or evaluates a selector
                    until_pause = _BETWEEN_PAUSES
                    yield
                else:
                    steps.append(step)
            except StopIteration as ended:
                steps.pop()
                answer = ended.value
        if answer is SearchEnd.TOO_MANY:  # of the first claim; those of later claims end as NONE
            raise AllocationError("allocation max size exceeded")
        return answer is SearchEnd.FOUND

    # --- the order ----------------------------------------------------------------------------------------------------

    def _claim(self, number: int) -> Step:
        if number == len(self._plans):
            return SearchEnd.FOUND
        outcome = yield self._next_request(number, 0)
        return outcome

    def _next_request(self, claim: int, place: int) -> Step:
        """This request of the claim and all that follow."""
        alternatives = self._plans[claim].requests
        if place == len(alternatives):
            outcome = yield self._claim(claim + 1)
            return SearchEnd.NONE if outcome is SearchEnd.TOO_MANY else outcome
        if not alternatives[place][0].wanted.parent:
            outcome = yield self._request(claim, place, alternatives[place][0])
            return outcome
        outcomes = set()
        for request in alternatives[place]:
            outcome = yield self._request(claim, place, request)
            if outcome is SearchEnd.FOUND:
                return outcome
            outcomes.add(outcome)
        return SearchEnd.TOO_MANY if outcomes == {SearchEnd.TOO_MANY} else SearchEnd.NONE

    def _request(self, claim: int, place: int, request: Request) -> Step:
        """All devices of a request, and all requests that follow."""
        if request.devices is not None:
            outcome = yield self._all_from(claim, place, request, request.devices, 0)
        else:
            tries_all = self._remembers or (yield from self._may_fail(claim, request))
            fitting = Fitting(
                self._devices,
                partial(self._is_held_by, claim) if request.wanted.is_admin else self._is_held,
                lambda found: self._fits(claim, request, found),
                tries_all=tries_all,
            )
            outcome = yield self._some_from(claim, place, request, 0, fitting, 0)
        return outcome

    def _all_from(self, claim: int, place: int, request: Request, devices: Sequence[PoolDevice], number: int) -> Step:
        """The `number`th of all devices that are asked for, and all that follow."""
        if not devices:
            return SearchEnd.NONE
        if number == len(devices):
            outcome = yield self._next_request(claim, place + 1)
            return outcome
        if len(devices) - number > MAX_RESULTS - len(self.chosen[claim]):
            return SearchEnd.TOO_MANY
        chosen = self._choose(claim, request, devices[number], must=True)
        if chosen is None:
            return SearchEnd.NONE
        outcome = yield self._all_from(claim, place, request, devices, number + 1)
        if outcome is not SearchEnd.FOUND:
            self._undo(claim, chosen)
        return outcome

    def _some_from(self, claim: int, place: int, request: Request, number: int, fitting: Fitting, start: int) -> Step:
        """The `number`th device of a request, each that fits in turn, and all that follow.

        `start`: the place in `fitting` after the device before.
        """
        if number >= request.count:
            outcome = yield self._next_request(claim, place + 1)
            return outcome
        needed = request.count - number
        if needed > MAX_RESULTS - len(self.chosen[claim]):
            return SearchEnd.TOO_MANY
        # With too few devices for those that are still needed, no way to combine them has to be tried. Then all have
        # been asked about, in order, as a search that finds nothing does; so errors are the same.
        if not fitting.tries_all and not (yield from fitting.has(start + needed)):
            return SearchEnd.NONE
        at = start
        while (yield from fitting.has(at + 1)):
            chosen = self._choose(claim, request, fitting.devices[at], must=False)
            at += 1
            if chosen is None:
                yield None
                continue
            outcome = yield self._some_from(claim, place, request, number + 1, fitting, at)
            if outcome is SearchEnd.FOUND:
                return outcome
            self._undo(claim, chosen)
            if outcome is SearchEnd.TOO_MANY:
                return outcome
        return SearchEnd.NONE

    def _may_fail(self, claim: int, request: Request) -> Parts[bool]:
        """Whether a constraint on the request may be an error: then it is, also where there are too few devices."""
        if not self._features.refuses_unreadable_attributes or request.count < 2:
            return False
        for constraint in self._plans[claim].constraints:
            if not constraint.applies(request.wanted):
                continue
            for pool in self._pools:
                if (yield from _has_unreadable(pool, constraint)):
                    return True
        return False

    # --- one device ---------------------------------------------------------------------------------------------------

    def _fits(self, claim: int, request: Request, found: PoolDevice) -> Parts[bool]:
        """Whether a device that is not in use is selected and large enough, by itself. Raises `AllocationError`."""
        if not (yield from is_selectable(request, found, self._node, self._features)):
            return False
        return not self._features.consumable_capacity or self._has_room(claim, request, found, "checking")

    def _choose(self, claim: int, request: Request, found: PoolDevice, *, must: bool) -> Chosen | None:
        """Choose a device that is selected. `must`: it is this one or none, and nobody has looked whether it fits."""
        chosen = Chosen(found, request, is_shared=self._is_shared(found))
        if not self._mark(claim, chosen, must=must):
            self._give_up(claim, chosen)
            return None
        if chosen.is_shared:
            wanted = request.wanted
            capacities = capacities_of(found.device, found.id.driver, self._features)
            chosen.consumed = consumption(wanted.capacity, capacities, self._features, found.id.driver) or {}
            chosen.share_id = self._new_share_id()
            self._shares.setdefault(found.id, []).append(chosen.consumed)
        self.chosen[claim].append(chosen)
        return chosen

    def _mark(self, claim: int, chosen: Chosen, *, must: bool) -> bool:
        """Whether the device goes with what is chosen already; marked as far as it does."""
        found, wanted = chosen.found, chosen.request.wanted
        if must and self._is_in_use(found.id, claim, is_admin=wanted.is_admin):
            return False
        if not wanted.is_admin and not chosen.is_shared and self._has_shares(found.id):
            return False
        if self._features.refuses_skipped_operations and found.slice.spec.skip_node_operations:
            return False
        if found.device.consumes_counters and not self._count(chosen):
            return False
        if self._features.device_taints and not _tolerates(wanted.tolerations, found):
            return False
        for constraint in self._plans[claim].constraints:
            try:
                is_met = constraint.add(wanted, found.device, found.id)
            except UnsupportedValueError as problem:
                raise AllocationError(f"{self._where(claim, chosen.request)}: {problem}") from None
            if not is_met:
                if must:
                    raise self._unsatisfiable(claim, chosen.request, found)
                return False
            chosen.constraints += 1
        if not chosen.is_shared:
            self._taken.setdefault(found.id, set()).add(claim)
            chosen.marked = True
        if not must or not self._features.consumable_capacity:
            return True
        return self._has_room(claim, chosen.request, found, "rechecking")

    def _count(self, chosen: Chosen) -> bool:
        """Whether the pool's counters are enough for the device; a shared device is counted with its first share."""
        if not self._features.partitionable_devices:
            return False
        if chosen.is_shared and self._is_partly_used(chosen.found.id):
            return True
        chosen.counted = self._counters.take(chosen.found)
        return chosen.counted

    def _undo(self, claim: int, chosen: Chosen) -> None:
        """Take back a choice: the last one of the claim."""
        self.chosen[claim].pop()
        if chosen.consumed is not None:
            self._shares[chosen.found.id].pop()
            if not self._shares[chosen.found.id]:
                del self._shares[chosen.found.id]
        self._give_up(claim, chosen)

    def _give_up(self, claim: int, chosen: Chosen) -> None:
        """Undo what a choice has marked so far."""
        if chosen.marked:
            self._taken[chosen.found.id].discard(claim)
        for constraint in self._plans[claim].constraints[: chosen.constraints]:
            constraint.remove(chosen.request.wanted)
        if chosen.counted:
            self._counters.give_back(chosen.found)

    # --- what is in use -----------------------------------------------------------------------------------------------

    def _is_in_use(self, device: DeviceID, claim: int, *, is_admin: bool) -> bool:
        return self._is_held_by(claim, device) if is_admin else self._is_held(device)

    def _is_held(self, device: DeviceID) -> bool:
        """Whether a claim has it, or it is chosen for one."""
        return device in self._allocated.devices or bool(self._taken.get(device))

    def _is_held_by(self, claim: int, device: DeviceID) -> bool:
        """Whether it is chosen for this claim: with admin access, others do not matter."""
        return claim in self._taken.get(device, ())

    def _has_shares(self, device: DeviceID) -> bool:
        """Whether claims have shares of a device, which then is given to nobody as a whole."""
        if not self._features.keeps_shared_devices_from_exclusive_use:
            return False
        return device in self._shares or device in self._allocated.consumed or device in self._allocated.shared

    def _is_shared(self, found: PoolDevice) -> bool:
        return self._features.consumable_capacity and bool(found.device.allow_multiple_allocations)

    def _is_partly_used(self, device: DeviceID) -> bool:
        """Whether the counters of a device that may be shared are counted already."""
        if device in self._shares or device in self._allocated.consumed:
            return True
        return self._features.counts_by_pool_and_driver and device in self._allocated.shared

    def _has_room(self, claim: int, request: Request, found: PoolDevice, doing: str) -> bool:
        capacities = capacities_of(found.device, found.id.driver, self._features)
        try:
            taken = consumption(request.wanted.capacity, capacities, self._features, found.id.driver)
        except CapacityError as problem:
            where = self._where(claim, request)
            raise AllocationError(f"{where}: {doing} capacity for device {found.id}: {problem}") from None
        if taken is None or not is_allowed(taken, capacities, self._features):
            return False
        planned: dict[str, int] = {}
        for share in self._shares.get(found.id, ()):
            for name, amount in share.items():
                planned[name] = planned.get(name, 0) + amount.nano
        return has_room(taken, capacities, self._allocated.consumed.get(found.id, {}), planned)

    def _unsatisfiable(self, claim: int, request: Request, found: PoolDevice) -> AllocationError:
        why = "because a claim constraint would not be satisfied"
        return AllocationError(f"{self._where(claim, request)}: cannot add device {found.id} {why}")

    def _where(self, claim: int, request: Request) -> str:
        return f"claim {self._plans[claim].claim.key}, request {request.wanted.name}"


def _has_unreadable(pool: Pool, constraint: Constraint) -> Parts[bool]:
    """Whether a device of the pool has a value that the constraint cannot read; worked out once for each attribute."""
    known = pool.has_unreadable.get(constraint.attribute)
    if known is None:
        known = False
        for found in pool.devices:
            yield
            if not constraint.is_readable(found.device, found.id):
                known = True
                break
        if len(pool.has_unreadable) >= _MAX_ATTRIBUTES:
            pool.has_unreadable.clear()
        pool.has_unreadable[constraint.attribute] = known
    return known


def _remembers(features: AllocatorFeatures, pools: Sequence[Pool]) -> bool:
    """Whether choices that were undone matter to later ones: then even those that cannot succeed are tried (1.36)."""
    if features.list_attributes and not features.restores_common_values:
        return True
    if features.counts_by_pool_and_driver:
        return False
    for pool in pools:
        if pool.consumes_counters is None:
            pool.consumes_counters = any(found.device.consumes_counters for found in pool.devices)
        if pool.consumes_counters:
            return True
    return False


def _tolerates(tolerations: Sequence[DeviceToleration], found: PoolDevice) -> bool:
    """Whether no taint keeps the device from being allocated."""
    if not found.device.taints:
        return True
    return next(untolerated(tolerations, found.device.taints), None) is None
