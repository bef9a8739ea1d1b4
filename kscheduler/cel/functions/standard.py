"""Operators and functions of CEL itself.

A singleton serves all overloads of a function and asks only for a trait of its first argument; the others are guarded
by the types of their overload.
"""

from collections.abc import Callable
from typing import Any

from kscheduler.cel import types
from kscheduler.cel.functions import Implementation
from kscheduler.cel.functions.lists import contains, sort, sort_by_keys
from kscheduler.cel.functions.regexes import RegexError, matches
from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values import arithmetic
from kscheduler.cel.values.comparing import compare, is_zero
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.go_text import shown
from kscheduler.cel.values.kinds import (
    ANY_MAP,
    NO_SUCH_OVERLOAD,
    NONE,
    DurationValue,
    ErrorValue,
    Map,
    MutableMap,
    Optional,
    Timestamp,
)
from kscheduler.cel.values.times import WallClock, in_zone
from kscheduler.cel.values.typing import size_of

_NUMBERS = ("int", "uint", "double")
_ORDERED = frozenset((*_NUMBERS, "bool", "string", "bytes", "timestamp", "duration"))
_SIZED = frozenset(("string", "bytes", "list", "map"))


def _not(value: Any) -> Any:
    return not value if type(value) is bool else NO_SUCH_OVERLOAD


def _order(wanted: tuple[int, ...]) -> Callable[[Any, Any], Any]:
    def holds(one: Any, other: Any) -> Any:
        order = compare(one, other)
        return order in wanted if isinstance(order, int) else order

    return holds


def contains_in(value: Any, aggregate: Any) -> Any:
    """`value in aggregate`."""
    if isinstance(aggregate, list):
        return contains(aggregate, value)
    return aggregate.contains(value) if isinstance(aggregate, ANY_MAP) else NO_SUCH_OVERLOAD


def _matches(text: str, pattern: Any) -> Any:
    if type(pattern) is not str:
        return NO_SUCH_OVERLOAD
    try:
        return matches(text, pattern)
    except RegexError as error:
        return ErrorValue(str(error))


def _kinds(*kinds: str) -> frozenset[str]:
    return frozenset(kinds)


# By function: what it does, and the kinds of the first argument that it takes (none: all).
SINGLETONS: dict[str, tuple[Implementation, frozenset[str]]] = {
    "!_": (_not, frozenset()),
    "-_": (arithmetic.negate, _kinds("bool", "double", "duration", "int")),
    "_+_": (
        arithmetic.add,
        _kinds("bytes", "double", "duration", "int", "list", "string", "timestamp", "uint"),
    ),
    "_-_": (arithmetic.subtract, _kinds("double", "duration", "int", "timestamp", "uint")),
    "_*_": (arithmetic.multiply, _kinds(*_NUMBERS)),
    "_/_": (arithmetic.divide, _kinds(*_NUMBERS)),
    "_%_": (arithmetic.modulo, _kinds("int", "uint")),
    "_<_": (_order((-1,)), _ORDERED),
    "_<=_": (_order((-1, 0)), _ORDERED),
    "_>_": (_order((1,)), _ORDERED),
    "_>=_": (_order((0, 1)), _ORDERED),
    "@in": (contains_in, frozenset()),
    "size": (size_of, _SIZED),
    "type": (lambda value: convert(value, types.TYPE), frozenset()),
    "dyn": (lambda value: value, frozenset()),
    "matches": (_matches, _kinds("string")),
    "sort": (sort, _kinds("list")),
    "@sortByAssociatedKeys": (sort_by_keys, _kinds("list")),
}


def _is_nan(value: Any) -> bool:
    return type(value) is float and value != value


def _nan_is_unordered(order: Implementation) -> Implementation:
    def holds(one: Any, other: Any) -> Any:
        return False if _is_nan(one) or _is_nan(other) else order(one, other)

    return holds


# As of cel-go 0.33: NaN is neither less than anything nor greater.
ORDERS_WITHOUT_NAN = {
    name: (_nan_is_unordered(SINGLETONS[name][0]), SINGLETONS[name][1]) for name in ("_<_", "_<=_", "_>_", "_>=_")
}

# Functions that check their arguments themselves.
UNGUARDED = frozenset(("contains", "endsWith", "startsWith", "flatten"))


def not_strictly_false(value: Any) -> Any:
    """Whether a loop goes on: unless the value is false, an error included."""
    return value if type(value) is bool else True


def _of_strings(method: Callable[[str, str], bool]) -> Implementation:
    def call(text: Any, part: Any) -> Any:
        if type(text) is not str or type(part) is not str:
            return NO_SUCH_OVERLOAD
        return method(text, part)

    return call


