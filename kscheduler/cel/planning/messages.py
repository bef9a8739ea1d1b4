"""Messages that are written out: almost all of them become values of CEL's own types."""

import struct
from collections.abc import Callable
from typing import Any

from kscheduler.cel.checking.messages import MESSAGES
from kscheduler.cel.values.converting import unconvertible
from kscheduler.cel.values.kinds import ANY_MAP, DurationValue, ErrorValue, Map, Opaque, Timestamp, Uint
from kscheduler.cel.values.typing import type_of

_INTEGERS: dict[str, tuple[type, int, int, str]] = {
    "google.protobuf.Int32Value.value": (int, -(2**31), 2**31, "int32"),
    "google.protobuf.Int64Value.value": (int, -(2**63), 2**63, "int64"),
    "google.protobuf.UInt32Value.value": (Uint, 0, 2**32, "uint32"),
    "google.protobuf.UInt64Value.value": (Uint, 0, 2**64, "uint64"),
    "google.protobuf.Duration.seconds": (int, -(2**63), 2**63, "int64"),
    "google.protobuf.Duration.nanos": (int, -(2**31), 2**31, "int32"),
    "google.protobuf.Timestamp.seconds": (int, -(2**63), 2**63, "int64"),
    "google.protobuf.Timestamp.nanos": (int, -(2**31), 2**31, "int32"),
}
_OTHERS: dict[str, tuple[type, str]] = {
    "google.protobuf.BoolValue.value": (bool, "bool"),
    "google.protobuf.BytesValue.value": (bytes, "[]uint8"),
    "google.protobuf.DoubleValue.value": (float, "float64"),
    "google.protobuf.FloatValue.value": (float, "float32"),
    "google.protobuf.StringValue.value": (str, "string"),
    "google.protobuf.Value.number_value": (float, "float64"),
    "google.protobuf.Value.string_value": (str, "string"),
    "google.protobuf.Value.bool_value": (bool, "bool"),
}
_ZEROS: dict[str, Any] = {
    "BoolValue": False, "BytesValue": b"", "DoubleValue": 0.0, "FloatValue": 0.0, "Int32Value": 0, "Int64Value": 0,
    "UInt32Value": Uint(0), "UInt64Value": Uint(0), "StringValue": "",
}  # fmt: skip
_NANOS = 10**9
_PREFIX = "google.protobuf."


class Message(Opaque):
    """A message that is no value of CEL itself: google.protobuf.Empty."""

    __slots__ = ()
    TYPE_NAME = "google.protobuf.Empty"
    GO_TYPE = "*types.protoObj"
    COMPARES_ALL = True

    def equals(self, other: Any) -> bool:
        """It has no fields to differ in."""
        return isinstance(other, Message)


def construct(name: str) -> Callable[[dict[str, Any]], Any]:
    """What makes a message of its fields."""
    if name not in MESSAGES:
        return lambda _fields: ErrorValue(f"unknown type '{name}'")
    short = name.removeprefix(_PREFIX)

    def make(fields: dict[str, Any]) -> Any:
        for field, value in fields.items():
            converted = _field(f"{name}.{field}", value)
            if isinstance(converted, ErrorValue):
                return converted
            fields[field] = converted
        return _made(short, fields)

    return make


def _field(path: str, value: Any) -> Any:
    wrong = f"field type conversion error for {path} value type"
    if path in _INTEGERS:
        kind, least, beyond, native = _INTEGERS[path]
        if type(value) is not kind:
            return ErrorValue(f"{wrong}: {unconvertible(value, native)}")
        if not least <= value < beyond:  # type: ignore[operator]  # of that kind
            return ErrorValue(f"{wrong}: {'unsigned ' if kind is Uint else ''}integer overflow")
        return value
    if path in _OTHERS:
        wanted, native = _OTHERS[path]
        return value if type(value) is wanted else ErrorValue(f"{wrong}: {unconvertible(value, native)}")
    if (path.endswith(".values") and not isinstance(value, list)) or (
        path.endswith(".fields") and not isinstance(value, ANY_MAP)
    ):
        return ErrorValue(f"unsupported field type for {path}: {type_of(value)}")
    return value


def _made(short: str, fields: dict[str, Any]) -> Any:
    if short in _ZEROS:
        value = fields.get("value", _ZEROS[short])
        return struct.unpack("f", struct.pack("f", value))[0] if short == "FloatValue" else value
    match short:
        case "Duration":
            return DurationValue(int(fields.get("seconds", 0)) * _NANOS + int(fields.get("nanos", 0)))
        case "Timestamp":
            seconds, nanos = divmod(int(fields.get("nanos", 0)), _NANOS)
            return Timestamp(int(fields.get("seconds", 0)) + seconds, nanos)
        case "ListValue":
            return list(fields.get("values", []))
        case "Struct":
            return fields.get("fields", Map())
        case "Value":
            return next(iter(fields.values())) if fields and "null_value" not in fields else None
        case "Any":
            return ErrorValue("unsupported conversion to ref.Val: (*dynamicpb.Message)")
    return Message()
