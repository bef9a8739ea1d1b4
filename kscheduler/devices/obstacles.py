"""Why a claim gets no devices on a node: the allocator's tests, each counted by itself, for one request at a time.

    the node reaches 8 devices of class gpu
      6 pass the request's selectors        else: which expression passes none, and what the devices have instead
        1 is too small, 2 have a taint, 1 is in use, 1 lacks counters of its pool
          1 is free                         enough? then a constraint, or the requests together, are in the way

A device that several tests exclude counts for the first of them. Limits: what requests of one claim take from each
other is not looked at; of alternatives each is told.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec

from kscheduler.api.devices import ALL, DeviceClass, DeviceTaint, DeviceTaintRule, ResourceClaim
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.limits.capacity import CapacityError, capacities_of, consumption, has_room, is_allowed
from kscheduler.devices.limits.counters import FreeCounters, PoolCounters
from kscheduler.devices.obstacle_details import (
    AttributeValues,
    ConstraintObstacle,
    PoolTrouble,
    constraint_obstacle,
    trouble_of,
    unplaced,
    values_there,
)
from kscheduler.devices.pools import NodeIdentity, PoolDevice, reaches
from kscheduler.devices.selection import DeviceSelection, Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.taints import untolerated
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures, Wanted, wanted_of

# Of a large cluster, for the values that there are.
_DEVICES_READ: Final = 4096
_NOTHING_USED: Mapping[str, int] = {}


class UnmatchedSelector(msgspec.Struct, frozen=True):
    """An expression because of which no device of the class passes."""

    expression: str
    excludes_all: bool
    """Whether no device passes this one alone; else none passes all of the request's."""
    attributes: tuple[AttributeValues, ...]
    """What the devices have where it looks."""


class BlockingTaint(msgspec.Struct, frozen=True):
    """A taint that a request does not tolerate."""

    key: str
    value: str
    effect: str
    rules: tuple[str, ...]
    """The names of the DeviceTaintRules that put it there; none: the driver did."""
    devices: int
    """How many have it."""


class RequestObstacles(msgspec.Struct, frozen=True):
    """What stands between a request, or one of its alternatives, and its devices. The numbers are of devices."""

    request: str
    """`request`, or `request/subrequest`."""
    class_name: str
    count: int | None
    """How many are asked for; `None`: all that match."""
    of_class: int
    """That the node reaches."""
    matching: int
    """That pass the request's selectors, too."""
    unmatched: tuple[UnmatchedSelector, ...]
    """Where none matches: the expressions that exclude all of them by themselves, or all expressions."""
    too_small: int
    tainted: int
    taints: tuple[BlockingTaint, ...]
    """A device with two of them counts for both."""
    in_use: int
    without_counters: int
    """For which the pool's counters are not enough."""
    free: int

    @property
    def is_short(self) -> bool:
        """Whether the request by itself cannot have its devices."""
        return self.free < self.needed

    @property
    def needed(self) -> int:
        """How many devices; of all that match those that are large enough, and one at least."""
        return max(self.matching - self.too_small, 1) if self.count is None else self.count


class ClaimObstacles(msgspec.Struct, frozen=True):
    """What stands between a claim and the devices of a node."""

    requests: tuple[RequestObstacles, ...]
    constraints: tuple[ConstraintObstacle, ...]
    pools: tuple[PoolTrouble, ...]
    """Unusable pools that the node reaches and that may have devices of the classes."""
    reached: int
    """Devices of all classes that the node reaches, without those of unusable pools."""

    @property
    def says_much(self) -> bool:
        """Whether the node has, or may have, devices of a class that is asked for."""
        return bool(self.pools) or any(each.of_class for each in self.requests)