def _conversions() -> dict[str, Implementation]:
    wanted: dict[str, Type] = {
        "bool": types.BOOL,
        "bytes": types.BYTES,
        "double": types.DOUBLE,
        "duration": types.DURATION,
        "int64": types.INT,
        "string": types.STRING,
        "timestamp": types.TIMESTAMP,
        "uint64": types.UINT,
    }
    kinds = (*wanted, "int64", "uint64")

    def to(kind: Type) -> Implementation:
        return lambda value: convert(value, kind)

    return {f"{origin}_to_{kind}": to(described) for origin in kinds for kind, described in wanted.items()}


_PARTS: dict[str, Callable[[WallClock], int]] = {
    "day_of_month": lambda moment: moment.day - 1,
    "day_of_month_1_based": lambda moment: moment.day,
    "day_of_week": lambda moment: moment.day_of_week,
    "day_of_year": lambda moment: moment.day_of_year - 1,
    "year": lambda moment: moment.year,
    "hours": lambda moment: moment.hour,
    "minutes": lambda moment: moment.minute,
    "month": lambda moment: moment.month - 1,
    "seconds": lambda moment: moment.second,
}
_SPANS = {"hours": 3600 * 10**9, "minutes": 60 * 10**9, "seconds": 10**9, "milliseconds": 10**6}


def _part(part: Callable[[WallClock], int]) -> Implementation:
    def call(moment: Timestamp, zone: str = "UTC") -> Any:
        wall = in_zone(moment, zone)
        return wall if isinstance(wall, ErrorValue) else part(wall)

    return call


def _milliseconds(moment: Timestamp, zone: str = "UTC") -> Any:
    wall = in_zone(moment, zone)
    return wall if isinstance(wall, ErrorValue) else moment.nanos // 10**6


def _in_units(unit: int, *, exact: bool) -> Implementation:
    def call(span: DurationValue) -> int:
        whole = abs(span.nanos) // unit if exact else int(_go_units(abs(span.nanos), unit))
        return -whole if span.nanos < 0 else whole

    return call


def _go_units(nanos: int, unit: int) -> float:
    """Hours, minutes or seconds as a double: the whole ones plus the rest divided by the unit."""
    return float(nanos // unit) + float(nanos % unit) / float(unit)


def _getters() -> dict[str, Implementation]:
    found: dict[str, Implementation] = {}
    for name, part in _PARTS.items():
        found[f"timestamp_to_{name}"] = _part(part)
        found[f"timestamp_to_{name}_with_tz"] = _part(part)
    found["timestamp_to_seconds_tz"] = _part(_PARTS["seconds"])
    found["timestamp_to_milliseconds"] = found["timestamp_to_milliseconds_with_tz"] = _milliseconds
    for name, unit in _SPANS.items():
        found[f"duration_to_{name}"] = _in_units(unit, exact=name == "milliseconds")
    return found


def _value(optional: Optional) -> Any:
    return optional.value if optional.present else ErrorValue("optional.none() dereference")


def _unwrapped(values: list[Any]) -> Any:
    found: list[Any] = []
    for value in values:
        if type(value) is not Optional:
            return ErrorValue(f"value {shown(value)} is not optional")
        if value.present:
            found.append(value.value)
    return found


def _insert(target: Any, key: Any, value: Any) -> Any:
    """A map with one more entry; the map that a comprehension started with is changed."""
    if target.find(key) is not None:
        return ErrorValue(f"insert failed: key {shown(key)} already exists")
    result = target if type(target) is MutableMap else _copied(target)
    result.put(key, value)
    return result


def _copied(target: Any) -> Map:
    spend(len(target))
    result = Map()
    for key in target.keys():  # noqa: SIM118 : no dict
        result.put(key, target.get(key)[0])
    return result


def _insert_all(target: Any, update: Any) -> Any:
    spend(len(update))
    for key in update.keys():  # noqa: SIM118 : no dict
        target = _insert(target, key, update.get(key)[0])
        if type(target) is ErrorValue:
            return target
    return target


def standard_functions() -> dict[str, Implementation]:
    """What has overloads of its own, by overload: conversions, strings, times, optionals, insertion into maps."""
    return {
        **_conversions(),
        **_getters(),
        "not_strictly_false": not_strictly_false,
        "contains_string": _of_strings(lambda text, part: part in text),
        "starts_with_string": _of_strings(lambda text, part: text.startswith(part)),
        "ends_with_string": _of_strings(lambda text, part: text.endswith(part)),
        "optional_of": Optional,
        "optional_ofNonZeroValue": lambda value: NONE if is_zero(value) else Optional(value),
        "optional_none": lambda: NONE,
        "optional_value": _value,
        "optional_hasValue": lambda optional: optional.present,
        "optional_unwrap": _unwrapped,
        "optional_unwrapOpt": _unwrapped,
        "list_first": lambda values: Optional(values[0]) if values else NONE,
        "list_last": lambda values: Optional(values[-1]) if values else NONE,
        "@mapInsert_map_key_value": _insert,
        "@mapInsert_map_map": _insert_all,
    }
