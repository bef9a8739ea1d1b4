"""What the devices of a claim must have in common, or must not.

Attributes are compared as sets: a scalar is a set of one value, and an attribute of an unknown type has none. Types are
part of the values, so that the number 1 is not the text "1". Versions are compared as they are written, or (as of
1.38) without their builds.
"""

from collections.abc import Hashable
from functools import lru_cache
from typing import Final, Protocol

from kscheduler.api.devices import Device, DeviceAttribute, DeviceConstraint
from kscheduler.cel.kubernetes import semvers
from kscheduler.devices.ids import DeviceID
from kscheduler.devices.wanted import AllocatorFeatures, Wanted

# Values of an attribute, with their type.
Values = frozenset[tuple[str, Hashable]]
_UNKNOWN: Final[Values] = frozenset()


class UnsupportedValueError(ValueError):
    """An attribute has no value that can be compared; the text is kube-scheduler's."""


class Constraint(Protocol):
    """A condition on the devices that are chosen so far. Once broken it stays broken, whatever is added."""

    attribute: str

    def applies(self, wanted: Wanted) -> bool:
        """Whether it is about the devices of this request."""
        ...

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Take in a device, if the condition still holds with it; whether it does. Raises `UnsupportedValueError`."""
        ...

    def remove(self, wanted: Wanted) -> None:
        """Undo the last `add` that succeeded, which was for this request."""
        ...

    def is_readable(self, device: Device, identity: DeviceID) -> bool:
        """Whether the attribute is missing or has a value that can be compared."""
        ...


def constraint_of(spec: DeviceConstraint, features: AllocatorFeatures) -> Constraint | None:
    """The constraint; `None` if it is of no known kind."""
    requests = frozenset(spec.requests)
    if spec.match_attribute is not None:
        return MatchAttribute(requests, spec.match_attribute, features)
    if spec.distinct_attribute is None:
        return None
    if features.compares_all_distinct:
        return DistinctAttribute(requests, spec.distinct_attribute, features)
    return LastDistinctAttribute(requests, spec.distinct_attribute, features)


class _OnAttribute:
    def __init__(self, requests: frozenset[str], attribute: str, features: AllocatorFeatures) -> None:
        self._requests = requests
        """By name, or by name of request and subrequest; none means all."""
        self.attribute = attribute
        self._features = features

    def applies(self, wanted: Wanted) -> bool:
        """Whether it is about the devices of this request."""
        return not self._requests or wanted.base in self._requests or wanted.full_name in self._requests

    def _values_of(self, device: Device, identity: DeviceID) -> Values | None:
        """`None` if the device lacks the attribute. Raises `UnsupportedValueError`."""
        values = values_of(device, identity.driver, self.attribute, self._features)
        if self._features.refuses_unreadable_attributes and values == _UNKNOWN:
            message = f"device {identity}: unsupported attribute value for {self.attribute}"
            raise UnsupportedValueError(message)
        return values

    def is_readable(self, device: Device, identity: DeviceID) -> bool:
        """Whether the attribute is missing or has a value that can be compared."""
        return values_of(device, identity.driver, self.attribute, self._features) != _UNKNOWN


class MatchAttribute(_OnAttribute):
    """All devices have the attribute, with at least one value that all share."""

    def __init__(self, requests: frozenset[str], attribute: str, features: AllocatorFeatures) -> None:
        super().__init__(requests, attribute, features)
        self._common: list[Values] = []
        """What the first one, two, ... devices have in common."""

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether the device shares a value with those before."""
        if not self.applies(wanted):
            return True
        values = self._values_of(device, identity)
        if values is None:
            return False
        if not self._common:
            # Without lists even a value of an unknown type may be the first; nothing goes with it.
            if not values and self._features.list_attributes:
                return False
            self._common.append(values)
            return True
        common = self._common[-1] & values
        if not common:
            return False
        self._common.append(common)
        return True

    def remove(self, wanted: Wanted) -> None:
        """One device less."""
        if not self.applies(wanted):
            return
        narrowed = self._common.pop()
        if self._common and not self._features.restores_common_values:
            self._common[-1] = narrowed


class DistinctAttribute(_OnAttribute):
    """All devices have the attribute, and no two share a value."""

    def __init__(self, requests: frozenset[str], attribute: str, features: AllocatorFeatures) -> None:
        super().__init__(requests, attribute, features)
        self._taken: list[Values] = []

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether no other device shares a value."""
        if not self.applies(wanted):
            return True
        values = self._values_of(device, identity)
        if values is None:
            return False
        if not values and (self._taken or self._features.list_attributes):
            return False
        if any(values & others for others in self._taken):
            return False
        self._taken.append(values)
        return True

    def remove(self, wanted: Wanted) -> None:
        """Forget the last values."""
        if self.applies(wanted):
            self._taken.pop()


class LastDistinctAttribute(_OnAttribute):
    """As 1.36 has it: only the last values of each request are remembered."""

    def __init__(self, requests: frozenset[str], attribute: str, features: AllocatorFeatures) -> None:
        super().__init__(requests, attribute, features)
        self._last: dict[str, Values] = {}
        self._count = 0

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether the device shares no value with the last one of each request."""
        if not self.applies(wanted):
            return True
        values = self._values_of(device, identity)
        if values is None:
            return False
        if self._count:
            if not values and (self._last or self._features.list_attributes):
                return False
            if any(values & others for others in self._last.values()):
                return False
        self._last[wanted.base] = values
        self._count += 1
        return True

    def remove(self, wanted: Wanted) -> None:
        """Forget the values of the request."""
        if self.applies(wanted):
            self._last.pop(wanted.base, None)
            self._count -= 1


def values_of(device: Device, driver: str, attribute: str, features: AllocatorFeatures) -> Values | None:
    """What a constraint on the attribute compares; `None` if the device lacks it."""
    found = _attribute(device, driver, attribute)
    if found is None:
        return None
    values = _any_values(found) if features.list_attributes else _scalar(found)
    return _as_versions(values) if features.compares_versions else values


def _attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """By its full name; an attribute of the driver itself may be published without the domain."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, short = name.partition("/")
    return device.attributes.get(short) if slash and domain == driver else None


def _scalar(attribute: DeviceAttribute) -> Values:
    if attribute.string_value is not None:
        return frozenset((("string", attribute.string_value),))
    if attribute.int_value is not None:
        return frozenset((("int", attribute.int_value),))
    if attribute.bool_value is not None:
        return frozenset((("bool", attribute.bool_value),))
    if attribute.version_value is not None:
        return frozenset((("version", attribute.version_value),))
    return _UNKNOWN


def _as_versions(values: Values) -> Values:
    """The same with versions that can be compared; none, if one of them cannot be read."""
    if not any(kind == "version" for kind, _ in values):
        return values
    parsed = [_version(str(text)) for _, text in values]
    return _UNKNOWN if None in parsed else frozenset(("version", version) for version in parsed)


@lru_cache(maxsize=1024)
def _version(text: str) -> Hashable:
    try:
        version = semvers.parse(text)
    except semvers.VersionError:
        return None
    return version.numbers, version.pre


def _any_values(attribute: DeviceAttribute) -> Values:
    """With lists (gate DRAListTypeAttributes); an empty one is of an unknown type."""
    lists: tuple[tuple[str, tuple[Hashable, ...] | None], ...] = (
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("string", attribute.string_values),
        ("version", attribute.version_values),
    )
    for kind, values in lists:
        if values:
            return frozenset((kind, value) for value in values)
    return _scalar(attribute)
