"""What is worked out before an expression runs: conversions of constants, membership in constant lists, expressions."""

from typing import Any

from kscheduler.cel import types
from kscheduler.cel.functions.regexes import RegexError, compiled, find, find_all, matches
from kscheduler.cel.planning.attributes import Run
from kscheduler.cel.planning.dispatch import Binding
from kscheduler.cel.planning.frame import Frame
from kscheduler.cel.types import Type
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, ErrorValue, Uint, map_key

CONVERSIONS = frozenset(("bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"))
"""Functions whose result is known if their only argument is a constant."""


class PlanError(ValueError):
    """An expression cannot be planned; the text is what follows `program instantiation failed: `."""


def member_keys(values: Any) -> frozenset[Any] | None:
    """The keys of a constant list for membership, with the other kinds of its numbers; None if that is no way."""
    if not isinstance(values, list):
        return None
    keys: set[Any] = set()
    for value in values:
        if type(value) not in (bool, float, int, str, Uint):
            return None
        keys.add(map_key(value))
        keys.update(map_key(other) for other in _other_kinds(value))
    return frozenset(keys)


def _other_kinds(value: Any) -> list[Any]:
    """The same number as the other kinds."""
    wanted: dict[type, tuple[Type, Type]] = {
        float: (types.INT, types.UINT),
        int: (types.DOUBLE, types.UINT),
        Uint: (types.DOUBLE, types.INT),
    }
    converted = [convert(value, kind) for kind in wanted.get(type(value), ())]
    found = [other for other in converted if type(other) is not ErrorValue]
    # A double stands for an integer only if it is one.
    return [other for other in found if other == value] if type(value) is float else found


def membership(arg: Run, keys: frozenset[Any]) -> Run:
    """`arg in [constants]`, at no cost of its own."""

    def run(frame: Frame) -> Any:
        value = arg(frame)
        return value if type(value) is ErrorValue else map_key(value) in keys

    return run


def with_regex(function: str, pattern: str) -> Binding:
    """A call with a constant expression. Raises `PlanError` if the expression is none."""
    try:
        compiled(pattern)
    except RegexError as error:
        raise PlanError(str(error)) from None

    def call(text: Any, _pattern: Any, count: Any = -1) -> Any:
        if isinstance(text, Type) and function != "matches":
            text = text.name
        if type(text) is not str or type(count) is not int:
            return NO_SUCH_OVERLOAD
        if function == "findAll":
            return find_all(text, pattern, count)
        return matches(text, pattern) if function == "matches" else find(text, pattern)

    return Binding(call, stops=True)
