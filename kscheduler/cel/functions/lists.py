"""The extensions of lists (version 3) and of sets."""

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from kscheduler.cel.functions import Implementation
from kscheduler.cel.steps import spend
from kscheduler.cel.values.comparing import compare, equal_method
from kscheduler.cel.values.kinds import ErrorValue
from kscheduler.cel.values.typing import go_type, type_of

_LONGEST_RANGE = 1_000_000
_ORDERED = frozenset(("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration"))


def contains(values: list[Any], wanted: Any) -> bool:
    """Whether an element is equal to what is wanted. Raises `TooManyStepsError`."""
    spend(len(values))
    return any(equal_method(wanted, value) is True for value in values)


def _slice(values: list[Any], start: int, end: int) -> list[Any] | ErrorValue:
    wrong = ""
    if start < 0 or end < 0:
        wrong = "negative indexes not supported"
    elif start > end:
        wrong = "start index must be less than or equal to end index"
    elif len(values) < end:
        wrong = f"list is length {len(values)}"
    return ErrorValue(f"cannot slice({start}, {end}), {wrong}") if wrong else values[start:end]


def _flatten(values: Any, *depths: Any) -> Any:
    if not isinstance(values, list) or any(type(depth) is not int for depth in depths):
        given = ", ".join(_typed(depth) for depth in depths)
        return (
            values if type(values) is ErrorValue else ErrorValue(f"no such overload: {_typed(values)}.flatten({given})")
        )
    depth = depths[0] if depths else 1
    if depth < 0:
        return ErrorValue("level must be non-negative")
    flat: list[Any] = []
    spend(len(values))
    for value in values:
        if isinstance(value, list) and depth:
            flat += _flatten(value, depth - 1)
        else:
            flat.append(value)
    return flat


def _typed(value: Any) -> str:
    return str(type_of(value))


def sort_by_keys(values: list[Any], keys: list[Any]) -> list[Any] | ErrorValue:
    """The values in the order of their keys."""
    if len(values) != len(keys):
        wanted = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        return ErrorValue(f"{wanted}, but got {len(values)} and {len(keys)} elements respectively")
    if not values:
        return values
    spend(len(keys) * len(keys).bit_length())
    first = type_of(keys[0])
    if first.kind not in _ORDERED:
        return ErrorValue("list elements must be comparable")
    if len(keys) > 1 and any(type_of(key) is not first for key in keys):
        return ErrorValue("list elements must have the same type")

    def by_key(one: int, other: int) -> int:
        order = compare(keys[one], keys[other])
        return order if isinstance(order, int) else 0

    return [values[at] for at in sorted(range(len(values)), key=cmp_to_key(by_key))]


def sort(values: list[Any]) -> list[Any] | ErrorValue:
    """The values in their order."""
    return sort_by_keys(values, values)


class _HugeList(list[int]):
    """A list of which only the length is known: nothing may be done with it, since it costs too much."""

    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __len__(self) -> int:
        return self._size


def _old_range(size: int) -> list[int]:
    """As of cel-go 0.26: without bounds (what is beyond them costs more than an evaluation may)."""
    if size > _LONGEST_RANGE:
        return _HugeList(size)
    spend(max(size, 0))
    return list(range(size))


def _range(size: int) -> list[int] | ErrorValue:
    if size < 0:
        return ErrorValue(f"lists.range: size must be non-negative, got {size}")
    if size > _LONGEST_RANGE:
        return ErrorValue(f"lists.range: size {size} exceeds maximum allowed ({_LONGEST_RANGE})")
    spend(size)
    return list(range(size))


def _distinct(values: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for value in values:
        spend(len(unique))
        if not any(equal_method(value, other) is True for other in unique):
            unique.append(value)
    return unique


def _includes_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(contains(values, value) for value in wanted)


def _equivalent(one: list[Any], other: list[Any]) -> bool:
    return _includes_all(one, other) and _includes_all(other, one)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    return any(contains(other, value) for value in one)


def list_functions(*, bounded_ranges: bool) -> dict[str, Implementation]:
    """By overload. `bounded_ranges`: as of cel-go 0.29."""
    return {
        "list_slice": _slice,
        "list_flatten": _flatten,
        "list_flatten_int": _flatten,
        "lists_range": _range if bounded_ranges else _old_range,
        "list_reverse": lambda values: values[::-1],
        "list_distinct": _distinct,
        "list_sets_contains_list": _includes_all,
        "list_sets_equivalent_list": _equivalent,
        "list_sets_intersects_list": _intersects,
    }


Comparison = Callable[[int], bool]


def iterable_error(value: Any) -> ErrorValue:
    """What a comprehension says about something that it cannot go through."""
    return ErrorValue(f"got '{go_type(value)}', expected iterable type")
