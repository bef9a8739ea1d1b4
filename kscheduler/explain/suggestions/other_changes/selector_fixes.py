"""Selectors of devices, corrected: what is probably meant by one that fails or matches nothing.

device.attributes["gpu.example.com"].modell      some attribute has nearly this name:    .model
device.attributes["example.com"].model           it is in another domain:                ["gpu.example.com"].model
device.attributes["gpu.example.com"].model       only some devices have it:              has(...) && (...)

Of an attribute that there is, the value may be another one (`selector_values`).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple

from kscheduler.api.devices import ResourceSlice
from kscheduler.devices.obstacle_details import (
    AttributeValues,
    NamedAttribute,
    attributes_of,
    named_attributes,
    unplaced,
    values_there,
)
from kscheduler.explain.suggestions.other_changes.selector_values import Correction, corrections

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_DEVICES_READ: Final = 4096


class Fix(NamedTuple):
    """Another expression, and what was wrong with the first where that is not plain to see."""

    expression: str
    why: str = ""


def selector_fixes(expression: str, slices: Sequence[ResourceSlice]) -> Iterator[Fix]:
    """Other expressions, none of them tried: first a guarded one, true for the devices for which this one is."""
    named = named_attributes(expression)
    known = {field: _attributes(slices, field) for field in dict.fromkeys(each.field for each in named)}
    if guarded := _guarded(expression, named):
        yield Fix(guarded)
    for each in named:
        if each.full_name in known[each.field]:
            continue
        for full_name in _meant(each, known[each.field]):
            domain, _, name = full_name.rpartition("/")
            yield from _and_guarded(_replaced(expression, each.place, _look_up(each.field, domain, name)))
    yield from _other_values(expression, named, known)


def _other_values(
    expression: str, named: Sequence[NamedAttribute], known: Mapping[str, Mapping[str, Collection[str]]]
) -> Iterator[Fix]:
    """Each value that is probably meant otherwise, and all of them together."""
    first: list[Correction] = []
    for each in named:
        found = list(corrections(expression, each, known[each.field].get(each.full_name, ())))
        first += [one for one in found[:1] if not any(_overlap(one, other) for other in first)]
        for one in found:
            yield from _and_guarded(_replaced(expression, one.place, one.text), one.why)
    if len(first) > 1:
        whole = expression
        for one in sorted(first, key=lambda each: -each.place[0]):  # from the end on, so that no place moves
            whole = _replaced(whole, one.place, one.text)
        yield from _and_guarded(whole, ", ".join(dict.fromkeys(one.why for one in first)))


def _and_guarded(fixed: str, why: str = "") -> Iterator[Fix]:
    yield Fix(fixed, why)
    if again := _guarded(fixed, named_attributes(fixed)):
        yield Fix(again, why)


def _replaced(expression: str, place: tuple[int, int], text: str) -> str:
    return expression[: place[0]] + text + expression[place[1] :]


def _overlap(one: Correction, other: Correction) -> bool:
    return one.place[0] < other.place[1] and other.place[0] < one.place[1]


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


def _meant(named: NamedAttribute, there: Collection[str]) -> Iterator[str]:
    """Full names of attributes that may be meant: of another domain, then with nearly this name."""
    by_name = [full_name for full_name in there if full_name.rpartition("/")[2] == named.name]
    yield from by_name
    if not by_name:
        yield from get_close_matches(named.full_name, list(there), n=2)


def _look_up(field: str, domain: str, name: str) -> str:
    tail = f".{name}" if _IDENTIFIER.fullmatch(name) else f'["{name}"]'
    return f'device.{field}["{domain}"]{tail}'


def _attributes(slices: Sequence[ResourceSlice], field: str) -> dict[str, set[str]]:
    """By full name, sorted, the values that devices have; of a large cluster those of the first some thousand."""
    found: dict[str, set[str]] = {}
    read = 0
    for piece in slices:
        for device in unplaced(piece):
            for full_name, value in attributes_of(device, field).items():
                found.setdefault(full_name, set()).add(value)
        read += len(piece.spec.devices)
        if read >= _DEVICES_READ:
            break
    return dict(sorted(found.items()))
