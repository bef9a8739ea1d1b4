"""Comprehensions as closures, and what is written out: lists, maps, messages."""

from collections.abc import Callable
from typing import Any

from kscheduler.cel.functions.lists import iterable_error
from kscheduler.cel.planning.attributes import UNSET, Frame, Run
from kscheduler.cel.steps import spend
from kscheduler.cel.values.go_text import shown
from kscheduler.cel.values.kinds import ANY_MAP, ErrorValue, Map, MutableList, MutableMap, Optional
from kscheduler.cel.values.typing import go_type, size_of

_LIST_COST, _MAP_COST, _STRUCT_COST = 10, 30, 40


def accumulator(slot: int, init: Run, *, in_place: bool) -> Run:
    """The accumulator's value, made when first asked for. An empty list or map may become one that changes in place."""

    def run(frame: Frame) -> Any:
        value = frame.slots[slot]
        if value is UNSET:
            value = init(frame)
            if in_place and isinstance(value, list) and not value:
                value = MutableList()
                frame.slots[slot + 1] = True
            elif in_place and isinstance(value, ANY_MAP) and not len(value):
                value = MutableMap()
                frame.slots[slot + 1] = True
            frame.slots[slot] = value
        return value

    return run


def fold(over: Run, slots: tuple[int, int, int], loop: tuple[Run, Run, Run], *, of_nothing: bool) -> Run:
    """`slots`: of the first and second variable (-1: none) and the accumulator. `loop`: condition, step, result.
    `of_nothing`: whatever has a size may be gone through if that is zero.
    """
    first, second, accumulated = slots
    condition, step, result = loop

    def run(frame: Frame) -> Any:
        values = over(frame)
        if type(values) is ErrorValue:
            return values
        slot = frame.slots
        slot[accumulated], slot[accumulated + 1] = UNSET, False
        pairs = [] if of_nothing and size_of(values) == 0 else _pairs(values, two=second >= 0)
        if isinstance(pairs, ErrorValue):
            return pairs
        for one, other in pairs:
            slot[first] = one
            if second >= 0:
                slot[second] = other
            if condition(frame) is False:
                break
            slot[accumulated] = step(frame)
        value = result(frame)
        if slot[accumulated + 1]:
            if type(value) is MutableList:
                return list(value)
            if type(value) is MutableMap:
                return value.copied()
        return value

    return run


def _pairs(values: Any, *, two: bool) -> list[tuple[Any, Any]] | ErrorValue:
    if isinstance(values, list):
        spend(len(values))
        return list(enumerate(values)) if two else [(value, None) for value in values]
    if isinstance(values, ANY_MAP):
        keys = list(values.keys())
        spend(len(keys))
        return [(key, (values.get(key) or (None,))[0]) for key in keys] if two else [(key, None) for key in keys]
    if two:
        return ErrorValue(f"unsupported comprehension range type: {go_type(values)}")
    return iterable_error(values)


def new_list(elements: list[tuple[Run, bool]], *, counts_errors: bool) -> Run:
    """A list; an element that is optional is left out if it is none."""

    def make(frame: Frame) -> Any:
        values: list[Any] = []
        for element, optional in elements:
            value = element(frame)
            if type(value) is ErrorValue:
                return value
            if optional:
                if type(value) is not Optional:
                    wrong = "cannot initialize optional list element from non-optional value"
                    return ErrorValue(f"{wrong} {shown(value)}")
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values

    return _costing(make, _LIST_COST, counts_errors=counts_errors)


def new_map(entries: list[tuple[Run, Run, bool]], *, counts_errors: bool) -> Run:
    def make(frame: Frame) -> Any:
        made = Map()
        for key_run, value_run, optional in entries:
            key = key_run(frame)
            if type(key) is ErrorValue:
                return key
            value = value_run(frame)
            if type(value) is ErrorValue:
                return value
            if optional:
                if type(value) is not Optional:
                    wrong = f"cannot initialize optional entry '{shown(key)}' from non-optional value"
                    return ErrorValue(f"{wrong} {shown(value)}")
                if not value.present:
                    made.drop(key)
                    continue
                value = value.value
            made.put(key, value)
        return made

    return _costing(make, _MAP_COST, counts_errors=counts_errors)


def new_struct(
    fields: list[tuple[str, Run, bool]], construct: Callable[[dict[str, Any]], Any], *, counts_errors: bool
) -> Run:
    def gather(frame: Frame) -> Any:
        values: dict[str, Any] = {}
        for name, run, optional in fields:
            value = run(frame)
            if type(value) is ErrorValue:
                return value
            if optional:
                if type(value) is not Optional:
                    wrong = f"cannot initialize optional entry '{name}' from non-optional value"
                    return ErrorValue(f"{wrong} {shown(value)}")
                if not value.present:
                    values.pop(name, None)
                    continue
                value = value.value
            values[name] = value
        return values

    gathered = _costing(gather, _STRUCT_COST, counts_errors=counts_errors)

    def make(frame: Frame) -> Any:
        values = gathered(frame)
        return values if type(values) is ErrorValue else construct(values)

    return make


def _costing(make: Run, cost: int, *, counts_errors: bool) -> Run:
    def run(frame: Frame) -> Any:
        value = make(frame)
        if counts_errors or type(value) is not ErrorValue:
            frame.charge(cost)
        return value

    return run
