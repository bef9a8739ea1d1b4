"""What is refused though its types fit: literals of mixed types, and texts that are no duration, time, pattern or
format.
"""

from typing import Any

from kscheduler.cel import types
from kscheduler.cel.checking.assignment import Comparisons
from kscheduler.cel.checking.checker import Checked
from kscheduler.cel.functions.regexes import RegexError, compiled
from kscheduler.cel.functions.string_format import Clause, FormatError, formatted, unfit
from kscheduler.cel.source import Issues
from kscheduler.cel.syntax.maker import Numbering
from kscheduler.cel.syntax.nodes import Call, ListNode, Literal, MapNode, SyntaxNode, children
from kscheduler.cel.types import Type
from kscheduler.cel.values.converting import convert
from kscheduler.cel.values.kinds import ErrorValue

_ALLOWED = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
    "s": (
        "list", "map", "int", "uint", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null",
    ),
}  # fmt: skip


def validate(node: SyntaxNode, checked: Checked, numbering: Numbering, issues: Issues) -> None:
    """Add what is wrong to the issues."""
    validator = _Validator(checked, numbering, issues)
    nodes = _all_nodes(node)
    for part, in_format in nodes:
        if isinstance(part, ListNode) and not in_format:
            validator.list(part)
    for part, in_format in nodes:
        if isinstance(part, MapNode) and not in_format:
            validator.map(part)
    calls = [part for part, _ in nodes if isinstance(part, Call)]
    for name in ("duration", "timestamp", "matches"):
        for call in calls:
            if call.function == name:
                validator.literal(call)
    for call in calls:
        validator.format(call)


def _all_nodes(node: SyntaxNode) -> list[tuple[SyntaxNode, bool]]:
    """All nodes in order, and whether they are within a call of `format`, where literals may be mixed."""
    found: list[tuple[SyntaxNode, bool]] = []
    waiting = [(node, False)]
    while waiting:
        part, in_format = waiting.pop()
        found.append((part, in_format))
        inside = in_format or (isinstance(part, Call) and part.function == "format")
        waiting += [(child, inside) for child in reversed(children(part))]
    return found


class _Validator:
    def __init__(self, checked: Checked, numbering: Numbering, issues: Issues) -> None:
        self._types = checked.types
        self._references = checked.references
        self._numbering, self._issues = numbering, issues
        self._comparisons = Comparisons()

    def _report(self, number: int, message: str) -> None:
        self._issues.add(self._numbering.location(number), message)

    def _mismatch(self, number: int, expected: Type, found: Type) -> None:
        self._report(number, f"expected type '{expected.shown()}' but found '{found.shown()}'")

    def list(self, node: ListNode) -> None:
        first: Type | None = None
        for at, element in enumerate(node.elements):
            described = self._types[element.id]
            if at in node.optionals:
                described = described.params[0] if described.params else types.DYN
            if first is None:
                first = described
            elif not self._comparisons.same(first, described):
                self._mismatch(element.id, first, described)
                return

    def map(self, node: MapNode) -> None:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            key, value = self._types[entry.key.id], self._types[entry.value.id]
            if entry.optional:
                value = value.params[0] if value.params else types.DYN
            if keys is None or values is None:
                keys, values = key, value
                continue
            if not self._comparisons.same(keys, key):
                self._mismatch(entry.key.id, keys, key)
            if not self._comparisons.same(values, value):
                self._mismatch(entry.value.id, values, value)

    def literal(self, call: Call) -> None:
        literal = call.args[0] if call.args else None
        if not isinstance(literal, Literal):
            return
        if call.function == "matches":
            valid = _is_pattern(literal.value)
        else:
            wanted = types.DURATION if call.function == "duration" else types.TIMESTAMP
            valid = type(convert(literal.value, wanted)) is not ErrorValue
        if not valid:
            self._report(literal.id, f"invalid {call.function} argument")

    def format(self, call: Call) -> None:
        target, overloads = call.target, self._references[call.id].overloads if call.id in self._references else ()
        if call.function != "format" or not isinstance(target, Literal) or type(target.value) is not str:
            return
        if (overloads and "string_format" not in overloads) or len(call.args) != 1:
            return
        listed = call.args[0]
        if not isinstance(listed, ListNode):
            return
        requested = 0

        def argument(index: int) -> Any:
            nonlocal requested
            requested += 1
            return listed.elements[index] if index < len(listed.elements) else None

        try:
            formatted(target.value, argument, len(listed.elements), self._clause)
        except FormatError as error:
            self._report(call.id if error.number is None else error.number, str(error))
            return
        if len(listed.elements) > requested:
            wrong = f"expected {requested}, got {len(listed.elements)}"
            self._report(call.id, f"too many arguments supplied to string.format ({wrong})")

    def _clause(self, clause: Clause, node: SyntaxNode) -> str:
        bad = self._misfit(node, clause.letter)
        if bad is not None:
            raise unfit(clause.letter, self._types[bad.id].name, bad.id)
        return ""

    def _misfit(self, node: SyntaxNode, letter: str) -> SyntaxNode | None:
        """The node that a clause does not take; for `%s` that may be an element of a list or map."""
        described = self._types[node.id]
        if described is not types.DYN and described.kind not in _ALLOWED[letter]:
            return node
        if letter == "s" and isinstance(node, (ListNode, MapNode)):
            for child in children(node):
                bad = self._misfit(child, letter)
                if bad is not None:
                    return bad
        return None


def _is_pattern(text: Any) -> bool:
    try:
        compiled(str(text))
    except RegexError:
        return False
    return True
