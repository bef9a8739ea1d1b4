"""Calls as closures: the arguments, then the function, then the cost."""

from collections.abc import Iterable
from typing import Any

from kscheduler.cel.functions import Implementation
from kscheduler.cel.planning.attributes import Run
from kscheduler.cel.planning.costs import Cost, equality, inequality
from kscheduler.cel.planning.frame import Frame
from kscheduler.cel.steps import spend
from kscheduler.cel.values.comparing import equal
from kscheduler.cel.values.kinds import NO_SUCH_OVERLOAD, ErrorValue, MutableList, Optional

_LETTERS_PER_STEP, _ELEMENTS_PER_STEP = 64, 32
"""What is copied or gone through in a step by what Python does in one call."""


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


def stopping(args: list[Run], call: Implementation, cost: Cost) -> Run:
    """A call that stops at its first argument that is an error, at no cost unless that is the last one."""
    last = len(args) - 1

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


def equals(left: Run, right: Run, *, negated: bool) -> Run:
    """`==` and `!=`."""

    def run(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        _pay((one, other))
        if type(one) is ErrorValue:
            result: Any = one
        elif type(other) is ErrorValue:
            result = other
        elif negated:
            result = equal(one, other) is not True
        else:
            result = equal(one, other)
        args = [one, other]
        frame.charge(inequality(args, result) if negated else equality(args, result))
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
