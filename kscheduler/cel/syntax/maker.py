"""Makes nodes and numbers them as CEL's parser does: each in the order of its making, with a place in the text."""

from typing import Any

from kscheduler.cel.source import NO_LOCATION, Issues, SourceText
from kscheduler.cel.steps import STEPS_PER_NODE, spend
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
    Unspecified,
)


class MacroError(ValueError):
    """A macro was called with arguments that it cannot take; the error belongs to the node `number`."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.number = number


class Numbering:
    """Numbers of nodes and where they stand."""

    def __init__(self, source: SourceText, issues: Issues) -> None:
        self.source, self.issues = source, issues
        self.offsets: dict[int, int] = {}
        self._next = 1

    def take(self, offset: int) -> int:
        """A new number for what stands at `offset`. Raises `TooManyStepsError`."""
        spend(STEPS_PER_NODE)
        number = self._next
        self.offsets[number] = offset
        self._next += 1
        return number

    def give_back(self, number: int) -> None:
        """Forget where a node stood; the last number is used again."""
        self.offsets.pop(number, None)
        if number == self._next - 1:
            self._next -= 1

    def location(self, number: int) -> tuple[int, int]:
        """Line and column of a node."""
        return self.source.location(self.offsets[number]) if number in self.offsets else NO_LOCATION


class Maker:
    """Makes the nodes of one macro call, all of them at the place of the call."""

    ACCUMULATOR = "@result"

    def __init__(self, numbering: Numbering, call: int) -> None:
        self._numbering, self._call = numbering, call

    def _number(self) -> int:
        line, column = self._numbering.location(self._call)
        return self._numbering.take(self._numbering.source.offset(line, column))

    def literal(self, value: Any) -> Literal:
        """A value that the text spells out."""
        return Literal(self._number(), value)

    def ident(self, name: str) -> Ident:
        return Ident(self._number(), name)

    def accumulator(self) -> Ident:
        """The variable that a comprehension builds."""
        return self.ident(self.ACCUMULATOR)

    def list(self, *elements: SyntaxNode) -> ListNode:
        """A list of these elements."""
        return ListNode(self._number(), [*elements])

    def map(self) -> MapNode:
        """An empty map."""
        return MapNode(self._number(), [])

    def call(self, function: str, *args: SyntaxNode) -> Call:
        """A call of a function."""
        return Call(self._number(), function, None, [*args])

    def member_call(self, function: str, target: SyntaxNode, *args: SyntaxNode) -> Call:
        """A call on a target."""
        return Call(self._number(), function, target, [*args])

    def presence(self, operand: SyntaxNode, field: str) -> Select:
        """Whether a field is there."""
        return Select(self._number(), operand, field, test_only=True)

    def fold(
        self,
        over: SyntaxNode,
        names: tuple[str, str, str],
        init: SyntaxNode,
        condition: SyntaxNode,
        step: SyntaxNode,
        result: SyntaxNode,
    ) -> Fold:
        """`names`: of the element or key, of the value (empty: none) and of the accumulator."""
        return Fold(self._number(), over, names, init, condition, step, result)

    def copy(self, node: SyntaxNode) -> SyntaxNode:
        """The same with new numbers, at the same places."""
        number = self._numbering.take(self._numbering.offsets.get(node.id, 0))
        match node:
            case Literal(value=value):
                return Literal(number, value)
            case Ident(name=name):
                return Ident(number, name)
            case Select():
                return Select(number, self.copy(node.operand), node.field, test_only=node.test_only)
            case Call():
                args = [self.copy(arg) for arg in node.args]
                return Call(number, node.function, self.copy(node.target) if node.target else None, args)
            case ListNode():
                return ListNode(number, [self.copy(element) for element in node.elements], node.optionals)
            case MapNode(entries=entries):
                return MapNode(number, [self._copied_entry(entry) for entry in entries])
            case StructNode():
                return StructNode(number, node.name, [self._copied_entry(entry) for entry in node.fields])
            case Fold():
                parts = [self.copy(part) for part in (node.range, node.init, node.condition, node.step, node.result)]
                over, init, condition, step, result = parts
                return Fold(number, over, (node.var, node.var2, node.accu), init, condition, step, result)
        return Unspecified(number)

    def _copied_entry(self, entry: Entry) -> Entry:
        number = self._number()
        key = self.copy(entry.key) if isinstance(entry.key, SyntaxNode) else entry.key
        return Entry(number, key, self.copy(entry.value), optional=entry.optional)
