"""Equality and order of values."""

import math
from typing import Any

from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import (
    ANY_MAP,
    NO_SUCH_OVERLOAD,
    DurationValue,
    ErrorValue,
    Opaque,
    Optional,
    Timestamp,
    Uint,
)

_NUMBERS = frozenset((int, Uint, float))
_NAN = ErrorValue("NaN values cannot be ordered")


def equal(one: Any, other: Any) -> bool | ErrorValue:
    """`==`: null is equal to null alone, numbers of all kinds compare as numbers. An error says that nothing compares
    them.
    """
    if one is None or other is None:
        return one is other
    return equal_method(one, other)


def equal_method(one: Any, other: Any) -> bool | ErrorValue:  # noqa: C901 : one kind after the other
    """What the left value says about the right one."""
    kind = type(one)
    if kind is str or kind is bool or kind is bytes:
        return kind is type(other) and bool(one == other)
    if kind in _NUMBERS:
        return type(other) in _NUMBERS and not _difference(one, other)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and _elements_equal(one, other)
    if isinstance(one, ANY_MAP):
        alike = isinstance(other, ANY_MAP) and len(one) == len(other)
        return _entries_equal(one, other) if alike else False
    if kind is DurationValue:
        return type(other) is DurationValue and bool(one.nanos == other.nanos)
    if kind is Timestamp:
        return type(other) is Timestamp and bool(one.moment == other.moment)
    if kind is Optional:
        if type(other) is not Optional or not (one.present and other.present):
            return type(other) is Optional and not one.present and not other.present
        return equal_method(one.value, other.value)
    if kind is Type:
        return type(other) is Type and bool(one.name == other.name)
    if isinstance(one, Opaque):
        if type(other) is not kind:
            if one.COMPARES_ALL:
                return False
            return other if type(other) is ErrorValue else NO_SUCH_OVERLOAD
        return one.equals(other)
    if one is None:
        return other is None
    return one if kind is ErrorValue else one is other


def _elements_equal(one: list[Any], other: list[Any]) -> bool:
    """An element that cannot be compared counts as equal, as in cel-go. Raises `TooManyStepsError`."""
    spend(2 + 2 * len(one))
    return all(equal(mine, theirs) is not False for mine, theirs in zip(one, other, strict=True))


def _entries_equal(one: Any, other: Any) -> bool | ErrorValue:
    """Values that cannot be compared count as equal, unless the map tells errors. What is an error is not there."""
    spend(2 + 2 * len(one))
    for key in one.keys():  # noqa: SIM118 : no dict
        mine, theirs = one.get(key), other.find(key)
        if one.TELLS_ERRORS and mine is not None and type(mine[0]) is ErrorValue:
            return mine[0]
        if mine is None or theirs is None or type(theirs[0]) is ErrorValue:
            return False
        same = equal(mine[0], theirs[0])
        if same is False or (one.TELLS_ERRORS and same is not True):
            return same
    return True


def compare(one: Any, other: Any) -> int | ErrorValue:
    """-1, 0 or 1; an error if the values have no order."""
    kind = type(one)
    if kind in _NUMBERS:
        if type(other) not in _NUMBERS:
            return _not_comparable(other)
        if (kind is float and math.isnan(one)) or (type(other) is float and math.isnan(other)):
            return _NAN
        return _difference(one, other)
    if type(other) is not kind:
        return _not_comparable(other)
    if kind is str:
        # Go compares the bytes of UTF-8, whose order is that of code points.
        return _sign(one, other)
    if kind is bytes or kind is bool:
        return _sign(one, other)
    if kind is DurationValue:
        return _sign(one.nanos, other.nanos)
    return _sign(one.moment, other.moment)


def _difference(one: Any, other: Any) -> int:
    """-1, 0 or 1 for two numbers, 1 also for NaN. As in cel-go integers are compared with doubles as doubles."""
    if type(one) is float or type(other) is float:
        one, other = float(one), float(other)
        return 1 if math.isnan(one) or math.isnan(other) else _sign(one, other)
    return _sign(one, other)


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _not_comparable(other: Any) -> ErrorValue:
    return other if type(other) is ErrorValue else NO_SUCH_OVERLOAD


def is_zero(value: Any) -> bool:
    """Whether `optional.ofNonZeroValue` takes a value for none."""
    if value is None:
        return True
    if type(value) in (bool, int, Uint, float, str, bytes):
        return not value
    if isinstance(value, list):
        return not value
    if type(value) is DurationValue:
        return value.nanos == 0
    if type(value) is Timestamp:
        return value.moment == (-62135596800, 0)
    return bool(getattr(value, "ZERO_IF_EMPTY", isinstance(value, ANY_MAP))) and len(value) == 0
