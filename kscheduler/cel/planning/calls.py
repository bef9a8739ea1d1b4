"""Calls as closures: the arguments, then the function, then the cost."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kscheduler.cel import types
from kscheduler.cel.checking.declarations import Function, Functions, Overload
from kscheduler.cel.functions import Implementation
from kscheduler.cel.functions.regexes import RegexError, compiled, find, find_all, matches
from kscheduler.cel.functions.standard import UNGUARDED
from kscheduler.cel.planning.attributes import Frame, Run
from kscheduler.cel.planning.costs import Cost, equality, inequality
from kscheduler.cel.steps import spend
from kscheduler.cel.types import Type
from kscheduler.cel.values.comparing import equal
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, ErrorValue, MutableList, Optional, Uint, map_key
from kscheduler.cel.values.typing import fits, type_name, type_of

# What is copied or gone through in a step by what Python does in one call.
_LETTERS_PER_STEP, _ELEMENTS_PER_STEP = 64, 32


def _pay(values: Iterable[Any]) -> None:
    """Spend steps for what a call goes through, before it does. What it multiplies, or compares, it pays for itself."""
    steps = 1
    for value in values:
        kind = type(value)
        if kind is str or kind is bytes:
            steps += len(value) // _LETTERS_PER_STEP
        elif kind is not MutableList and isinstance(value, list):
            steps += len(value) // _ELEMENTS_PER_STEP
    spend(steps)


def nullary(call: Implementation, cost: Cost) -> Run:
    """A call without arguments."""

    def run(frame: Frame) -> Any:
        result = call()
        frame.charge(cost if isinstance(cost, int) else cost([], result))
        return result

    return run


def unary(arg: Run, call: Implementation, cost: Cost, *, strict: bool) -> Run:
    """A call with one argument; one that is not strict takes errors too."""

    def run(frame: Frame) -> Any:
        value = arg(frame)
        _pay((value,))
        result = value if strict and type(value) is ErrorValue else call(value)
        frame.charge(cost if isinstance(cost, int) else cost([value], result))
        return result

    return run


def binary(left: Run, right: Run, call: Implementation, cost: Cost) -> Run:
    """A call with two arguments, which are both evaluated even if the first is an error."""

    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        _pay((one, other))
        if type(one) is ErrorValue:
            result: Any = one
        elif type(other) is ErrorValue:
            result = other
        else:
            result = call(one, other)
        frame.charge(cost if isinstance(cost, int) else cost([one, other], result))
        return result

    return run


def stopping(args: list[Run], call: Implementation, cost: Cost, *, last_counts: bool) -> Run:
    """A call that stops at its first argument that is an error, at no cost unless `last_counts` and that is it."""
    if len(args) == 2 and not last_counts:
        return _stopping_at_two(args[0], args[1], call, cost)
    last = len(args) - 1 if last_counts else -1

    def run(frame: Frame) -> Any:
        values: list[Any] = []
        for at, arg in enumerate(args):
            value = arg(frame)
            values.append(value)
            if type(value) is ErrorValue:
                if at == last:
                    frame.charge(cost if isinstance(cost, int) else cost(values, value))
                return value
        _pay(values)
        result = call(*values)
        frame.charge(cost if isinstance(cost, int) else cost(values, result))
        return result

    return run


def _stopping_at_two(left: Run, right: Run, call: Implementation, cost: Cost) -> Run:
    """The same of two arguments, without a loop."""

    def run(frame: Frame) -> Any:
        one = left(frame)
        if type(one) is ErrorValue:
            return one
        other = right(frame)
        if type(other) is ErrorValue:
            return other
        _pay((one, other))
        result = call(one, other)
        frame.charge(cost if isinstance(cost, int) else cost([one, other], result))
        return result

    return run


def equals(left: Run, right: Run, *, negated: bool, stops: bool) -> Run:
    """`==` and `!=`, which count an error as a value of size 1; if it `stops` there, what is not evaluated as well."""
    cost = inequality if negated else equality

    def run(frame: Frame) -> Any:
        one = left(frame)
        other = None if stops and type(one) is ErrorValue else right(frame)
        _pay((one, other))
        if type(one) is ErrorValue:
            result: Any = one
        elif type(other) is ErrorValue:
            result = other
        elif negated:
            result = equal(one, other) is not True
        else:
            result = equal(one, other)
        frame.charge(cost([one, other], result))
        return result

    return run


def logic(terms: list[Run], decisive: bool) -> Run:
    """`||` (decided by true) and `&&` (by false): an error counts only if no later term decides."""

    def run(frame: Frame) -> Any:
        error: ErrorValue | None = None
        for term in terms:
            value = term(frame)
            if value is decisive:
                return decisive
            if error is None and type(value) is not bool:
                error = value if type(value) is ErrorValue else NO_SUCH_OVERLOAD
        return error if error is not None else not decisive

    return run


def optional_or(left: Run, right: Run, *, value: bool, lenient: bool) -> Run:
    """`or` and (with `value`) `orValue`. `lenient`: what is no optional is taken as it is, as of cel-go 0.26."""

    def run(frame: Frame) -> Any:
        optional = left(frame)
        if type(optional) is not Optional:
            return optional if lenient or type(optional) is ErrorValue else NO_SUCH_OVERLOAD
        if optional.present:
            return optional.value if value else optional
        return right(frame)

    return run


# Which implementation a call gets, and how its arguments are guarded.

# Overloads of two arguments that stop at the first error.
_ONE_BY_ONE = frozenset(("string_format",))

_RECEIVERS = frozenset(("string", "duration", "timestamp"))


class Binding(msgspec.Struct, frozen=True):
    """An implementation. `stops`: it takes its arguments one by one and stops at the first error (and costs nothing
    then).
    """

    call: Implementation
    stops: bool = False


class Dispatcher:
    """Finds implementations; guards are made once for each function and overload."""

    def __init__(
        self,
        functions: Functions,
        implementations: Mapping[str, Implementation],
        singletons: Mapping[str, tuple[Implementation, frozenset[str]]],
    ) -> None:
        self._functions, self._implementations, self._singletons = functions, implementations, singletons

    def find(self, name: str, overloads: tuple[str, ...], count: int) -> Binding | None:
        """The binding of a call with `count` arguments; None if there is none."""
        if name in self._singletons:
            call, kinds = self._singletons[name]
            return Binding(_with_trait(name, call, kinds) if kinds else call, stops=count > 2)
        function = self._functions[name]
        bound = [overload for overload in function.overloads if overload.name in self._implementations]
        if len(overloads) == 1:
            bound = [overload for overload in bound if overload.name == overloads[0]] or bound
        if not bound:
            return None
        if len(bound) == 1:
            stops = count > 2 or bound[0].name in _ONE_BY_ONE
            return Binding(self._guarded(function, bound[0]), stops=stops)
        return Binding(self._dispatching(function, bound), stops=True)

    def _guarded(self, function: Function, overload: Overload) -> Implementation:
        call = self._implementations[overload.name]
        if function.name in UNGUARDED or overload.name == "not_strictly_false":
            return call
        wanted, name = overload.args, function.name

        def guarded(*args: Any) -> Any:
            for kind, arg in zip(wanted, args, strict=True):
                if not fits(kind, arg):
                    return _no_overload(name, args)
            return call(*args)

        return guarded

    def _dispatching(self, function: Function, bound: list[Overload]) -> Implementation:
        unguarded, name = function.name in UNGUARDED, function.name
        choices = [(overload.args, self._implementations[overload.name]) for overload in bound]

        def dispatch(*args: Any) -> Any:
            for wanted, call in choices:
                if len(wanted) == len(args) and (
                    unguarded or all(fits(kind, arg) for kind, arg in zip(wanted, args, strict=True))
                ):
                    return call(*args)
            return _no_overload(name, args)

        return dispatch


def _no_overload(name: str, args: tuple[Any, ...]) -> ErrorValue:
    for arg in args:
        if type(arg) is ErrorValue:
            return arg
    return ErrorValue(f"no such overload: {name}({', '.join(type_name(arg) for arg in args)})")


def _with_trait(name: str, call: Implementation, kinds: frozenset[str]) -> Implementation:
    lacking = ErrorValue(f"no such overload: {name}")

    def traited(first: Any, *rest: Any) -> Any:
        kind = type_of(first).kind
        if kind in kinds:
            return call(first, *rest)
        return NO_SUCH_OVERLOAD if kind in _RECEIVERS else lacking

    return traited


# What is worked out before an expression runs: conversions of constants, membership in constant lists, expressions.

# Functions whose result is known if their only argument is a constant.
CONVERSIONS = frozenset(("bool", "bytes", "double", "dyn", "duration", "int", "string", "timestamp", "type", "uint"))


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
