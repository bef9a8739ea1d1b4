"""What a call costs, by its function and overload: a number, or a function of arguments and result.

Kubernetes' own costs come first (after the trackers of cel-go's lists and sets), then cel-go's.
"""

import math
from collections.abc import Callable
from typing import Any

from kscheduler.cel.kubernetes.named_formats import NamedFormat
from kscheduler.cel.planning.attributes import EvaluationRules
from kscheduler.cel.steps import spend
from kscheduler.cel.values.kinds import ANY_MAP, ErrorValue, Opaque, Optional, PanicError
from kscheduler.cel.values.typing import go_type, size_of, type_of

Cost = int | Callable[[list[Any], Any], int]

# The cost of a letter, each time that a string is gone through.
_STRING = 0.1
_REGEX = 0.25
_NEW_LIST = 10
_MAX_COST = 2**63


def _size(value: Any) -> int:
    """Kubernetes' size: 1 of what has none."""
    size = size_of(value)
    return 1 if size is None else size


def _full_size(value: Any) -> int:
    """cel-go's size: of an optional, its value's."""
    if type(value) is Optional and value.present:
        return _full_size(value.value)
    return _size(value)


def _scaled(size: float, factor: float) -> int:
    return math.ceil(size * factor)


def _of_first(factor: float) -> Cost:
    return lambda args, _result: _scaled(_size(args[0]), factor)


def _doubled(args: list[Any], _result: Any) -> int:
    return math.ceil(float(_size(args[0])) * 2 * _STRING)


def _join(_args: list[Any], result: Any) -> int:
    return math.ceil(float(_size(result)) * 2 * _STRING)


def _search(args: list[Any], _result: Any) -> int:
    return _scaled(1.0 + _size(args[0]), _STRING) * _scaled(_size(args[1]), _REGEX)


def traversal(value: Any) -> int:
    """The cost of going through a value."""
    if type(value) is str:
        return int(len(value.encode("utf-8", "surrogatepass")) * _STRING)
    if type(value) is bytes:
        return int(len(value) * _STRING)
    if isinstance(value, list):
        spend(len(value))
        return sum(traversal(element) for element in value)
    if isinstance(value, ANY_MAP):
        keys = list(value.keys())
        spend(len(keys))
        return sum(traversal(key) + traversal((value.get(key) or (None,))[0]) for key in keys)
    return 1


def _traversed(args: list[Any], _result: Any) -> int:
    return traversal(args[0])


def _contains_ip(overload: str) -> Cost:
    def cost(args: list[Any], _result: Any) -> int:
        total = _scaled(float(2 * _size(args[0])), _STRING)
        return total + (_scaled(_size(args[1]), _STRING) if overload == "cidr_contains_ip_string" else 0)

    return cost


def _contains_cidr(overload: str) -> Cost:
    def cost(args: list[Any], _result: Any) -> int:
        size = _size(args[0])
        total = _scaled(float(2 * size), _STRING) + _scaled(size, _STRING) + 1
        return total + (_scaled(_size(args[1]), _STRING) if overload == "cidr_contains_cidr_string" else 0)

    return cost


def _validate(args: list[Any], _result: Any) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return _scaled(1.0 + _size(args[1]), _STRING) * _scaled(args[0].regex_size, _REGEX)


