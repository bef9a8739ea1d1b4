"""The operators + - * / % and negation."""

import math
from collections.abc import Callable
from typing import Any

from kscheduler.cel.steps import spend
from kscheduler.cel.values.kinds import (
    NO_SUCH_OVERLOAD,
    ConcatList,
    DurationValue,
    ErrorValue,
    MutableList,
    Timestamp,
    Uint,
)
from kscheduler.cel.values.times import between, checked, moved

_INT_OVERFLOW = ErrorValue("integer overflow")
_UINT_OVERFLOW = ErrorValue("unsigned integer overflow")
_BY_ZERO = ErrorValue("division by zero")
_MODULO_ZERO = ErrorValue("modulus by zero")
_LEAST, _MOST = -(2**63), 2**63 - 1
_MAX_UINT = 2**64 - 1

# Of a new list: fewer than are copied in that time, since they take memory.
_ELEMENTS_PER_STEP = 2


def _int(value: int) -> int | ErrorValue:
    return value if _LEAST <= value <= _MOST else _INT_OVERFLOW


def _uint(value: int) -> Uint | ErrorValue:
    return Uint(value) if 0 <= value <= _MAX_UINT else _UINT_OVERFLOW


def _mixed(other: Any) -> ErrorValue:
    return other if type(other) is ErrorValue else NO_SUCH_OVERLOAD


def add(one: Any, other: Any) -> Any:
    """`+`."""
    kind = type(one)
    if isinstance(one, list):
        return _joined(one, other)
    if kind is Timestamp:
        return moved(one, other.nanos) if type(other) is DurationValue else _mixed(other)
    if kind is DurationValue:
        if type(other) is Timestamp:
            return moved(other, one.nanos)
        return checked(one.nanos + other.nanos) if type(other) is DurationValue else _mixed(other)
    if type(other) is not kind:
        return _mixed(other)
    if kind is int:
        return _int(one + other)
    if kind is Uint:
        return _uint(int(one) + int(other))
    return one + other


def _joined(one: list[Any], other: Any) -> Any:
    if not isinstance(other, list):
        return _mixed(other)
    if type(one) is MutableList:
        one.extend(other)
        return one
    if not one:
        return other
    spend((len(one) + len(other)) // _ELEMENTS_PER_STEP)
    return ConcatList([*one, *other]) if other else one


def subtract(one: Any, other: Any) -> Any:
    """`-`."""
    kind = type(one)
    if kind is Timestamp:
        if type(other) is DurationValue:
            return moved(one, -other.nanos) if other.nanos != _LEAST else _INT_OVERFLOW
        return between(one, other) if type(other) is Timestamp else _mixed(other)
    if type(other) is not kind:
        return _mixed(other)
    if kind is DurationValue:
        return checked(one.nanos - other.nanos)
    if kind is int:
        return _int(one - other)
    if kind is Uint:
        return _uint(int(one) - int(other))
    return one - other


def multiply(one: Any, other: Any) -> Any:
    """`*`."""
    kind = type(one)
    if type(other) is not kind:
        return _mixed(other)
    if kind is int:
        return _int(one * other)
    return _uint(int(one) * int(other)) if kind is Uint else one * other


def divide(one: Any, other: Any) -> Any:
    """`/`: towards zero."""
    kind = type(one)
    if type(other) is not kind:
        return _mixed(other)
    if kind is float:
        return _divided(one, other)
    if other == 0:
        return _BY_ZERO
    if kind is Uint:
        return Uint(int(one) // int(other))
    quotient = abs(one) // abs(other)
    return _int(quotient if (one < 0) == (other < 0) else -quotient)


def _divided(one: float, other: float) -> float:
    if other != 0:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def modulo(one: Any, other: Any) -> Any:
    """`%`: the sign of the left side."""
    kind = type(one)
    if type(other) is not kind:
        return _mixed(other)
    if other == 0:
        return _MODULO_ZERO
    if kind is Uint:
        return Uint(int(one) % int(other))
    if one == _LEAST and other == -1:
        return _INT_OVERFLOW
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def negate(value: Any) -> Any:
    """`-` before a value."""
    if type(value) is bool:
        return NO_SUCH_OVERLOAD
    if type(value) is DurationValue:
        return checked(-value.nanos)
    return _int(-value) if type(value) is int else -value


Operator = Callable[[Any, Any], Any]
