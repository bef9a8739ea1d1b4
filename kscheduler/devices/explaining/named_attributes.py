"""The attributes and capacities that a selector names, and what devices have there.

    device.attributes["gpu.example.com"].model == "Hollow-80"      gpu.example.com/model: "Hollow-40", "Hollow-90"

Read from the text: an attribute that the expression looks up by a computed name is not found.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from kscheduler.api.devices import DeviceAttribute, ResourceSlice
from kscheduler.devices.ids import DeviceID, PoolID
from kscheduler.devices.pools import Pool, PoolDevice

MOST_VALUES: Final = 5
_NAMED: Final = re.compile(
    r"""device\s*\.\s*(?P<field>attributes|capacity)\s*
        \[\s*\??\s*(?P<quote>['"])(?P<domain>[^'"]*)(?P=quote)\s*\]\s*
        (?:\.\s*\??\s*(?P<name>[A-Za-z_]\w*)|\[\s*\??\s*(?P<other>['"])(?P<quoted>[^'"]*)(?P=other)\s*\])""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class NamedAttribute:
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


@dataclass(frozen=True, slots=True)
class AttributeValues:
    """What devices have where an expression looks."""

    attribute: str
    """Its full name."""
    values: tuple[str, ...]
    """As CEL writes them, those of most devices first, at most `MOST_VALUES`; none: no device has it."""
    more: int = 0
    """Values that are left off."""
    instead: tuple[str, ...] = ()
    """Where no device has it: full names that some device has, at most `MOST_VALUES`."""

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
    instead = () if values else tuple(name for name, _ in sorted(others.items(), key=_most_first)[:MOST_VALUES])
    more = max(len(ordered) - MOST_VALUES, 0)
    return AttributeValues(named.full_name, tuple(ordered[:MOST_VALUES]), more, instead)


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
