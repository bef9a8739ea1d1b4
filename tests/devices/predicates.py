"""Selectors that tests use, as functions of a device's JSON: a compiler that knows these expressions and no others."""

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError

Json = dict[str, Any]
OWN: Final = "a.example.com"
NO_KEY: Final = "no such key: size"


def value_of(driver: str, device: Json, name: str) -> Any:
    attributes = device.get("attributes", {})
    found = attributes.get(f"{OWN}/{name}") or (attributes.get(name) if driver == OWN else None)
    return None if found is None else next(iter(found.values()))


def is_sized(driver: str, device: Json) -> bool:
    size = value_of(driver, device, "size")
    if not isinstance(size, int):
        raise SelectorRuntimeError(NO_KEY)
    return size > 0


PREDICATES: Final[dict[str, Callable[[str, Json], bool]]] = {
    f'device.driver == "{OWN}"': lambda driver, _: driver == OWN,
    f'device.attributes["{OWN}"].?color.orValue("") == "red"': lambda driver, device: (
        value_of(driver, device, "color") == "red"
    ),
    f'device.attributes["{OWN}"].?size.orValue(0) > 1': lambda driver, device: (
        (value_of(driver, device, "size") or 0) > 1
    ),
    "device.allowMultipleAllocations == true": lambda _, device: bool(device.get("allowMultipleAllocations")),
    "true": lambda *_: True,
}
FAILS_WITHOUT_SIZE: Final = f'device.attributes["{OWN}"].size > 0'
KNOWN: Final = PREDICATES | {FAILS_WITHOUT_SIZE: is_sized}


class Predicate:
    """One of the known expressions, for devices as the allocator has them."""

    def __init__(self, expression: str) -> None:
        self._function = KNOWN[expression]
        self._names = frozenset(re.findall(r"(?:size|color)", expression))

    @property
    def attributes_read(self) -> frozenset[str] | None:
        return self._names

    def matches(self, driver: str, device: Device) -> bool:
        return self._function(driver, msgspec.to_builtins(device))


class KnownPredicates:
    """A compiler of the known expressions."""

    def compile(self, expression: str) -> Predicate:
        if expression not in KNOWN:
            message = f"undeclared reference to '{expression}'"
            raise SelectorCompileError(message)
        return Predicate(expression)
