"""The functions that expressions may call, read once from their signatures."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from kscheduler.cel import types
from kscheduler.cel.types import Type

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
