"""Values in selectors of devices, corrected: one that no device has but nearly, one of another type, a quantity.

    model == "hollow80"                  devices have "hollow-80":                 == "hollow-80"
    model in ["hollow80", "x"]           the same in a list
    index == "0"                         the attribute is an integer:              == 0
    driverVersion == "1.2.0"             it is a version:                          == semver("1.2.0")
    memory >= quantity("40Gi")           only compareTo puts them in an order:     .compareTo(quantity("40Gi")) >= 0
    memory >= "40Gi"                     likewise

Read from the text: a comparison of an attribute that is named there with a literal, on either side.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from kscheduler.devices.obstacle_details import NamedAttribute

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


@dataclass(frozen=True, slots=True)
class Correction:
    """A part of an expression as it is probably meant."""

    place: tuple[int, int]
    """Its first character and the one after it."""
    text: str
    why: str


def corrections(expression: str, named: NamedAttribute, values: Collection[str]) -> Iterator[Correction]:
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
) -> Iterator[Correction]:
    if named.field == "capacity":
        if (wanted := _as_quantity(literal)) and (operator in _ORDERED or wanted != literal):
            text = f"{attribute}.compareTo({wanted}) {operator} 0"
            yield Correction(place, text, f"{named.full_name} is a quantity, which compareTo compares")
        return
    kind, own = _kind_of_all(values), _kind(literal)
    if kind == own == "string":
        if operator == "==" and literal not in values and _quoted(literal) not in values:
            for near in _near(literal, values):
                yield Correction(place, f"{attribute} == {near}", f"no device has {literal}")
    elif kind == own == "version" and operator in _ORDERED:
        text = f"{attribute}.compareTo({literal}) {operator} 0"
        yield Correction(place, text, f"{named.full_name} is a version, which compareTo compares")
    elif (meant := _of_kind(literal, kind)) is not None:
        text = f"{attribute} {operator} {meant}"
        if kind == "version" and operator in _ORDERED:
            text = f"{attribute}.compareTo({meant}) {operator} 0"
        yield Correction(place, text, f"{named.full_name} is {_WITH_ARTICLE[kind]}, and {literal} {_WITH_ARTICLE[own]}")


def _in_a_list(expression: str, listed: re.Match[str], values: Collection[str]) -> Iterator[Correction]:
    """Each string of the list that no device has, where one is near."""
    first = listed.start("list")
    for found in re.finditer(_STRING, listed["list"]):
        literal = found.group()
        if _quoted(literal) not in values:
            for near in _near(literal, values)[:1]:
                place = first + found.start(), first + found.end()
                yield Correction(place, near, f"no device has {expression[slice(*place)]}")


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