class Obstacles:
    """Explains claims, in one state of devices and allocations."""

    def __init__(
        self,
        features: AllocatorFeatures,
        allocated: AllocatedState,
        classes: Callable[[str], DeviceClass | None],
        slices: SliceIndex,
        selections: Selections,
        rules: Sequence[DeviceTaintRule] = (),
    ) -> None:
        """`slices`: with the taints of all `rules`."""
        self._features = features
        self._rules = rules
        self._allocated = allocated
        self._classes = classes
        self._slices = slices
        self._selections = selections
        self._free_counters = FreeCounters(features, allocated)
        self._of_cluster: dict[tuple[str, str], tuple[AttributeValues, ...]] = {}
        """By class and expression, what the devices of the whole cluster have."""

    def of(self, claim: ResourceClaim, node: NodeIdentity) -> ClaimObstacles:
        """What is in the claim's way on a node. Raises `AllocationError` where a selector fails."""
        pools = self._slices.pools(node.name, node.labels)
        reached = [found for pool in pools if pool.is_usable for found in pool.devices if _is_for(node, found)]
        reported: list[RequestObstacles] = []
        free_for: list[tuple[Wanted, int, Sequence[PoolDevice]]] = []
        class_names: set[str] = set()
        for request in claim.spec.devices.requests:
            alternatives = wanted_of(request)
            for wanted in alternatives:
                obstacles, free = self._of_request(claim, wanted, reached)
                reported.append(obstacles)
                class_names.add(wanted.class_name)
                if len(alternatives) == 1:
                    free_for.append((wanted, obstacles.needed, free))
        constraints = () if any(each.is_short for each in reported) else tuple(self._constraints(claim, free_for))
        troubles = [trouble_of(pool, self._slices.slices) for pool in pools if not pool.is_usable]
        concerned = tuple(each for each in troubles if self._may_have(each, class_names))
        return ClaimObstacles(tuple(reported), constraints, concerned, len(reached))

    # --- a request ----------------------------------------------------------------------------------------------------

    def _of_request(
        self, claim: ResourceClaim, wanted: Wanted, reached: Sequence[PoolDevice]
    ) -> tuple[RequestObstacles, Sequence[PoolDevice]]:
        """The obstacles, and the devices that are free for the request."""
        is_of_class, selection = self._of_class(claim, wanted), self._selection(claim, wanted)
        of_class = [found for found in reached if is_of_class(found)]
        matching = [found for found in of_class if selection.has(found)]
        counts: Counter[str] = Counter()
        taints: Counter[tuple[DeviceTaint, tuple[str, ...]]] = Counter()
        free = []
        for found in matching:
            why, own_taints = self._excluded_by(wanted, found)
            taints.update((taint, self._rules_of(found, taint)) for taint in own_taints)
            counts[why] += 1
            if not why:
                free.append(found)
        unmatched = () if matching else tuple(self._unmatched(claim, wanted, of_class))
        obstacles = RequestObstacles(
            request=wanted.full_name,
            class_name=wanted.class_name,
            count=None if wanted.mode == ALL else wanted.count,
            of_class=len(of_class),
            matching=len(matching),
            unmatched=unmatched,
            too_small=counts["too small"],
            tainted=counts["tainted"],
            taints=tuple(
                BlockingTaint(taint.key, taint.value, taint.effect, rules, count)
                for (taint, rules), count in sorted(taints.items(), key=_most_first)
            ),
            in_use=counts["in use"],
            without_counters=counts["without counters"],
            free=len(free),
        )
        return obstacles, free

    def _excluded_by(self, wanted: Wanted, found: PoolDevice) -> tuple[str, Sequence[DeviceTaint]]:
        """The first test that excludes the device, empty if none does; and the taints, if it is that."""
        features, device = self._features, found.device
        used = self._allocated.consumed.get(found.id, _NOTHING_USED)
        has_enough, has_room_now = _room(wanted, found, used, features)
        means_rest = wanted.mode == ALL and not features.all_means_static_capacity
        if not has_enough or (means_rest and not has_room_now):
            return "too small", ()
        taints = tuple(untolerated(wanted.tolerations, device.taints)) if features.device_taints else ()
        if taints:
            return "tainted", taints
        if (found.id in self._allocated.devices and not wanted.is_admin) or not has_room_now:
            return "in use", ()
        is_shared = features.consumable_capacity and bool(device.allow_multiple_allocations)
        if (
            features.keeps_shared_devices_from_exclusive_use
            and not is_shared
            and not wanted.is_admin
            and self._has_shares(found)
        ):
            return "in use", ()
        is_counted = is_shared and self._is_partly_used(found)
        if device.consumes_counters and not is_counted and not self._has_counters(found):
            return "without counters", ()
        return "", ()

    def _rules_of(self, found: PoolDevice, taint: DeviceTaint) -> tuple[str, ...]:
        return tuple(rule.metadata.name for rule in self._rules if rule.spec.taint == taint and _selects(rule, found))

    def _has_shares(self, found: PoolDevice) -> bool:
        return found.id in self._allocated.shared or found.id in self._allocated.consumed

    def _is_partly_used(self, found: PoolDevice) -> bool:
        """Whether the counters of a device that may be shared are counted already."""
        counts_shares = self._features.counts_by_pool_and_driver and found.id in self._allocated.shared
        return found.id in self._allocated.consumed or counts_shares

    def _has_counters(self, found: PoolDevice) -> bool:
        return self._features.partitionable_devices and PoolCounters(self._free_counters, self._features).take(found)

    # --- selectors ----------------------------------------------------------------------------------------------------

    def _selection(self, claim: ResourceClaim, wanted: Wanted, *numbers: int) -> DeviceSelection:
        """The class's selectors with all of the request, or with those at these places."""
        device_class = self._class(wanted.class_name)
        selectors = [wanted.selectors[number] for number in numbers] if numbers else wanted.selectors
        return self._selections.of(device_class, selectors, claim.key, wanted.full_name)

    def _of_class(self, claim: ResourceClaim, wanted: Wanted) -> Callable[[PoolDevice], bool]:
        """Whether a device is of the class."""
        selection = self._selections.of(self._class(wanted.class_name), (), claim.key, wanted.full_name)
        if self._features.binding_conditions:
            return selection.has
        return lambda found: not found.device.binding_conditions and selection.has(found)

    def _class(self, name: str) -> DeviceClass:
        known = self._classes(name)
        if known is None:
            raise AllocationError(f"device class {name} does not exist")
        return known

    def _unmatched(
        self, claim: ResourceClaim, wanted: Wanted, of_class: Sequence[PoolDevice]
    ) -> Iterator[UnmatchedSelector]:
        """Of selectors none of which excludes all devices alone, all are told."""
        if not of_class:
            return
        alone = [
            number
            for number in range(len(wanted.selectors))
            if not any(map(self._selection(claim, wanted, number).has, of_class))
        ]
        for number in alone or range(len(wanted.selectors)):
            cel = wanted.selectors[number].cel
            expression = "" if cel is None else cel.expression
            yield UnmatchedSelector(expression, bool(alone), self._values(claim, wanted, expression, of_class))

    def _values(
        self, claim: ResourceClaim, wanted: Wanted, expression: str, of_class: Sequence[PoolDevice]
    ) -> tuple[AttributeValues, ...]:
        """What the devices of the node have where the expression looks.

        Of an attribute with many values, or with none, it is what devices of the cluster have: of an attribute such as
        a serial number each node would tell others.
        """
        key = wanted.class_name, expression
        if key not in self._of_cluster:
            everywhere = islice((found for piece in self._slices.slices for found in unplaced(piece)), _DEVICES_READ)
            self._of_cluster[key] = values_there(expression, filter(self._of_class(claim, wanted), everywhere))
        pairs = zip(self._of_cluster[key], values_there(expression, of_class), strict=True)
        return tuple(there if there.are_many or not there.values else here for there, here in pairs)

    # --- constraints and pools ----------------------------------------------------------------------------------------

    def _constraints(
        self, claim: ResourceClaim, free_for: Sequence[tuple[Wanted, int, Sequence[PoolDevice]]]
    ) -> Iterator[ConstraintObstacle]:
        for spec in claim.spec.devices.constraints:
            found = constraint_obstacle(spec, free_for, self._features)
            if found is not None:
                yield found

    def _may_have(self, trouble: PoolTrouble, class_names: set[str]) -> bool:
        """Whether devices of the pool are of one of the classes, as far as they are published; if none is, it may."""
        pieces = [
            piece
            for piece in self._slices.slices
            if (piece.spec.driver, piece.spec.pool.name) == (trouble.driver, trouble.pool)
        ]
        devices = [found for piece in pieces for found in unplaced(piece)]
        classes = [known for known in map(self._classes, class_names) if known is not None]
        selections = [self._selections.of(known, (), "", "") for known in classes]
        return not devices or any(each.has(found) for each in selections for found in devices)


