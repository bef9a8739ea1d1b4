"""What selectors see of a device: the variable `device`, as maps of CEL.

Attributes and capacities are looked up by domain, then by name; what is published without a domain is in the driver's.
Looking up a domain that is not there gives an empty map, but `in` and iteration know only the domains that are there.
"""

from collections.abc import Iterable
from typing import Any

from kscheduler.api.devices import Device, DeviceAttribute
from kscheduler.cel import types
from kscheduler.cel.kubernetes import quantities, semvers, wide_quantities
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.kinds import ErrorValue, StringMap

_BYTES_PER_VALUE = 160
_BAD_VALUE = "value is invalid or its type is not supported by this version"


class UnreadableDeviceError(ValueError):
    """An attribute of a device has no value that selectors can read."""


class _Domains(StringMap):
    """Attributes or capacities by domain; a domain that is not there is found as an empty map."""

    __slots__ = ()
    GO_TYPE = "cel.mapper"
    ZERO_IF_EMPTY = False
    _EMPTY = StringMap({})

    def find(self, key: Any) -> tuple[Any] | None:
        """The attributes of a domain."""
        return self.get(key) or (self._EMPTY,)

    def plain(self) -> StringMap:
        """The same without the default."""
        return StringMap(self._values)


class _OwnMap(StringMap):
    """A map of Kubernetes 1.38: whatever has a text is a key, and a value that is an error fails what reads it."""

    __slots__ = ("GO_TYPE",)
    ZERO_IF_EMPTY = False
    TELLS_ERRORS = True

    def __init__(self, values: dict[str, Any], go_type: str) -> None:
        super().__init__(values)
        self.GO_TYPE = go_type

    def get(self, key: Any) -> tuple[Any] | None:
        """The value in a tuple, or None."""
        text = key if type(key) is str else convert(key, types.STRING)
        found = self._values.get(text) if type(text) is str else None
        return None if found is None else (found,)

    def find(self, key: Any) -> tuple[Any] | None:
        """As `get`."""
        return self.get(key)

    def contains(self, key: Any) -> bool:
        """Whether there is a value that can be read."""
        found = self.get(key)
        return found is not None and type(found[0]) is not ErrorValue


class _OwnDomains(_OwnMap):
    """Such a map by domain; a domain that is not there is found as an empty map. Nothing is found without a name."""

    __slots__ = ()
    _EMPTY = StringMap({})

    def get(self, key: Any) -> tuple[Any] | None:
        """The attributes or capacities of a domain."""
        return super().get(key) if key != "" else None

    def find(self, key: Any) -> tuple[Any] | None:
        """The same, or an empty map."""
        return self.get(key) or (self._EMPTY,)


# By domain and name.
_Nested = dict[str, dict[str, Any]]


def _plain_maps(nested: _Nested) -> StringMap:
    return _Domains({domain: StringMap(values) for domain, values in nested.items()})


def _own_maps(nested: _Nested, what: str) -> StringMap:
    inner: dict[str, Any] = {domain: _OwnMap(values, f"*cel.nameTo{what}") for domain, values in nested.items()}
    return _OwnDomains(inner, f"*cel.domainTo{what}")


class DeviceVariable(StringMap):
    """The variable `device` up to 1.37. Its capacities are made when they are asked for: comparing may change them."""

    __slots__ = ("_capacities",)

    def __init__(self, values: dict[str, Any], capacities: dict[str, dict[str, quantities.Quantity]]):
        super().__init__(values)
        self._capacities = capacities

    def get(self, key: Any) -> tuple[Any] | None:
        """A field."""
        if key == "capacity" and self._values[key] is None:
            fresh = {
                domain: {name: quantity.fresh() for name, quantity in amounts.items()}
                for domain, amounts in self._capacities.items()
            }
            self._values["capacity"] = _plain_maps(fresh)
        return super().get(key)

    def find(self, key: Any) -> tuple[Any] | None:
        """A field."""
        return self.get(key)


