"""The functions that expressions may call, read once from their signatures."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import msgspec

from kscheduler.cel import types
from kscheduler.cel.checking.messages import ENUMS, MESSAGES, SCALARS, TYPE_NAMES, message_type
from kscheduler.cel.types import DYN, INT, Type, list_of, map_of, param, type_of

# What names mean: variables of the expression and of the environment, types, enumerated values.

# As cel-go 0.26 declares these names: with parameters, which some error texts show.
_OLD_TYPES = {"list": list_of(param("A")), "map": map_of(param("A"), param("B"))}


class Meaning(msgspec.Struct, frozen=True):
    """What a name stands for; `is_global` if a leading point passed by a variable of the same name."""

    name: str
    type: Type
    value: Any = None
    is_global: bool = False


class Names:
    """Names of the environment, and scopes of the comprehensions around a place.

    `qualified_locals`: how cel-go 0.26 looks names up, where a variable hides no qualified name and a point changes
    nothing.
    """

    def __init__(
        self, variables: Mapping[str, Type], structs: Mapping[str, Mapping[str, Type]], *, qualified_locals: bool
    ) -> None:
        self._variables = variables
        self._structs = structs
        self._types = {name: Type("struct", name) for name in structs}
        self._old = qualified_locals
        self._scopes: list[dict[str, Type]] = []

    def enter(self, names: dict[str, Type]) -> None:
        """Open a scope."""
        self._scopes.append(names)

    def leave(self) -> None:
        """Close the innermost scope."""
        self._scopes.pop()

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def simple(self, name: str) -> Meaning | None:
        """A name without points but for a leading one."""
        bare = name.removeprefix(".")
        local = self._local(bare)
        if local is not None and (self._old or not name.startswith(".")):
            return Meaning(bare, local)
        return self._global(bare, hidden=local is not None)

    def qualified(self, parts: list[str]) -> Meaning | None:
        """Names with points between them."""
        name = ".".join(parts).removeprefix(".")
        if self._old:
            return self._global(name, hidden=False)
        local = self._local(parts[0].removeprefix("."))
        if local is not None and not parts[0].startswith("."):
            return None
        return self._global(name, hidden=local is not None)

    def _global(self, name: str, *, hidden: bool) -> Meaning | None:
        if name in self._variables:
            return Meaning(name, self._variables[name], None, hidden)
        described = TYPE_NAMES.get(name) or self.struct_type(name)
        if described is not None:
            described = _OLD_TYPES.get(name, described) if self._old else described
            return Meaning(name, type_of(described), None, hidden)
        if name in ENUMS:
            return Meaning(name, INT, ENUMS[name], hidden)
        return None

    def message(self, name: str) -> Meaning | None:
        """The type of a message that is written out."""
        if self._old:
            return self.simple(name)
        bare = name.removeprefix(".")
        described = TYPE_NAMES.get(bare) or self.struct_type(bare)
        return None if described is None else Meaning(bare, type_of(described))

    def struct_type(self, name: str) -> Type | None:
        """A type with fields (or one of CEL's own, which have none)."""
        return self._types.get(name) or SCALARS.get(name) or message_type(name)

    def field(self, struct: str, field: str) -> Type | None:
        """The type of a field; None if there is no such field."""
        if struct in self._structs:
            return self._structs[struct].get(field)
        if struct == "map":
            return DYN
        return MESSAGES.get(struct, {}).get(field)


_SIGNATURE = re.compile(r"(\S+) (\S+) (?:(\S.*?)\.)?\((.*)\) -> (.+)")


@dataclass(frozen=True, eq=False)
class Overload:
    """One way to call a function. A member's first argument is its target."""

    name: str
    args: tuple[Type, ...]
    result: Type
    member: bool

    @cached_property
    def params(self) -> tuple[str, ...]:
        """The names of its type parameters."""
        found: set[str] = set()
        for described in (*self.args, self.result):
            _collect(described, found)
        return tuple(sorted(found))


def _collect(described: Type, found: set[str]) -> None:
    if described.kind == "param":
        found.add(described.name)
    for part in described.params:
        _collect(part, found)


@dataclass(eq=False)
class Function:
    """A function and its overloads, in the order in which they are tried."""

    name: str
    overloads: list[Overload] = field(default_factory=list)


Functions = Mapping[str, Function]

_SHORT_NAMES = {
    "dyn": types.DYN, "bool": types.BOOL, "bytes": types.BYTES, "double": types.DOUBLE, "int": types.INT,
    "uint": types.UINT, "string": types.STRING, "duration": types.DURATION, "timestamp": types.TIMESTAMP,
    "IP": Type("opaque", "net.IP"), "CIDR": Type("opaque", "net.CIDR"),
    "Quantity": types.struct("kubernetes.Quantity"), "Semver": types.struct("kubernetes.Semver"),
    "URL": types.struct("kubernetes.URL"), "NamedFormat": types.struct("kubernetes.NamedFormat"),
}  # fmt: skip
QUANTITY, SEMVER = _SHORT_NAMES["Quantity"], _SHORT_NAMES["Semver"]
IP, CIDR = _SHORT_NAMES["IP"], _SHORT_NAMES["CIDR"]
URL, NAMED_FORMAT = _SHORT_NAMES["URL"], _SHORT_NAMES["NamedFormat"]


def _named(name: str) -> Type:
    return _SHORT_NAMES.get(name) or types.struct(f"kubernetes.authorization.{name}")


def declared(signatures: Iterable[str]) -> Functions:
    """The functions of signatures, one a line."""
    functions: dict[str, Function] = {}
    for line in signatures:
        match = _SIGNATURE.fullmatch(line)
        if match is None:
            message = f"not a signature: {line!r}"
            raise ValueError(message)
        name, overload, target, args, result = match.groups()
        kinds = [*([target] if target else ()), *types.split(args)]
        arguments = tuple(types.read(kind, _named) for kind in kinds)
        described = Overload(overload, arguments, types.read(result, _named), target is not None)
        functions.setdefault(name, Function(name)).overloads.append(described)
    return MappingProxyType(functions)
