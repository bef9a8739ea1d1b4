"""The types of the Kubernetes API, field by field, for a server that keeps objects as dicts.

`api_types.txt` is the table, made from the Go types by `tests/controlplane/typetable`. A line is a struct's name or a
field; a field has a type followed by attributes:

    core/v1.Container                       the struct `Container` of k8s.io/api/core/v1
     name string #1 + !                     number 1 on the protobuf wire; written even when empty; required
     ports []core/v1.ContainerPort #6 keys=containerPort,protocol patch=merge on=containerPort
                                            a list: the keys of its elements for server-side apply and patches
     securityContext *core/v1.SecurityContext #15
     ~ core/v1.VolumeSource #2              embedded: its fields are the outer struct's in JSON
    core/v1.Protocol = string               a named type

Types with their own decoding are `quantity`, `int-or-string`, `time`, `micro-time`, `duration`, `bytes` and `any`. The
table is read once, at the first request that needs it (some milliseconds); types are built at first use.
"""

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path

from kscheduler.api.machinery.resources import ServedResource

# The types of the followed release, and those that only a later one has.
_TABLES = tuple(Path(__file__).with_name(name) for name in ("api_types.txt", "later_types.txt"))


class JsonForm(Enum):
    """The form of a type's values in JSON."""

    TEXT = "string"
    BOOLEAN = "bool"
    INTEGER = "int"
    FLOAT = "float"
    LIST = "list"
    MAP = "map"
    STRUCT = "struct"
    QUANTITY = "quantity"
    INT_OR_STRING = "int-or-string"
    TIME = "time"
    MICRO_TIME = "micro-time"
    DURATION = "duration"
    BYTES = "bytes"
    ANY = "any"


@dataclass(slots=True, eq=False)
class ApiType:
    """A type. `element` is the type of a list's or map's values; `fields` is for structs."""

    form: JsonForm
    go_name: str
    """The name in Go: `v1.PodSpec`, `[]v1.Container`, `map[string]string`, `int32`."""
    key: str = ""
    """The struct's name in the table: `core/v1.PodSpec`."""
    bits: int = 0
    """The size of an integer."""
    element: "ApiType | None" = None
    fields: dict[str, "ApiField"] = field(default_factory=dict)
    by_number: dict[int, "ApiField"] = field(default_factory=dict)
    """Fields on the protobuf wire; an embedded struct is a field there, with an empty name."""

    @property
    def struct_name(self) -> str:
        """A struct's name without its package."""
        return self.key.rpartition(".")[2]


@dataclass(slots=True, eq=False)
class ApiField:
    """A field of a struct."""

    name: str
    type: ApiType
    path: str = ""
    """The path in error texts, which includes the names of embedded structs: `VolumeSource.emptyDir`."""
    number: int = 0
    is_required: bool = False
    is_pointer: bool = False
    """Whether absent differs from zero."""
    is_always_written: bool = False
    """Whether zero values are written to JSON too."""
    enum: tuple[str, ...] = ()
    merge_key: str = ""
    """The key of an element of the list for strategic merge patches."""
    patch_strategy: str = ""
    is_set: bool = False
    keys: tuple[str, ...] = ()
    """The keys of an element of the list for server-side apply; empty means that the list is atomic or a set."""


_SELF_DECODING = {
    "quantity": (JsonForm.QUANTITY, "resource.Quantity"),
    "int-or-string": (JsonForm.INT_OR_STRING, "intstr.IntOrString"),
    "time": (JsonForm.TIME, "v1.Time"),
    "micro-time": (JsonForm.MICRO_TIME, "v1.MicroTime"),
    "duration": (JsonForm.DURATION, "v1.Duration"),
    "bytes": (JsonForm.BYTES, "[]uint8"),
    "any": (JsonForm.ANY, ""),
    "string": (JsonForm.TEXT, "string"),
    "bool": (JsonForm.BOOLEAN, "bool"),
    "float64": (JsonForm.FLOAT, "float64"),
}
_BITS = {"int32": 32, "int64": 64, "int": 64, "uint8": 8}