_TRAVERSING = frozenset(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"))
_BY_FIRST = frozenset(
    [
        "url",
        "lowerAscii",
        "upperAscii",
        "substring",
        "trim",
        "jsonpatch.escapeKey",
        "cidr",
        "isIP",
        "isCIDR",
        "quantity",
        "isQuantity",
        "semver",
        "isSemver",
    ]
)
_ONE = frozenset(
    [
        "serviceAccount",
        "path",
        "group",
        "resource",
        "subresource",
        "namespace",
        "name",
        "allowed",
        "reason",
        "error",
        "errored",
        "masked",
        "isMask",
        "prefixLength",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format.named",
        "sign",
        "asInteger",
        "isInteger",
        "asApproximateFloat",
        "isGreaterThan",
        "isLessThan",
        "compareTo",
        "add",
        "sub",
        "major",
        "minor",
        "patch",
        "getScheme",
        "getHostname",
        "getHost",
        "getPort",
        "getEscapedPath",
        "getQuery",
    ]
)


def _kubernetes(function: str, overload: str, *, includes: bool) -> Cost | None:
    if function in _ONE:
        return 1
    if function in _BY_FIRST:
        return _of_first(_STRING)
    if function in _TRAVERSING or (function == "includes" and includes):
        return _traversed
    match function:
        case "replace" | "split" | "ip.isCanonical":
            return _doubled
        case "join":
            return _join
        case "find" | "findAll":
            return _search
        case "ip":
            return 1 if overload == "cidr_ip" else _of_first(_STRING)
        case "containsIP":
            return _contains_ip(overload)
        case "containsCIDR":
            return _contains_cidr(overload)
        case "validate":
            return _validate
        case "check":
            return 350000
    return None


def _smaller(args: list[Any], _result: Any) -> int:
    return _scaled(min(_full_size(args[0]), _full_size(args[1])), _STRING)


def equality(args: list[Any], result: Any) -> int:
    """Of `==`: 1 if the left side is a kind that Kubernetes brought, else by the smaller size."""
    if isinstance(args[0], Opaque) and args[0].TYPE_NAME != "google.protobuf.Empty":
        return 1
    return _smaller(args, result)


def inequality(args: list[Any], result: Any) -> int:
    """Of `!=`."""
    return _smaller(args, result)


def _of_second(args: list[Any], _result: Any) -> int:
    return _scaled(_full_size(args[1]), _STRING)


def _full_first(args: list[Any], _result: Any) -> int:
    return _scaled(_full_size(args[0]), _STRING)


def _both(args: list[Any], _result: Any) -> int:
    return _scaled(_full_size(args[0]) + _full_size(args[1]), _STRING)


def _matches(args: list[Any], _result: Any) -> int:
    return _scaled(1.0 + _full_size(args[0]), _STRING) * _scaled(_full_size(args[1]), _REGEX)


def _contains(args: list[Any], _result: Any) -> int:
    return _full_first(args, None) * _of_second(args, None)


_STANDARD: dict[str, Cost] = {
    "starts_with_string": _of_second,
    "ends_with_string": _of_second,
    "string_to_bytes": _full_first,
    "bytes_to_string": _full_first,
    "strings_quote": _full_first,
    "string_format": _full_first,
    "in_list": lambda args, _result: _full_size(args[1]),
    **{
        f"{order}_{kind}": _smaller
        for order in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    },
    "add_string": _both,
    "add_bytes": _both,
    "matches": _matches,
    "matches_string": _matches,
    "contains_string": _contains,
}


def _allocating(factor: float, size: int) -> int:
    return int(float(size) * (factor if factor >= 0 else 1.0)) + 1 + _NEW_LIST


def _new_list(_args: list[Any], result: Any) -> int:
    return _allocating(1, _full_size(result))


_WITH_ADD = frozenset(("int", "uint", "double", "string", "bytes", "duration", "timestamp"))


def _need_list(value: Any) -> None:
    """cel-go takes the argument for a list even where the call failed since it is none."""
    if not isinstance(value, list):
        missing = "Contains" if type_of(value).kind in _WITH_ADD else "Add"
        message = f"interface conversion: {go_type(value)} is not traits.Lister: missing method {missing}"
        raise PanicError(message)


def _flatten(args: list[Any], _result: Any) -> int:
    depth = 1.0
    if len(args) == 2:
        if type(args[1]) is not int:
            message = f"interface conversion: ref.Val is {go_type(args[1])}, not types.Int"
            raise PanicError(message)
        depth = float(args[1])
    return _allocating(depth, _full_size(args[0]))


def _length(value: Any) -> int:
    """The size of what is there."""
    if type(value) is Optional:
        return _length(value.value) if value.present else 0
    return 0 if type(value) is ErrorValue else _size(value)


def _new_list_or_none(_args: list[Any], result: Any) -> int:
    return _allocating(1, _length(result))


def _flatten_any(args: list[Any], _result: Any) -> int:
    depth = args[1] if len(args) == 2 and type(args[1]) is int else 1
    return min(_length(args[0]) * max(depth, 0), _MAX_COST) + 1 + _NEW_LIST


def _old_flatten(args: list[Any], result: Any) -> int:
    """A negative depth is a negative cost, which wraps around."""
    _flatten(args, result)
    return (int(float(_full_size(args[0])) * args[1]) + 1 + _NEW_LIST) % 2**64


def _self_compare(at: int) -> Cost:
    def cost(args: list[Any], _result: Any) -> int:
        values = args[at]
        _need_list(values)
        if not values:
            return _allocating(2.0, 0)
        text = type(values[0]) in (str, bytes)
        return _allocating(2.0 + (_STRING if text else 0.0), len(values) ** 2)

    return cost


def _sets(factor: int) -> Cost:
    return lambda args, _result: 1 + int(float(_full_size(args[0]) * _full_size(args[1])) * factor)


_TRACKED: dict[str, Cost] = {
    "list_slice": _new_list,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _new_list,
    "list_reverse": _new_list,
    "list_distinct": _self_compare(0),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


# As of cel-go 0.33: what fails has no length, and what is no list is no bug.
_TRACKED_WITH_ERRORS: dict[str, Cost] = {
    "list_slice": _new_list_or_none,
    "list_flatten": _flatten_any,
    "list_flatten_int": _flatten_any,
    "lists_range": _new_list_or_none,
    "list_reverse": _new_list_or_none,
}


def cost_of(function: str, overload: str, rules: EvaluationRules) -> Cost:
    """What a call of an overload costs."""
    old = rules.old_costs
    if old and overload == "list_flatten_int":
        return _old_flatten
    if rules.stops_at_errors and overload in _TRACKED_WITH_ERRORS:
        return _TRACKED_WITH_ERRORS[overload]
    if overload in _TRACKED:
        return _TRACKED[overload]
    if overload.startswith("list_") and overload.endswith("_sort"):
        return _self_compare(0)
    if overload.startswith("list_") and overload.endswith("_sortByAssociatedKeys"):
        return _self_compare(1)
    known = _kubernetes(function, overload, includes=not old)
    if known is not None:
        return known
    if old and overload in ("starts_with_string", "ends_with_string"):
        return _full_first
    if old and overload == "matches":
        return 1
    return _STANDARD.get(overload, 1)
