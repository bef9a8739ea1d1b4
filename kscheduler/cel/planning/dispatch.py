"""Which implementation a call gets, and how its arguments are guarded."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kscheduler.cel.checking.declarations import Function, Functions, Overload
from kscheduler.cel.functions import Implementation
from kscheduler.cel.functions.standard import SINGLETONS, UNGUARDED
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, ErrorValue
from kscheduler.cel.values.typing import fits, type_name, type_of

_ONE_BY_ONE = frozenset(("string_format",))
"""Overloads of two arguments that stop at the first error."""

_RECEIVERS = frozenset(("string", "duration", "timestamp"))


@dataclass(frozen=True, slots=True)
class Binding:
    """An implementation. `stops`: it takes its arguments one by one and stops at the first error (and costs nothing
    then).
    """

    call: Implementation
    stops: bool = False


class Dispatcher:
    """Finds implementations; guards are made once for each function and overload."""

    def __init__(self, functions: Functions, implementations: Mapping[str, Implementation]) -> None:
        self._functions, self._implementations = functions, implementations

    def find(self, name: str, overloads: tuple[str, ...], count: int) -> Binding | None:
        """The binding of a call with `count` arguments; None if there is none."""
        if name in SINGLETONS:
            call, kinds = SINGLETONS[name]
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