class TypeTable:
    """All types by their names in the table."""

    def __init__(self, text: str) -> None:
        self._sections: dict[str, list[str]] = {}
        self._types: dict[str, ApiType] = {}
        fields: list[str] = []
        for line in text.splitlines():
            if line.startswith(" "):
                fields.append(line)
            else:
                name, _, meaning = line.partition(" = ")
                fields = self._sections[name] = [meaning] if meaning else []

    def __contains__(self, name: object) -> bool:
        return name in self._sections

    def type_of(self, expression: str) -> ApiType:
        """The type of an expression of the table. Raises KeyError."""
        found = self._types.get(expression)
        return found if found is not None else self._made(expression)

    def _made(self, expression: str) -> ApiType:
        if expression in _SELF_DECODING:
            form, go_name = _SELF_DECODING[expression]
            made = ApiType(form, go_name)
        elif expression in _BITS:
            made = ApiType(JsonForm.INTEGER, expression, bits=_BITS[expression])
        elif expression.startswith("[]"):
            element = self.type_of(expression.removeprefix("[]"))
            made = ApiType(JsonForm.LIST, f"[]{element.go_name}", element=element)
        elif expression.startswith("map[string]"):
            element = self.type_of(expression.removeprefix("map[string]"))
            made = ApiType(JsonForm.MAP, f"map[string]{element.go_name}", element=element)
        else:
            return self._named(expression)
        self._types[expression] = made
        return made

    def _named(self, name: str) -> ApiType:
        lines = self._sections[name]
        go_name = name.rpartition("/")[2]
        if lines and not lines[0].startswith(" "):
            named_type = self.type_of(lines[0])
            made = ApiType(named_type.form, go_name, name, named_type.bits, named_type.element)
            self._types[name] = made
            return made
        # Stored before its fields are read, since types may contain themselves.
        made = self._types[name] = ApiType(JsonForm.STRUCT, go_name, name)
        for line in lines:
            self._add_field(made, line.split())
        return made

    def _add_field(self, struct: ApiType, words: list[str]) -> None:
        name, expression, *marks = words
        number = next((int(mark[1:]) for mark in marks if mark.startswith("#")), 0)
        named_type = self.type_of(expression.removeprefix("*"))
        if name == "~":
            for inner in named_type.fields.values():
                struct.fields[inner.name] = replace(inner, path=f"{named_type.struct_name}.{inner.path}")
            made = ApiField("", named_type, number=number)
        else:
            values = dict(mark.split("=", 1) for mark in marks if "=" in mark)
            made = ApiField(
                name,
                named_type,
                name,
                number,
                is_required="!" in marks,
                is_pointer=expression.startswith("*"),
                is_always_written="+" in marks,
                enum=_listed(values.get("enum")),
                merge_key=values.get("on", ""),
                patch_strategy=values.get("patch", ""),
                is_set="set" in marks,
                keys=_listed(values.get("keys")),
            )
            struct.fields[name] = made
        if number:
            struct.by_number[number] = made


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


@cache
def table() -> TypeTable:
    """The table of this package."""
    return TypeTable("".join(path.read_text() for path in _TABLES))


@lru_cache(maxsize=1024)
def type_of_kind(group: str, version: str, kind: str) -> ApiType | None:
    """The struct of a kind; None if the table does not have it."""
    name = f"{group.partition('.')[0] or 'core'}/{version}.{kind}"
    return table().type_of(name) if name in table() else None


@lru_cache(maxsize=1024)
def _open_type(key: str) -> ApiType:
    """A struct that may have any fields beside those that every object has."""
    head = [("apiVersion", "string"), ("kind", "string"), ("metadata", "meta/v1.ObjectMeta")]
    fields = {name: ApiField(name, table().type_of(text), name) for name, text in head}
    return ApiType(JsonForm.ANY, key.rpartition("/")[2], key, fields=fields)


def type_of_resource(resource: ServedResource) -> ApiType | None:
    """The struct of a served kind; of one whose objects are stored as they are, only the metadata is known."""
    if resource.is_plain:
        return _open_type(f"{resource.group or 'core'}/{resource.version}.{resource.kind}")
    return type_of_kind(resource.group, resource.version, resource.kind)
