"""What names mean: variables of the expression and of the environment, types, enumerated values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kscheduler.cel.checking.messages import ENUMS, MESSAGES, SCALARS, TYPE_NAMES, message_type
from kscheduler.cel.types import DYN, INT, Type, list_of, map_of, param, type_of

_OLD_TYPES = {"list": list_of(param("A")), "map": map_of(param("A"), param("B"))}
"""As cel-go 0.26 declares these names: with parameters, which some error texts show."""


@dataclass(frozen=True, slots=True)
class Meaning:
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