def _most_first(counted: tuple[tuple[DeviceTaint, tuple[str, ...]], int]) -> tuple[int, str, str]:
    (taint, _), count = counted
    return -count, taint.key, taint.value


def _selects(rule: DeviceTaintRule, found: PoolDevice) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return False
    driver, pool, device = found.id
    return selector.driver in (None, driver) and selector.pool in (None, pool) and selector.device in (None, device)


def _is_for(node: NodeIdentity, found: PoolDevice) -> bool:
    """Whether a device that chooses its nodes itself is for this one."""
    device = found.device
    if not found.slice.spec.per_device_node_selection:
        return True
    return reaches(node, device.node_name, device.node_selector, all_nodes=device.all_nodes)


def _room(wanted: Wanted, found: PoolDevice, used: Mapping[str, int], features: AllocatorFeatures) -> tuple[bool, bool]:
    """Whether the device is large enough for the request, and whether enough of it is left."""
    if not features.consumable_capacity:
        return True, True
    capacities = capacities_of(found.device, found.id.driver, features)
    try:
        taken = consumption(wanted.capacity, capacities, features, found.id.driver)
    except CapacityError:
        return False, False
    if taken is None or not is_allowed(taken, capacities, features):
        return False, False
    has_enough = has_room(taken, capacities, _NOTHING_USED, _NOTHING_USED)
    return has_enough, has_enough and has_room(taken, capacities, used, _NOTHING_USED)
