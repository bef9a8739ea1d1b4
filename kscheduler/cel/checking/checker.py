"""Finds the type of every part of an expression, the overloads that each call may be, and what does not fit."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kscheduler.cel import types
from kscheduler.cel.checking.assignment import Assignment, Comparisons, instance
from kscheduler.cel.checking.declarations import Function, Functions, Names, Overload
from kscheduler.cel.checking.suggestions import KnownNames, suggestion
from kscheduler.cel.source import Issues
from kscheduler.cel.steps import spend
from kscheduler.cel.syntax.maker import Numbering
from kscheduler.cel.syntax.nodes import (
    Call,
    Entry,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    StructNode,
    SyntaxNode,
)
from kscheduler.cel.types import Type, unwrap_optional
from kscheduler.cel.values.kinds import Uint


class Reference(msgspec.Struct, frozen=True):
    """What a name or call is: the name of a variable or type, or a constant, or the overloads of a function."""

    name: str = ""
    value: Any = None
    is_global: bool = False
    overloads: tuple[str, ...] = ()


@dataclass(slots=True)
class Checked:
    """Types and references by the numbers of nodes."""

    types: dict[int, Type] = field(default_factory=dict)
    references: dict[int, Reference] = field(default_factory=dict)


_LITERALS = {
    bool: types.BOOL, bytes: types.BYTES, float: types.DOUBLE, int: types.INT, type(None): types.NULL,
    str: types.STRING, Uint: types.UINT,
}  # fmt: skip


class Checker:
    """Checks one expression; errors go to the issues of the numbering.

    `known`: what is suggested for names that are not declared; without it, errors name the (empty) container.
    """

    def __init__(
        self, names: Names, functions: Functions, numbering: Numbering, issues: Issues, known: KnownNames | None
    ) -> None:
        self._names, self._functions, self._known = names, functions, known
        self._numbering, self._issues = numbering, issues
        self._comparisons = Comparisons()
        self._assignment = Assignment(self._comparisons)
        self._parameters = 0
        self._checked = Checked()

    def run(self, node: SyntaxNode) -> Checked:
        """The types of all parts; parameters that nothing decides are dyn."""
        self._check(node)
        for number, described in self._checked.types.items():
            self._checked.types[number] = self._assignment.substituted(described, to_dyn=True)
        return self._checked

    def _report(self, number: int, message: str) -> None:
        self._issues.add(self._numbering.location(number), message)

    def _type(self, node: SyntaxNode) -> Type:
        return self._checked.types[node.id]

    def _set(self, node: SyntaxNode, described: Type) -> None:
        self._checked.types[node.id] = described

    def _assignable(self, one: Type, other: Type) -> bool:
        return self._assignment.fits(one, other)

    def _substituted(self, described: Type) -> Type:
        return self._assignment.substituted(described)

    def _parameter(self) -> Type:
        self._parameters += 1
        return types.param(f"_var{self._parameters - 1}")

    def _mismatch(self, number: int, expected: Type, found: Type) -> None:
        self._report(number, f"expected type '{expected.shown()}' but found '{found.shown()}'")

    def _undeclared(self, node: SyntaxNode, name: str) -> None:
        self._set(node, types.ERROR)
        ending = self._suggestion(name) if self._known else " (in container '')"
        self._report(node.id, f"undeclared reference to '{name}'{ending}")

    def _suggestion(self, name: str) -> str:
        return suggestion(name, self._known.like(name)) if self._known else ""

    def _misspelled(self, node: SyntaxNode, qualifiers: list[str], name: str) -> bool:
        """Whether a name with points is not declared, nor is what it begins with, and something like it is known."""
        if self._known is None:
            return False
        for length in range(1, len(qualifiers) + 1):
            start = qualifiers[:length]
            if (self._names.qualified(start) if length > 1 else self._names.simple(start[0])) is not None:
                return False
        if not self._known.like(name):
            return False
        self._undeclared(node, name)
        return True

    def _check(self, node: SyntaxNode) -> None:
        match node:
            case Literal(value=value):
                self._set(node, _LITERALS[type(value)])
            case Ident():
                self._ident(node)
            case Select():
                self._select(node)
            case Call():
                self._call(node)
            case ListNode():
                self._list(node)
            case MapNode():
                self._map(node)
            case StructNode():
                self._struct(node)
            case Fold():
                self._fold(node)
            case _:
                self._report(node.id, "unexpected unspecified type: ")
                self._set(node, types.ERROR)

    def _ident(self, node: Ident) -> None:
        meaning = self._names.simple(node.name)
        if meaning is None:
            self._undeclared(node, node.name)
            return
        self._set(node, meaning.type)
        self._checked.references[node.id] = Reference(meaning.name, meaning.value, meaning.is_global)

    def _select(self, node: Select) -> None:
        parts = _qualifiers(node)
        spend(len(parts))
        meaning = self._names.qualified(parts) if parts else None
        if meaning is not None:
            self._set(node, meaning.type)
            self._checked.references[node.id] = Reference(meaning.name, meaning.value, meaning.is_global)
            return
        if len(parts) > 1 and self._misspelled(node, parts[:-1], ".".join(parts)):
            return
        result = self._field(node, node.operand, node.field, optional=False)
        self._set(node, self._substituted(types.BOOL if node.test_only else result))

    def _field(self, node: SyntaxNode, operand: SyntaxNode, name: str, *, optional: bool) -> Type:
        self._check(operand)
        target, is_optional = unwrap_optional(self._substituted(self._type(operand)))
        result = types.ERROR
        if target.kind == "map":
            result = target.params[1]
        elif target.kind == "struct":
            result = self._field_type(node.id, target.name, name) or types.ERROR
        elif target.kind == "param":
            self._assignable(types.DYN, target)
            result = types.DYN
        else:
            if not target.is_dyn and target.kind != "error":
                self._report(node.id, f"type '{target.shown()}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if is_optional or optional else result

    def _field_type(self, number: int, struct: str, name: str) -> Type | None:
        if self._names.struct_type(struct) is None:
            self._report(number, f"unexpected failed resolution of '{struct}'")
            return None
        found = self._names.field(struct, name)
        if found is None:
            self._report(number, f"undefined field '{name}'")
        return found

    def _call(self, node: Call) -> None:
        if node.function == "_?._":
            field_name = node.args[1]
            name = field_name.value if isinstance(field_name, Literal) else ""
            result = self._field(node, node.args[0], name, optional=True)
            self._set(node, self._substituted(result))
            self._checked.references[node.id] = Reference(overloads=("select_optional_field",))
            return
        for arg in node.args:
            self._check(arg)
        if node.target is None:
            name = node.function.removeprefix(".")
            function = self._functions.get(name)
            if function is None:
                self._undeclared(node, node.function)
                return
            node.function = name
            self._resolve_or_error(node, function, None)
            return
        self._member_call(node, node.target)

    def _member_call(self, node: Call, target: SyntaxNode) -> None:
        prefix = _qualified_name(target)
        if prefix is not None:
            name = f"{prefix}.{node.function}".removeprefix(".")
            function = self._functions.get(name)
            if function is not None:
                node.function, node.target = name, None
                self._resolve_or_error(node, function, None)
                return
            if self._misspelled(node, prefix.split("."), f"{prefix}.{node.function}"):
                return
        self._check(target)
        function = self._functions.get(node.function)
        if function is None:
            self._undeclared(node, node.function)
            return
        self._resolve_or_error(node, function, target)

    def _resolve_or_error(self, node: Call, function: Function, target: SyntaxNode | None) -> None:
        result, overloads = self._resolve(node, function, target)
        if result is None:
            self._set(node, types.ERROR)
            return
        self._set(node, result)
        self._checked.references[node.id] = Reference(overloads=overloads)

    def _resolve(
        self, node: Call, function: Function, target: SyntaxNode | None
    ) -> tuple[Type | None, tuple[str, ...]]:
        args = [self._type(arg) for arg in ([target, *node.args] if target else node.args)]
        if function.name in ("_&&_", "_||_"):
            return self._logic(node, args, function.overloads[0])
        result: Type | None = None
        names: list[str] = []
        for overload in function.overloads:
            if overload.member != (target is not None):
                continue
            wanted, given = self._instance(overload)
            if not self._assignment.all_fit(args, wanted):
                continue
            names.append(overload.name)
            found = self._substituted(given)
            if result is None:
                result = found
            elif not result.is_dyn and not self._comparisons.same(found, result):
                result = types.DYN
        if result is None:
            shown = [self._assignment.substituted(arg, to_dyn=True).shown() for arg in args]
            signature = f"{shown[0]}.({', '.join(shown[1:])})" if target else f"({', '.join(shown)})"
            self._report(node.id, f"found no matching overload for '{function.name}' applied to '{signature}'")
        return result, tuple(names)

    def _logic(self, node: Call, args: list[Type], overload: Overload) -> tuple[Type | None, tuple[str, ...]]:
        fits = True
        for arg, described in zip(node.args, args, strict=True):
            if not self._assignable(described, types.BOOL):
                self._mismatch(arg.id, types.BOOL, described)
                fits = False
        return (types.BOOL if fits else None), (overload.name,)

    def _instance(self, overload: Overload) -> tuple[list[Type], Type]:
        """The parameters and the result of an overload, its type parameters new ones."""
        if not overload.params:
            return [*overload.args], overload.result
        new = {name: self._parameter() for name in overload.params}
        return [instance(arg, new) for arg in overload.args], instance(overload.result, new)

    def _join(self, previous: Type | None, current: Type) -> Type:
        """The type of both; dyn if they have none in common (that literals are of one type is a later check)."""
        if previous is None:
            return current
        if not self._assignable(previous, current):
            return types.DYN
        return self._assignment.most_general(previous, current)

    def _optional_value(self, node: SyntaxNode, described: Type) -> Type:
        unwrapped, is_optional = unwrap_optional(described)
        if not is_optional and not unwrapped.is_dyn:
            self._mismatch(node.id, types.optional_of(unwrapped), unwrapped)
        return unwrapped

    def _list(self, node: ListNode) -> None:
        joined: Type | None = None
        for at, element in enumerate(node.elements):
            self._check(element)
            described = self._type(element)
            if at in node.optionals:
                described = self._optional_value(element, described)
            joined = self._join(joined, described)
        self._set(node, types.list_of(joined or self._parameter()))

    def _map(self, node: MapNode) -> None:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            self._check(entry.key)
            keys = self._join(keys, self._type(entry.key))
            self._check(entry.value)
            described = self._type(entry.value)
            if entry.optional:
                described = self._optional_value(entry.value, described)
            values = self._join(values, described)
        if keys is None or values is None:
            keys, values = self._parameter(), self._parameter()
        self._set(node, types.map_of(keys, values))

    def _struct(self, node: StructNode) -> None:
        meaning = self._names.message(node.name)
        if meaning is None:
            self._undeclared(node, node.name)
            return
        node.name = meaning.name
        self._checked.references[node.id] = Reference(meaning.name)
        name, result = meaning.name, types.ERROR
        if meaning.type.kind != "type":
            found = meaning.type.declared_name
            self._report(node.id, f"'{found}' is not a type{self._suggestion(found)}")
        else:
            described = meaning.type.params[0]
            known = _well_known_name(described)
            if known is not None or described.kind == "struct":
                name, result = known or described.name, described
            else:
                self._report(node.id, f"'{described.declared_name}' is not a message type")
        self._set(node, result)
        for entry in node.fields:
            self._struct_field(entry, name)

    def _struct_field(self, entry: Entry, struct: str) -> None:
        self._check(entry.value)
        wanted = self._field_type(entry.id, struct, entry.key) or types.ERROR
        described = self._type(entry.value)
        if entry.optional:
            described = self._optional_value(entry.value, described)
        if not self._assignable(wanted, described):
            texts = f"is '{wanted.shown()}' but provided type is '{described.shown()}'"
            self._report(entry.id, f"expected type of field '{entry.key}' {texts}")

    def _fold(self, node: Fold) -> None:
        self._check(node.range)
        self._check(node.init)
        over = self._substituted(self._type(node.range))
        accumulated = self._type(node.init)
        self._names.enter({node.accu: accumulated})
        first, second = self._elements(node, over)
        self._names.enter({node.var: first, **({node.var2: second} if node.var2 else {})})
        self._check(node.condition)
        self._assert(node.condition, types.BOOL)
        self._check(node.step)
        self._assert(node.step, accumulated)
        self._names.leave()
        self._check(node.result)
        self._names.leave()
        self._set(node, self._substituted(self._type(node.result)))

    def _elements(self, node: Fold, over: Type) -> tuple[Type, Type]:
        """The types of the variables of a comprehension."""
        if over.kind == "list":
            return (types.INT, over.params[0]) if node.var2 else (over.params[0], types.DYN)
        if over.kind == "map":
            return over.params[0], over.params[1]
        if over.kind in ("dyn", "error", "param"):
            self._assignable(types.DYN, over)
            return types.DYN, types.DYN
        wanted = "cannot be range of a comprehension (must be list, map, or dynamic)"
        self._report(node.range.id, f"expression of type '{over.shown()}' {wanted}")
        return types.ERROR, types.ERROR

    def _assert(self, node: SyntaxNode, wanted: Type) -> None:
        if not self._assignable(wanted, self._type(node)):
            self._mismatch(node.id, wanted, self._type(node))


_WELL_KNOWN_NAMES = {
    "any": "google.protobuf.Any",
    "duration": "google.protobuf.Duration",
    "dyn": "google.protobuf.Value",
    "null": "google.protobuf.NullValue",
    "timestamp": "google.protobuf.Timestamp",
}
_WRAPPERS = {
    "bool": "google.protobuf.BoolValue",
    "bytes": "google.protobuf.BytesValue",
    "double": "google.protobuf.DoubleValue",
    "int": "google.protobuf.Int64Value",
    "string": "google.protobuf.StringValue",
    "uint": "google.protobuf.UInt64Value",
}


def _well_known_name(described: Type) -> str | None:
    """The message that a type of CEL itself is, None if it is none."""
    if described.kind in _WELL_KNOWN_NAMES:
        return _WELL_KNOWN_NAMES[described.kind]
    if described.nullable:
        return _WRAPPERS[described.kind]
    if described.kind == "list" and described.params[0] is types.DYN:
        return "google.protobuf.ListValue"
    if described.kind == "map" and described.params == (types.STRING, types.DYN):
        return "google.protobuf.Struct"
    return None


def _qualifiers(node: Select) -> list[str]:
    """The parts of `a.b.c`, or none if it is something else."""
    parts: list[str] = []
    at: SyntaxNode = node
    while isinstance(at, Select) and not at.test_only:
        parts.append(at.field)
        at = at.operand
    if not isinstance(at, Ident):
        return []
    return [at.name, *reversed(parts)]


def _qualified_name(node: SyntaxNode) -> str | None:
    if isinstance(node, Ident):
        return node.name
    return ".".join(_qualifiers(node)) or None if isinstance(node, Select) else None
