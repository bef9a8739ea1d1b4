"""Fields and indexes of values: what `value.field` and `value[index]` find."""

from typing import Any

from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import ANY_MAP, ErrorValue, Opaque, Optional, StringMap, Uint
from kscheduler.cel.values.show import shown
from kscheduler.cel.values.typing import go_type, type_of

ABSENT = object()
"""There is nothing at a place where nothing may be."""

_INDEXES = (str, int, Uint, bool, float)
_MOST_INT = 2**63 - 1


def index_error(index: Any) -> ErrorValue | None:
    """What is wrong with a value as an index, if anything."""
    if type(index) in _INDEXES:
        return None
    return ErrorValue(f"invalid qualifier type: {go_type(index)}")


def qualified(value: Any, index: Any, *, presence: bool) -> Any:
    """The element of a value; an error if there is none, or `ABSENT` where its presence is in question."""
    kind = type(value)
    if kind is ErrorValue:
        return value
    if isinstance(value, ANY_MAP):
        found = value.find(index)
        if found is not None:
            return found[0]
        return ABSENT if presence else ErrorValue(f"no such key: {shown(index)}")
    if isinstance(value, list):
        at = position(index)
        if isinstance(at, ErrorValue):
            return at
        if 0 <= at < len(value):
            return value[at]
        return ABSENT if presence else ErrorValue(f"index out of bounds: {shown(index)}")
    return ABSENT if presence else ErrorValue(f"no such key: {shown(index)}")


def position(index: Any) -> int | ErrorValue:
    """The position that an index means."""
    if type(index) is int:
        return index
    if type(index) is float:
        whole = index == index and abs(index) < float(2**63) and index == int(index)
        return int(index) if whole else ErrorValue(f"unsupported index value {shown(index)} in list")
    if type(index) is Uint:
        return int(index) if index <= _MOST_INT else ErrorValue(f"unsupported index value {shown(index)} in list")
    return ErrorValue(f"unsupported index type '{type_of(index)}' in list")


def go_value(value: Any) -> Any:
    """What cel-go 0.26 makes of the value of an optional: it goes through Go's own types, which not all survive."""
    if isinstance(value, Optional):
        return go_value(value.value) if value.present else None
    if isinstance(value, Type):
        return value.name
    if isinstance(value, StringMap):
        return value.plain() if hasattr(value, "plain") else value
    if isinstance(value, Opaque) and value.GO_VALUE:
        return ErrorValue(f"unsupported conversion to ref.Val: ({value.GO_VALUE}){value.text()}")
    return value
