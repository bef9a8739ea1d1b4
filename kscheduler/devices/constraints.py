"""What the devices of a claim must have in common, or must not."""

from collections.abc import Hashable
from typing import Protocol

from kscheduler.api.devices import Device, DeviceAttribute, DeviceConstraint
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.ids import DeviceID
from kscheduler.devices.wanted import Wanted


class Constraint(Protocol):
    """A condition on the devices that are chosen so far. Once broken it stays broken, whatever is added."""

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Take in a device, if the condition still holds with it; whether it does."""
        ...

    def remove(self, wanted: Wanted) -> None:
        """Undo the last `add` for this request that succeeded."""
        ...


def constraint_of(spec: DeviceConstraint, features: AllocatorFeatures) -> Constraint | None:
    """The constraint; `None` if it is of no known kind."""
    requests = frozenset(spec.requests)
    if spec.match_attribute is not None:
        return MatchAttribute(requests, spec.match_attribute)
    if spec.distinct_attribute is None:
        return None
    if features.compares_all_distinct:
        return DistinctAttribute(requests, spec.distinct_attribute)
    return LastDistinctAttribute(requests, spec.distinct_attribute)


class _OnAttribute:
    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        self._requests = requests
        """By name, or by name of request and subrequest; none means all."""
        self._attribute = attribute

    def _applies(self, wanted: Wanted) -> bool:
        return not self._requests or wanted.base in self._requests or wanted.full_name in self._requests

    def _value(self, device: Device, identity: DeviceID) -> Hashable:
        return _scalar(_attribute(device, identity.driver, self._attribute))


class MatchAttribute(_OnAttribute):
    """All devices have the attribute, with one value."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._common: Hashable = None
        self._count = 0

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether the value is that of the first device."""
        if not self._applies(wanted):
            return True
        value = self._value(device, identity)
        if value is None:
            return False
        if not self._count:
            self._common = value
        elif value != self._common:
            return False
        self._count += 1
        return True

    def remove(self, wanted: Wanted) -> None:
        """One device less."""
        if self._applies(wanted):
            self._count -= 1


class DistinctAttribute(_OnAttribute):
    """All devices have the attribute, each with a value of its own."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: list[Hashable] = []

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether no other device has the value."""
        if not self._applies(wanted):
            return True
        value = self._value(device, identity)
        if value is None or value in self._values:
            return False
        self._values.append(value)
        return True

    def remove(self, wanted: Wanted) -> None:
        """Forget the last value."""
        if self._applies(wanted):
            self._values.pop()


class LastDistinctAttribute(_OnAttribute):
    """As 1.36 has it: only the last value of each request is remembered."""

    def __init__(self, requests: frozenset[str], attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Hashable] = {}
        self._count = 0

    def add(self, wanted: Wanted, device: Device, identity: DeviceID) -> bool:
        """Whether no request has the value as its last."""
        if not self._applies(wanted):
            return True
        value = self._value(device, identity)
        if value is None or (self._count and value in self._values.values()):
            return False
        self._values[wanted.base] = value
        self._count += 1
        return True

    def remove(self, wanted: Wanted) -> None:
        """Forget the value of the request."""
        if self._applies(wanted):
            self._values.pop(wanted.base, None)
            self._count -= 1


def _attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """By its full name; an attribute of the driver itself may be published without the domain."""
    found = device.attributes.get(name)
    if found is not None:
        return found
    domain, slash, short = name.partition("/")
    return device.attributes.get(short) if slash and domain == driver else None


def _scalar(attribute: DeviceAttribute | None) -> Hashable:
    """A value of its own for each type and content; `None` without one. Versions are compared as they are written."""
    if attribute is None:
        return None
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None
