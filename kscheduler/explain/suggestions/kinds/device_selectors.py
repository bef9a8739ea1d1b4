"""Selectors of devices, corrected: what is probably meant by one that fails or matches nothing.

device.attributes["gpu.example.com"].modell      some attribute has nearly this name:    .model
device.attributes["example.com"].model           it is in another domain:                ["gpu.example.com"].model
device.attributes["gpu.example.com"].model       only some devices have it:              has(...) && (...)

Of an attribute that there is, the value may be another one. It is read from the text: a comparison of an attribute that
is named there with a literal, on either side.

    model == "hollow80"                  devices have "hollow-80":                 == "hollow-80"
    model in ["hollow80", "x"]           the same in a list
    index == "0"                         the attribute is an integer:              == 0
    driverVersion == "1.2.0"             it is a version:                          == semver("1.2.0")
    memory >= quantity("40Gi")           only compareTo puts them in an order:     .compareTo(quantity("40Gi")) >= 0
    memory >= "40Gi"                     likewise
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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

_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*")
_DEVICES_READ: Final = 4096
_STRING: Final = r"""(?:"[^"\\]*"|'[^'\\]*')"""
_LITERAL: Final = (
    rf"""(?P<literal>{_STRING}|-?\d+(?![\d.])|\btrue\b|\bfalse\b|(?:quantity|semver)\(\s*{_STRING}\s*\))"""
)
_OR_VALUE: Final = r"(?:\s*\.\s*orValue\([^()]*(?:\([^()]*\))?[^()]*\))?"
_BEHIND: Final = re.compile(rf"(?P<left>{_OR_VALUE})\s*(?P<operator>==|!=|<=|>=|<|>)\s*{_LITERAL}")
_BEFORE: Final = re.compile(rf"{_LITERAL}\s*(?P<operator>==|!=|<=|>=|<|>)\s*\Z")
_IN_A_LIST: Final = re.compile(rf"{_OR_VALUE}\s+in\s*\[(?P<list>[^\[\]]*)\]")
_MIRRORED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_ORDERED: Final = ("<", "<=", ">", ">=")
_INTEGER: Final = re.compile(r"-?\d+")
# Values that are near, the nearest first.
_TRIED: Final = 2


class Fix(NamedTuple):
    """Another expression, and what was wrong with the first where that is not plain to see."""

    expression: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Correction:
    """A part of an expression as it is probably meant."""

    place: tuple[int, int]
    """Its first character and the one after it."""
    text: str
    why: str


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
    first: list[_Correction] = []
    for each in named:
        found = list(_corrections(expression, each, known[each.field].get(each.full_name, ())))
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


def _overlap(one: _Correction, other: _Correction) -> bool:
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


# --- values -----------------------------------------------------------------------------------------------------------


def _corrections(expression: str, named: NamedAttribute, values: Collection[str]) -> Iterator[_Correction]:
    """Of each comparison of an attribute, where it stands, with a literal. `values`: of devices, as CEL writes them."""
    start, end = named.place
    if behind := _BEHIND.match(expression, end):
        whole = (start, behind.end())
        attribute = expression[start:end] + behind["left"]
        yield from _of(named, attribute, behind["operator"], behind["literal"], whole, values)
    elif before := _BEFORE.search(expression[:start]):
        whole, operator = (before.start(), end), _MIRRORED[before["operator"]]
        yield from _of(named, expression[start:end], operator, before["literal"], whole, values)
    elif listed := _IN_A_LIST.match(expression, end):
        yield from _in_a_list(expression, listed, values)


def _of(
    named: NamedAttribute, attribute: str, operator: str, literal: str, place: tuple[int, int], values: Collection[str]
) -> Iterator[_Correction]:
    if named.field == "capacity":
        if (wanted := _as_quantity(literal)) and (operator in _ORDERED or wanted != literal):
            text = f"{attribute}.compareTo({wanted}) {operator} 0"
            yield _Correction(place, text, f"{named.full_name} is a quantity, which compareTo compares")
        return
    kind, own = _kind_of_all(values), _kind(literal)
    if kind == own == "string":
        if operator == "==" and literal not in values and _quoted(literal) not in values:
            for near in _near(literal, values):
                yield _Correction(place, f"{attribute} == {near}", f"no device has {literal}")
    elif kind == own == "version" and operator in _ORDERED:
        text = f"{attribute}.compareTo({literal}) {operator} 0"
        yield _Correction(place, text, f"{named.full_name} is a version, which compareTo compares")
    elif (meant := _of_kind(literal, kind)) is not None:
        text = f"{attribute} {operator} {meant}"
        if kind == "version" and operator in _ORDERED:
            text = f"{attribute}.compareTo({meant}) {operator} 0"
        yield _Correction(
            place, text, f"{named.full_name} is {_WITH_ARTICLE[kind]}, and {literal} {_WITH_ARTICLE[own]}"
        )


def _in_a_list(expression: str, listed: re.Match[str], values: Collection[str]) -> Iterator[_Correction]:
    """Each string of the list that no device has, where one is near."""
    first = listed.start("list")
    for found in re.finditer(_STRING, listed["list"]):
        literal = found.group()
        if _quoted(literal) not in values:
            for near in _near(literal, values)[:1]:
                place = first + found.start(), first + found.end()
                yield _Correction(place, near, f"no device has {expression[slice(*place)]}")


_WITH_ARTICLE: Final = {
    "string": "a string",
    "integer": "an integer",
    "boolean": "a boolean",
    "version": "a version",
    "quantity": "a quantity",
}


def _kind(literal: str) -> str:
    if literal[:1] in "\"'":
        return "string"
    if literal in ("true", "false"):
        return "boolean"
    if literal.startswith("semver("):
        return "version"
    return "quantity" if literal.startswith("quantity(") else "integer" if _INTEGER.fullmatch(literal) else ""


def _kind_of_all(values: Collection[str]) -> str:
    """The type that all devices have there; empty if they differ, or it is a list."""
    kinds = {_kind(value) for value in values}
    return kinds.pop() if len(kinds) == 1 else ""


def _of_kind(literal: str, kind: str) -> str | None:
    """The same value as a literal of another type; `None` where there is none."""
    own, plain = _kind(literal), literal.strip("\"'")
    match kind, own:
        case "integer", "string" if _INTEGER.fullmatch(plain):
            return plain
        case "boolean", "string" if plain.lower() in ("true", "false"):
            return plain.lower()
        case "boolean", "integer" if plain in ("0", "1"):
            return "true" if plain == "1" else "false"
        case "version", "string" if plain:
            return f'semver("{plain}")'
        case "string", "integer" | "boolean":
            return f'"{literal}"'
    return None


def _as_quantity(literal: str) -> str:
    """`quantity("40Gi")` of that, of "40Gi" or of a number; else empty."""
    match _kind(literal):
        case "quantity":
            return literal
        case "string" | "integer":
            plain = literal.strip("\"'")
            return f'quantity("{plain}")' if plain[:1].isdigit() else ""
    return ""


def _quoted(literal: str) -> str:
    return f'"{literal[1:-1]}"'


def _near(literal: str, values: Collection[str]) -> list[str]:
    """Values that are near, without regard to case."""
    strings = {value[1:-1].lower(): value for value in sorted(values) if value.startswith('"')}
    return [strings[near] for near in get_close_matches(literal[1:-1].lower(), list(strings), n=_TRIED)]