class PreparedDevice:
    """What is the same in all evaluations of a device.

    `reads_lists`: attributes may be lists. `own_maps`: as of 1.38, where an attribute that cannot be read fails only
    what reads it, and a name with the driver's domain hides the same one without; before, such a device fails all.
    Raises `UnreadableDeviceError`.
    """

    __slots__ = ("_capacities", "_fields", "_variable", "weight")

    def __init__(self, driver: str, device: Device, *, reads_lists: bool, own_maps: bool) -> None:
        attributes: _Nested = {}
        values = 0
        for name in _by_spelling(device.attributes) if own_maps else device.attributes:
            domain, slash, identifier = name.partition("/")
            if not slash:
                domain, identifier = driver, name
            attribute = device.attributes[name]
            value = None if own_maps or (reads_lists and _is_list(attribute)) else _plain(attribute)
            if value is None:
                value = _readable(identifier, attribute) if own_maps else _value(name, attribute, lists=reads_lists)
            values += len(value) if isinstance(value, list) else 1
            attributes.setdefault(domain, {})[identifier] = value
        capacities: dict[str, dict[str, Any]] = {}
        read = wide_quantities.read if own_maps else quantities.read
        for name in _by_spelling(device.capacity) if own_maps else device.capacity:
            domain, slash, identifier = name.partition("/")
            if not slash:
                domain, identifier = driver, name
            capacities.setdefault(domain, {})[identifier] = read(device.capacity[name].value)
        self._capacities: dict[str, dict[str, quantities.Quantity]] = capacities
        self._fields = {
            "driver": driver,
            "allowMultipleAllocations": bool(device.allow_multiple_allocations),
            "attributes": _own_maps(attributes, "Attributes") if own_maps else _plain_maps(attributes),
            "capacity": _own_maps(capacities, "Capacity") if own_maps else None,
        }
        # Nothing changes quantities of 1.38.
        self._variable = StringMap(self._fields) if own_maps else None
        self.weight = 1_000 + _BYTES_PER_VALUE * (values + len(device.capacity))
        """About how many bytes it takes."""

    def variable(self) -> StringMap:
        """The variable for one evaluation."""
        if self._variable is not None:
            return self._variable
        return DeviceVariable(dict(self._fields), self._capacities)


def _by_spelling(names: Iterable[str]) -> list[str]:
    """Those with a domain last: of two that mean the same the last one counts."""
    return sorted(names, key=lambda name: "/" in name)


def _readable(identifier: str, attribute: DeviceAttribute) -> Any:
    """The value, or the error of what reads it. An empty list is no value."""
    try:
        value = _single(attribute)
        if value is None:
            value = _list(attribute, may_be_empty=False)
    except semvers.VersionError:
        value = None
    return ErrorValue(f"attribute {identifier}: {_BAD_VALUE}") if value is None else value


def _is_list(attribute: DeviceAttribute) -> bool:
    return not (
        attribute.int_values is None
        and attribute.bool_values is None
        and attribute.string_values is None
        and attribute.version_values is None
    )


def _plain(attribute: DeviceAttribute) -> int | bool | str | None:
    """The value, as of most attributes, that is neither a version nor a list."""
    if attribute.int_value is not None:
        return attribute.int_value
    return attribute.string_value if attribute.bool_value is None else attribute.bool_value


def _value(name: str, attribute: DeviceAttribute, *, lists: bool) -> Any:
    try:
        value = _list(attribute, may_be_empty=True) if lists else None
        if value is None:
            value = _single(attribute)
    except semvers.VersionError as error:
        message = f"attribute {name}: parse semantic version: {error}"
        raise UnreadableDeviceError(message) from None
    if value is None:
        message = f"attribute {name}: unsupported attribute value"
        raise UnreadableDeviceError(message)
    return value


def _single(attribute: DeviceAttribute) -> Any:
    """The value of an attribute that is no list; None if it is one. Raises `VersionError`."""
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    return semvers.parse(attribute.version_value) if attribute.version_value is not None else None


def _list(attribute: DeviceAttribute, *, may_be_empty: bool) -> list[Any] | None:
    """The first of the lists that it may be; None if it is none. Raises `VersionError`."""
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values or (may_be_empty and values is not None):
            return list(values)
    versions = attribute.version_values
    if versions or (may_be_empty and versions is not None):
        return [semvers.parse(text) for text in versions]
    return None
