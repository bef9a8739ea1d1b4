"""Why devices do not satisfy a claim, one kind of obstacle after another: constraints, attributes, pools."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from kscheduler.api.devices import Device, DeviceAttribute, DeviceConstraint, ResourceSlice
from kscheduler.devices.ids import DeviceID, PoolID
from kscheduler.devices.limits.constraints import Values, values_of
from kscheduler.devices.pools import Pool, PoolDevice
from kscheduler.devices.wanted import AllocatorFeatures, Wanted

# Constraints of a claim that too few devices can meet together.


class ConstraintObstacle(msgspec.Struct, frozen=True):
    """A constraint that cannot be met with the devices that are free for the requests."""

    attribute: str
    is_distinct: bool
    """Whether the devices must differ in the attribute; else they must have it in common."""
    needed: int
    """Devices."""
    best: int
    """How many of them the constraint lets have together."""
    value: str = ""
    """What these have in common."""


def constraint_obstacle(
    spec: DeviceConstraint, requests: Sequence[tuple[Wanted, int, Sequence[PoolDevice]]], features: AllocatorFeatures
) -> ConstraintObstacle | None:
    """Why the constraint cannot be met; `None` if it does not stand in the way by itself.

    `requests`: each with the number of devices that it needs, and those that are free for it.
    """
    named = set(spec.requests)
    of_it = [each for each in requests if not named or {each[0].base, each[0].full_name} & named]
    if not of_it:
        return None
    needed = sum(count for _, count, _ in of_it)
    attribute = spec.match_attribute or spec.distinct_attribute or ""
    found = [
        (count, [values_of(each.device, each.id.driver, attribute, features) for each in free])
        for _, count, free in of_it
    ]
    every = {value for _, listed in found for values in listed for value in values or ()}
    # Without lists one device may have a value of an unknown type, with which no other goes.
    has_odd = not features.list_attributes and any(values == frozenset() for _, listed in found for values in listed)
    if spec.match_attribute is None:
        best = min(len(every) + has_odd, needed)
        at_once = needed if features.compares_all_distinct else _compared_at_once([count for count, _ in found])
        obstacle = ConstraintObstacle(attribute, is_distinct=True, needed=needed, best=best)
        return obstacle if best < at_once else None
    if has_odd and needed == 1:
        return None
    counts = {value: sum(min(count, _having(value, listed)) for count, listed in found) for value in every}
    if not counts:
        return ConstraintObstacle(attribute, is_distinct=False, needed=needed, best=0)
    value = min(counts, key=lambda each: (-counts[each], str(each)))
    if counts[value] >= needed:
        return None
    return ConstraintObstacle(attribute, is_distinct=False, needed=needed, best=counts[value], value=str(value[1]))


def _compared_at_once(counts: Sequence[int]) -> int:
    """Values that must differ where only the last one of each request is compared, as in 1.36."""
    return max(len(counts), 2 if max(counts) > 1 else 1)


def _having(value: object, listed: Sequence[Values | None]) -> int:
    return sum(values is not None and value in values for values in listed)


# The attributes and capacities that a selector names, and what devices have there.
#
#     device.attributes["gpu.example.com"].model == "Hollow-80"      gpu.example.com/model: "Hollow-40", "Hollow-90"
#
# Read from the text: an attribute that the expression looks up by a computed name is not found.

MAX_VALUES: Final = 5
_NAMED: Final = re.compile(
    r"""device\s*\.\s*(?P<field>attributes|capacity)\s*
        \[\s*\??\s*(?P<quote>['"])(?P<domain>[^'"]*)(?P=quote)\s*\]\s*
        (?:\.\s*\??\s*(?P<name>[A-Za-z_]\w*)|\[\s*\??\s*(?P<other>['"])(?P<quoted>[^'"]*)(?P=other)\s*\])""",
    re.VERBOSE,
)


class NamedAttribute(msgspec.Struct, frozen=True):
    """An attribute or a capacity as an expression names it."""

    field: str
    """`attributes` or `capacity`."""
    domain: str
    name: str
    place: tuple[int, int] = (0, 0)
    """Where it stands in the expression: its first character and the one after it."""

    @property
    def full_name(self) -> str:
        """With its domain."""
        return f"{self.domain}/{self.name}"


class AttributeValues(msgspec.Struct, frozen=True):
    """What devices have where an expression looks."""

    attribute: str
    """Its full name."""
    values: tuple[str, ...]
    """As CEL writes them, those of most devices first, at most `MAX_VALUES`; none: no device has it."""
    more: int = 0
    """Values that are left off."""
    instead: tuple[str, ...] = ()
    """Where no device has it: full names that some device has, at most `MAX_VALUES`."""

    @property
    def are_many(self) -> bool:
        """Whether values were left off."""
        return self.more > 0


def named_attributes(expression: str) -> list[NamedAttribute]:
    """In the order of the expression; one that is named twice is there twice."""
    return [
        NamedAttribute(found["field"], found["domain"], found["name"] or found["quoted"], found.span())
        for found in _NAMED.finditer(expression)
    ]


def values_there(expression: str, devices: Iterable[PoolDevice]) -> tuple[AttributeValues, ...]:
    """For each attribute that the expression names, what the devices have there."""
    known = tuple(devices)
    wanted = {(each.field, each.full_name): each for each in named_attributes(expression)}
    return tuple(_values(each, known) for each in wanted.values())


def unplaced(piece: ResourceSlice) -> Iterator[PoolDevice]:
    """The devices of a slice by itself, whatever its pool is like."""
    pool = Pool(PoolID(piece.spec.driver, piece.spec.pool.name))
    for device in piece.spec.devices:
        yield PoolDevice(DeviceID(*pool.id, device.name), device, piece, pool)


def attributes_of(found: PoolDevice, field: str) -> dict[str, str]:
    """By full name, the values of a device as CEL writes them."""
    device, driver = found.device, found.id.driver
    if field == "capacity":
        return {_full(name, driver): f'quantity("{amount.value}")' for name, amount in device.capacity.items()}
    return {_full(name, driver): _literal(value) for name, value in device.attributes.items()}


def _values(named: NamedAttribute, devices: Iterable[PoolDevice]) -> AttributeValues:
    values: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for found in devices:
        there = attributes_of(found, named.field)
        others.update(there.keys())
        if named.full_name in there:
            values[there[named.full_name]] += 1
    ordered = [value for value, _ in sorted(values.items(), key=_most_first)]
    instead = () if values else tuple(name for name, _ in sorted(others.items(), key=_most_first)[:MAX_VALUES])
    more = max(len(ordered) - MAX_VALUES, 0)
    return AttributeValues(named.full_name, tuple(ordered[:MAX_VALUES]), more, instead)


def _most_first(counted: tuple[str, int]) -> tuple[int, str]:
    return -counted[1], counted[0]


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _literal(attribute: DeviceAttribute) -> str:
    if attribute.string_value is not None:
        return f'"{attribute.string_value}"'
    if attribute.int_value is not None:
        return str(attribute.int_value)
    if attribute.bool_value is not None:
        return "true" if attribute.bool_value else "false"
    if attribute.version_value is not None:
        return f'semver("{attribute.version_value}")'
    lists = (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    return str(list(next((values for values in lists if values), ())))


# Pools whose devices may not be allocated: the driver has not published all slices yet, or they contradict each other.
#
# What is wrong is read from the slices: the allocator knows no more than that the pool is unusable.


class PoolTrouble(msgspec.Struct, frozen=True):
    """A pool that a node reaches and that is of no use now."""

    driver: str
    pool: str
    generation: int
    slices: int
    """Of this generation that are published."""
    slice_count: int
    """Of this generation that there should be."""
    problem: str = ""
    """What contradicts itself; empty: slices are missing."""

    @property
    def is_being_updated(self) -> bool:
        """Whether slices are missing."""
        return not self.problem


def trouble_of(pool: Pool, slices: Sequence[ResourceSlice]) -> PoolTrouble:
    """What is wrong with an unusable pool. `slices`: all that are published."""
    own = [each for each in slices if (each.spec.driver, each.spec.pool.name) == pool.id]
    generation = max((each.spec.pool.generation for each in own), default=0)
    newest = [each for each in own if each.spec.pool.generation == generation]
    wanted = max((each.spec.pool.resource_slice_count for each in newest), default=0)
    problem = "" if pool.is_incomplete else _contradiction(newest)
    return PoolTrouble(*pool.id, generation, len(newest), wanted, problem)


def _contradiction(slices: Sequence[ResourceSlice]) -> str:
    sets = Counter(each.name for piece in slices for each in piece.spec.shared_counters)
    if twice := _twice(sets):
        return f"counter set {twice} is there twice"
    devices = [device for piece in slices for device in piece.spec.devices]
    if twice := _twice(Counter(device.name for device in devices)):
        return f"device {twice} is there twice"
    counters = {each.name: each.counters.keys() for piece in slices for each in piece.spec.shared_counters}
    return next((problem for device in devices if (problem := _unknown_counter(device, counters))), "its slices differ")


def _unknown_counter(device: Device, counters: Mapping[str, AbstractSet[str]]) -> str:
    for used in device.consumes_counters:
        known = counters.get(used.counter_set)
        if known is None:
            return f"device {device.name} uses counter set {used.counter_set}, which does not exist"
        missing = sorted(used.counters.keys() - known)
        if missing:
            return f"device {device.name} uses counter {missing[0]} of set {used.counter_set}, which does not exist"
    return ""


def _twice(counts: Counter[str]) -> str:
    return next((name for name, count in sorted(counts.items()) if count > 1), "")
