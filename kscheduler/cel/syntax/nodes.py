"""The syntax tree: every node has the number that CEL's own parser gives it, as some error texts show it."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

# What the parser makes: the grammar's own tree, nodes without a choice left out.


class Token(msgspec.Struct, frozen=True):
    """A word of the expression and where it stands."""

    text: str
    offset: int


@dataclass(slots=True)
class Tree:
    """A rule of the grammar that made a choice. What its parts are depends on the rule."""

    rule: str
    start: int
    op: Token | None = None
    parts: list[Any] = field(default_factory=list)
    words: list[Token] = field(default_factory=list)
    optional: bool = False


class SyntaxNode:
    """A part of an expression."""

    __slots__ = ("id",)

    def __init__(self, number: int) -> None:
        self.id = number


class Unspecified(SyntaxNode):
    """The place of something that could not be read; an error tells about it."""

    __slots__ = ()


class Literal(SyntaxNode):
    """A value that stands in the text."""

    __slots__ = ("value",)

    def __init__(self, number: int, value: Any) -> None:
        super().__init__(number)
        self.value = value


class Ident(SyntaxNode):
    """A name."""

    __slots__ = ("name",)

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number)
        self.name = name


class Select(SyntaxNode):
    """A field of a value, or with `test_only` whether it is there."""

    __slots__ = ("field", "operand", "test_only")

    def __init__(self, number: int, operand: SyntaxNode, field: str, *, test_only: bool = False) -> None:
        super().__init__(number)
        self.operand = operand
        self.field = field
        self.test_only = test_only


class Call(SyntaxNode):
    """A function or operator, of a target or of none."""

    __slots__ = ("args", "function", "target")

    def __init__(self, number: int, function: str, target: SyntaxNode | None, args: list[SyntaxNode]) -> None:
        super().__init__(number)
        self.function = function
        self.target = target
        self.args = args


class ListNode(SyntaxNode):
    """A list that is written out; `optionals` are the positions of `?` elements."""

    __slots__ = ("elements", "optionals")

    def __init__(self, number: int, elements: list[SyntaxNode], optionals: tuple[int, ...] = ()) -> None:
        super().__init__(number)
        self.elements = elements
        self.optionals = optionals


class Entry:
    """A key and value of a map, or a field (a string) and value of a message."""

    __slots__ = ("id", "key", "optional", "value")

    def __init__(self, number: int, key: Any, value: SyntaxNode, *, optional: bool) -> None:
        self.id = number
        self.key = key
        self.value = value
        self.optional = optional


class MapNode(SyntaxNode):
    """A map that is written out."""

    __slots__ = ("entries",)

    def __init__(self, number: int, entries: list[Entry]) -> None:
        super().__init__(number)
        self.entries = entries


class StructNode(SyntaxNode):
    """A message that is written out."""

    __slots__ = ("fields", "name")

    def __init__(self, number: int, name: str, fields: list[Entry]) -> None:
        super().__init__(number)
        self.name = name
        self.fields = fields


class Fold(SyntaxNode):
    """A comprehension: what all macros over lists and maps become."""

    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(
        self,
        number: int,
        over: SyntaxNode,
        names: tuple[str, str, str],
        init: SyntaxNode,
        condition: SyntaxNode,
        step: SyntaxNode,
        result: SyntaxNode,
    ) -> None:
        super().__init__(number)
        self.range = over
        self.var, self.var2, self.accu = names
        self.init = init
        self.condition = condition
        self.step = step
        self.result = result


def children(node: SyntaxNode) -> list[SyntaxNode]:
    """The parts of a node, in the order in which they stand."""
    match node:
        case Select(operand=operand):
            return [operand]
        case Call(target=target, args=args):
            return [*([target] if target is not None else ()), *args]
        case ListNode(elements=elements):
            return elements
        case MapNode(entries=entries):
            return [part for entry in entries for part in (entry.key, entry.value)]
        case StructNode(fields=fields):
            return [entry.value for entry in fields]
        case Fold():
            return [node.range, node.init, node.condition, node.step, node.result]
    return []
