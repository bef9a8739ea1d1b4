"""Types, as the checker compares and shows them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kscheduler.cel.steps import spend


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type: its kind, its name, and the types it is made of. `nullable`: a wrapper, that null may stand for.

    Its parts may be shared, so as a tree it may be far larger than what is kept of it: a walk over one spends
    steps, or asks `size` first.
    """

    kind: str
    name: str
    params: "tuple[Type, ...]" = ()
    nullable: bool = False
    has_parameters: bool = field(init=False)
    """Whether a parameter of types occurs in it."""
    size: int = field(init=False)
    """How many parts it has as a tree, itself included."""
    shape: int = field(init=False)
    """A hash: types that are the same have the same one."""

    def __post_init__(self) -> None:
        params = self.params
        assign = object.__setattr__
        assign(self, "has_parameters", self.kind == "param" or any(param.has_parameters for param in params))
        assign(self, "size", 1 + sum(param.size for param in params))
        assign(self, "shape", hash((self.kind, self.name, *(param.shape for param in params))))

    def __str__(self) -> str:
        """As the result type of an expression is shown: `list(int)`. Raises `TooManyStepsError`."""
        spend(self.size)
        return self._written()

    def _written(self) -> str:
        if self.kind == "param":
            return f"<{self.name}>"
        if not self.params:
            return self.declared_name
        return f"{self.declared_name}({', '.join(param._written() for param in self.params)})"

    @property
    def declared_name(self) -> str:
        """The name, `wrapper(...)` around one that may be null."""
        return f"wrapper({self.name})" if self.nullable else self.name

    def shown(self) -> str:
        """As error texts show it. Raises `TooManyStepsError`."""
        spend(self.size)
        return self._shown()

    def _shown(self) -> str:
        short = _SHORT.get(self.kind)
        if short is not None:
            return short
        if self.kind == "param":
            return self.name
        if not self.params:
            return self.declared_name
        return f"{self.name}({', '.join(param._shown() for param in self.params)})"

    @property
    def is_dyn(self) -> bool:
        """Whether anything may be of this type."""
        return self.kind in ("dyn", "any")

    def takes(self, other: "Type") -> bool:
        """Whether a value of the other type, which is made of no others, can be assigned."""
        if self is other or self.kind in ("dyn", "any", "param"):
            return True
        if self.nullable and other.kind == "null":
            return True
        return self.kind == other.kind and self.name == other.name and not self.params


_SHORT: Final = {
    "any": "any",
    "duration": "duration",
    "error": "!error!",
    "null": "null",
    "timestamp": "timestamp",
}

DYN = Type("dyn", "dyn")
ANY = Type("any", "google.protobuf.Any")
BOOL = Type("bool", "bool")
BYTES = Type("bytes", "bytes")
DOUBLE = Type("double", "double")
DURATION = Type("duration", "google.protobuf.Duration")
ERROR = Type("error", "error")
INT = Type("int", "int")
NULL = Type("null", "null_type")
STRING = Type("string", "string")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
TYPE = Type("type", "type")
UINT = Type("uint", "uint")


def list_of(element: Type) -> Type:
    """A list of elements of a type."""
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    """A value of a type, or none."""
    return Type("opaque", "optional_type", (value,))


def type_of(described: Type) -> Type:
    """The type of a type."""
    return Type("type", "type", (described,))


def param(name: str) -> Type:
    """A type that a call decides."""
    return Type("param", name)


def struct(name: str) -> Type:
    """A message or another type with a name of its own."""
    return Type("struct", name)


def nullable(wrapped: Type) -> Type:
    """A wrapper: a value of the type, or null."""
    return Type(wrapped.kind, wrapped.name, wrapped.params, nullable=True)


LIST = list_of(DYN)
MAP = map_of(DYN, DYN)
OPTIONAL = Type("opaque", "optional_type", (DYN,))

# Messages that are values of CEL's own types.
WELL_KNOWN: Final = {
    "google.protobuf.BoolValue": nullable(BOOL),
    "google.protobuf.BytesValue": nullable(BYTES),
    "google.protobuf.DoubleValue": nullable(DOUBLE),
    "google.protobuf.FloatValue": nullable(DOUBLE),
    "google.protobuf.Int64Value": nullable(INT),
    "google.protobuf.Int32Value": nullable(INT),
    "google.protobuf.UInt64Value": nullable(UINT),
    "google.protobuf.UInt32Value": nullable(UINT),
    "google.protobuf.StringValue": nullable(STRING),
    "google.protobuf.Any": ANY,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.NullValue": NULL,
    "google.protobuf.Struct": map_of(STRING, DYN),
    "google.protobuf.Value": DYN,
}


def unwrap_optional(described: Type) -> tuple[Type, bool]:
    """What an optional is of, and whether the type is one."""
    if described.kind == "opaque" and described.name == "optional_type":
        return described.params[0], True
    return described, False


def read(text: str, named: Callable[[str], Type]) -> Type:
    """A type as declarations write it: `map(string, list(A))`; a capital letter is a parameter."""
    name, _, rest = text.partition("(")
    name = name.strip()
    if not rest:
        return param(name) if len(name) == 1 else named(name)
    params = tuple(read(part, named) for part in split(rest.rstrip()[:-1]))
    match name:
        case "list":
            return list_of(params[0])
        case "map":
            return map_of(*params)
        case "type":
            return type_of(params[0])
    return optional_of(params[0])


def split(text: str) -> list[str]:
    """The parts of a list between commas, brackets kept whole."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
