"""Of what type a value is, in CEL and in Go, and whether it may be an argument of a type."""

from typing import Any

from kscheduler.cel import types
from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import (
    ConcatList,
    DurationValue,
    ErrorValue,
    Map,
    MutableList,
    MutableMap,
    Opaque,
    Optional,
    StringMap,
    Timestamp,
    Uint,
)

FAILURE = Type("opaque", "error")
_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    bytes: types.BYTES,
    float: types.DOUBLE,
    int: types.INT,
    Uint: types.UINT,
    str: types.STRING,
    type(None): types.NULL,
    list: types.LIST,
    MutableList: types.LIST,
    ConcatList: types.LIST,
    Map: types.MAP,
    MutableMap: types.MAP,
    StringMap: types.MAP,
    DurationValue: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.OPTIONAL,
    Type: types.TYPE,
    ErrorValue: FAILURE,
}
_GO_TYPES: dict[type, str] = {
    bool: "types.Bool",
    bytes: "types.Bytes",
    float: "types.Double",
    int: "types.Int",
    Uint: "types.Uint",
    str: "types.String",
    type(None): "types.Null",
    list: "*types.baseList",
    MutableList: "*types.mutableList",
    ConcatList: "*types.concatList",
    DurationValue: "types.Duration",
    Timestamp: "types.Timestamp",
    Optional: "*types.Optional",
    Type: "*types.Type",
    ErrorValue: "*types.Err",
}
_OPAQUE: dict[str, Type] = {
    name: (Type("opaque", name) if name.startswith("net.") else types.struct(name))
    for name in (
        "net.IP",
        "net.CIDR",
        "kubernetes.Quantity",
        "kubernetes.Semver",
        "kubernetes.URL",
        "kubernetes.NamedFormat",
        "google.protobuf.Empty",
    )
}
_WITH_SIZE = (str, bytes, list, Map, StringMap)


def type_of(value: Any) -> Type:
    """The type of a value, as `type()` tells it: all lists are `list`."""
    known = _TYPES.get(type(value))
    if known is not None:
        return known
    return _OPAQUE[value.TYPE_NAME] if isinstance(value, Opaque) else types.MAP


def type_name(value: Any) -> str:
    return type_of(value).name


def go_type(value: Any) -> str:
    """The type that cel-go keeps such a value in."""
    known = _GO_TYPES.get(type(value))
    return known if known is not None else value.GO_TYPE


def size_of(value: Any) -> int | None:
    """The size of what has one: letters, bytes, elements, entries; None of everything else."""
    if isinstance(value, _WITH_SIZE):
        return len(value)
    return value.size() if isinstance(value, Opaque) else None


def fits(described: Type, value: Any) -> bool:
    """Whether a value may be an argument of a type. Of a list or map only the first element is looked at."""
    if described.kind in ("dyn", "any", "param"):
        return True
    if described.name != type_name(value):
        return described.nullable and value is None
    if described.kind == "list":
        return not value or fits(described.params[0], value[0])
    if described.kind == "map":
        for key in value.keys():  # noqa: SIM118 : no dict
            found = value.get(key)
            return fits(described.params[0], key) and found is not None and fits(described.params[1], found[0])
    return True
