"""Protocol buffer messages that CEL knows, with their fields."""

from typing import Final

from kscheduler.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    LIST,
    MAP,
    NULL,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    WELL_KNOWN,
    Type,
    list_of,
    map_of,
    struct,
)

MESSAGES: Final[dict[str, dict[str, Type]]] = {
    "google.protobuf.Any": {"type_url": STRING, "value": BYTES},
    "google.protobuf.BoolValue": {"value": BOOL},
    "google.protobuf.BytesValue": {"value": BYTES},
    "google.protobuf.DoubleValue": {"value": DOUBLE},
    "google.protobuf.FloatValue": {"value": DOUBLE},
    "google.protobuf.Int32Value": {"value": INT},
    "google.protobuf.Int64Value": {"value": INT},
    "google.protobuf.UInt32Value": {"value": UINT},
    "google.protobuf.UInt64Value": {"value": UINT},
    "google.protobuf.StringValue": {"value": STRING},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Empty": {},
    "google.protobuf.ListValue": {"values": list_of(DYN)},
    "google.protobuf.Struct": {"fields": map_of(STRING, DYN)},
    "google.protobuf.Struct.FieldsEntry": {"key": STRING, "value": DYN},
    "google.protobuf.Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": map_of(STRING, DYN),
        "list_value": list_of(DYN),
    },
}

ENUMS: Final = {"google.protobuf.NullValue.NULL_VALUE": 0}

_PLAIN: Final = {kind.name: kind for kind in (BOOL, BYTES, DOUBLE, INT, LIST, MAP, NULL, STRING, UINT)}

# Types of CEL by the names that Kubernetes gives them: known to the checker, but no values.
SCALARS: Final = {**_PLAIN, "duration": DURATION, "timestamp": TIMESTAMP}

# Names whose value is a type.
TYPE_NAMES: Final[dict[str, Type]] = {
    **_PLAIN,
    DURATION.name: DURATION,
    TIMESTAMP.name: TIMESTAMP,
    TYPE.name: TYPE,
    OPTIONAL.name: OPTIONAL,
    "net.IP": Type("opaque", "net.IP"),
    "net.CIDR": Type("opaque", "net.CIDR"),
    **{name: struct(name) for name in MESSAGES if name not in WELL_KNOWN},
}


def message_type(name: str) -> Type | None:
    """The type of a message, or None for a name that is none."""
    if name not in MESSAGES:
        return None
    return WELL_KNOWN.get(name) or struct(name)
