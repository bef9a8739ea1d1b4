"""Selectors of devices, corrected: what is probably meant by one that fails or matches nothing.

device.attributes["gpu.example.com"].modell      some attribute has nearly this name:    .model
device.attributes["example.com"].model           it is in another domain:                ["gpu.example.com"].model
device.attributes["gpu.example.com"].model       only some devices have it:              has(...) && (...)
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final

from kscheduler.api.devices import ResourceSlice
from kscheduler.devices.explaining.named_attributes import (
    AttributeValues,
    NamedAttribute,
    attributes_of,
    named_attributes,
    unplaced,
    values_there,
)

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_DEVICES_READ: Final = 4096


def selector_fixes(expression: str, slices: Sequence[ResourceSlice]) -> Iterator[str]:
    """Other expressions, none of them tried: first a guarded one, true for the devices for which this one is."""
    named = named_attributes(expression)
    known = {field: _attributes(slices, field) for field in dict.fromkeys(each.field for each in named)}
    if guarded := _guarded(expression, named):
        yield guarded
    for each in named:
        there = known[each.field]
        if each.full_name in there:
            continue
        for full_name in _meant(each, there):
            domain, _, name = full_name.rpartition("/")
            fixed = expression.replace(expression[slice(*each.place)], _look_up(each.field, domain, name))
            yield fixed
            if again := _guarded(fixed, named_attributes(fixed)):
                yield again


def meant_attributes(attribute: str, slices: Sequence[ResourceSlice]) -> Iterator[str]:
    """Full names of attributes that a constraint may mean; none where devices have the one that it names."""
    there = _attributes(slices, "attributes")
    domain, _, name = attribute.rpartition("/")
    if attribute not in there:
        yield from _meant(NamedAttribute("attributes", domain, name), there)


def values_of_devices(expression: str, slices: Sequence[ResourceSlice]) -> tuple[AttributeValues, ...]:
    """What devices of the cluster have where the expression looks."""
    return values_there(expression, islice((found for piece in slices for found in unplaced(piece)), _DEVICES_READ))


def _guarded(expression: str, named: Sequence[NamedAttribute]) -> str:
    """Asks first whether the attributes are there; empty where it names none, or asks already."""
    looked_up = dict.fromkeys(_look_up(each.field, each.domain, each.name) for each in named)
    if not looked_up or "has(" in expression or ".?" in expression or "orValue" in expression:
        return ""
    return " && ".join((*(f"has({each})" for each in looked_up), f"({expression})"))


def _meant(named: NamedAttribute, there: Sequence[str]) -> Iterator[str]:
    """Full names of attributes that may be meant: of another domain, then with nearly this name."""
    by_name = [full_name for full_name in there if full_name.rpartition("/")[2] == named.name]
    yield from by_name
    if not by_name:
        yield from get_close_matches(named.full_name, there, n=2)


def _look_up(field: str, domain: str, name: str) -> str:
    tail = f".{name}" if _IDENTIFIER.fullmatch(name) else f'["{name}"]'
    return f'device.{field}["{domain}"]{tail}'


def _attributes(slices: Sequence[ResourceSlice], field: str) -> list[str]:
    """The full names that devices have, sorted; of a large cluster those of the first some thousand devices."""
    found: set[str] = set()
    read = 0
    for piece in slices:
        for device in unplaced(piece):
            found.update(attributes_of(device, field))
        read += len(piece.spec.devices)
        if read >= _DEVICES_READ:
            break
    return sorted(found)
