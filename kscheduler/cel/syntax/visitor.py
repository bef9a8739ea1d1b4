"""From the grammar's tree to the syntax tree: numbers the nodes, expands macros, and tells what the grammar cannot.

The order in which nodes are made is that of CEL's parser, since their numbers are seen in a few error texts.
"""

from kscheduler.cel.source import Issues, SourceText
from kscheduler.cel.syntax.literals import LiteralError, double, integer, unquote
from kscheduler.cel.syntax.macros import MACROS
from kscheduler.cel.syntax.maker import MacroError, Maker, Numbering
from kscheduler.cel.syntax.nodes import (
    Call,
    Entry,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Select,
    StructNode,
    SyntaxNode,
    Token,
    Tree,
    Unspecified,
)
from kscheduler.cel.syntax.parser import DEEPEST, TooDeepError
from kscheduler.cel.values.kinds import Uint

_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_OPERATORS = {
    "<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in",
    "*": "_*_", "/": "_/_", "%": "_%_", "+": "_+_", "-": "_-_",
}  # fmt: skip
# Rules that count towards the depth of the tree.
_COUNTED = frozenset(("expr", "relation", "calc", "select", "member_call", "index"))

_NUMBERS = {"int": "invalid int literal", "uint": "invalid uint literal", "double": "invalid double literal"}


class Visitor:
    """Visits one tree; errors go to the issues of the numbering."""

    def __init__(self, source: SourceText, issues: Issues, *, quoted_fields: bool) -> None:
        self.numbering = Numbering(source, issues)
        self._issues, self._quoted_fields = issues, quoted_fields
        self._depth = 0

    def visit(self, tree: Tree) -> SyntaxNode:
        """The node of a tree; raises `TooDeepError`."""
        counted = tree.rule in _COUNTED
        if counted:
            self._depth += 1
            if self._depth > DEEPEST:
                raise TooDeepError
        node = self._visited(tree)
        if counted:
            self._depth -= 1
        return node

    def _visited(self, tree: Tree) -> SyntaxNode:
        match tree.rule:
            case "expr":
                return self._ternary(tree)
            case "||" | "&&":
                return self._logic(tree)
            case "relation" | "calc":
                return self._binary(tree)
            case "not" | "negate":
                return self._unary(tree)
            case "select":
                return self._select(tree)
            case "member_call":
                return self._member_call(tree)
            case "index":
                return self._index(tree)
            case "ident" | "call":
                return self._named(tree)
            case "list":
                return self._list(tree)
            case "map":
                number = self._take(tree.op)
                return MapNode(number, self._entries(tree.parts))
            case "message":
                return self._message(tree)
        return self._literal(tree)

    def _take(self, token: Token | None) -> int:
        return -1 if token is None else self.numbering.take(token.offset)

    def report(self, location: tuple[int, int] | int, message: str) -> SyntaxNode:
        """Report an error at an offset (an int) or a location."""
        if isinstance(location, int):
            number = self.numbering.take(location)
            self._issues.add(self.numbering.location(number), message)
            return Unspecified(number)
        number = self.numbering.take(self.numbering.source.offset(*location))
        self._issues.add(location, message)
        return Unspecified(number)

    def _call_or_macro(
        self, number: int, function: str, target: SyntaxNode | None, args: list[SyntaxNode]
    ) -> SyntaxNode:
        macro = MACROS.get((function, len(args), target is not None))
        if macro is None:
            return Call(number, function, target, args)
        try:
            expanded = macro(Maker(self.numbering, number), target, args)
        except MacroError as error:
            location = self.numbering.location(error.number)
            self.numbering.give_back(number)
            return self.report(location, str(error))
        if expanded is None:
            return Call(number, function, target, args)
        self.numbering.give_back(number)
        return expanded

    def _ternary(self, tree: Tree) -> SyntaxNode:
        condition = self.visit(tree.parts[0])
        number = self._take(tree.op)
        yes = self.visit(tree.parts[1])
        return self._call_or_macro(number, "_?_:_", None, [condition, yes, self.visit(tree.parts[2])])

    def _logic(self, tree: Tree) -> SyntaxNode:
        terms = [self.visit(tree.parts[0])]
        ops: list[int] = []
        for at, op in enumerate(tree.words):
            terms.append(self.visit(tree.parts[at + 1]))
            ops.append(self._take(op))
        return self._balanced(f"_{tree.rule}_", terms, ops)

    def _balanced(self, function: str, terms: list[SyntaxNode], ops: list[int]) -> SyntaxNode:
        """A chain of one operator as a balanced tree."""
        if not ops:
            return terms[0]
        middle = len(ops) // 2
        left = self._balanced(function, terms[: middle + 1], ops[:middle])
        right = self._balanced(function, terms[middle + 1 :], ops[middle + 1 :])
        return Call(ops[middle], function, None, [left, right])

    def _binary(self, tree: Tree) -> SyntaxNode:
        left = self.visit(tree.parts[0])
        number = self._take(tree.op)
        operator = _OPERATORS[tree.op.text if tree.op else ""]
        return self._call_or_macro(number, operator, None, [left, self.visit(tree.parts[1])])

    def _unary(self, tree: Tree) -> SyntaxNode:
        if len(tree.words) % 2 == 0:
            return self.visit(tree.parts[0])
        number = self._take(tree.words[0])
        function = "!_" if tree.rule == "not" else "-_"
        return self._call_or_macro(number, function, None, [self.visit(tree.parts[0])])

    def _field_name(self, word: Token) -> tuple[str, str]:
        """The name of a field, and what is wrong with it."""
        if word.text.startswith("`"):
            if not self._quoted_fields:
                return "", "unsupported syntax: '`'"
            return word.text[1:-1], ""
        return word.text, ""

    def _select(self, tree: Tree) -> SyntaxNode:
        operand = self.visit(tree.parts[0])
        word = tree.words[0]
        name, wrong = self._field_name(word)
        if wrong:
            self.report(word.offset, wrong)
        if tree.optional:
            literal = Literal(self.numbering.take(word.offset), name)
            return Call(self._take(tree.op), "_?._", None, [operand, literal])
        return Select(self._take(tree.op), operand, name)

    def _member_call(self, tree: Tree) -> SyntaxNode:
        operand = self.visit(tree.parts[0])
        name = tree.words[0]
        number = self._take(tree.op)
        args = [self.visit(arg) for arg in tree.parts[1]]
        return self._call_or_macro(number, name.text, operand, args)

    def _index(self, tree: Tree) -> SyntaxNode:
        target = self.visit(tree.parts[0])
        number = self._take(tree.op)
        function = "_[?_]" if tree.optional else "_[_]"
        return self._call_or_macro(number, function, None, [target, self.visit(tree.parts[1])])

    def _named(self, tree: Tree) -> SyntaxNode:
        word = tree.words[0]
        if word.text in _RESERVED:
            return self.report(tree.start, f"reserved identifier: {word.text}")
        name = f".{word.text}" if tree.optional else word.text
        if tree.rule == "ident":
            return Ident(self._take(word), name)
        number = self._take(tree.op)
        return self._call_or_macro(number, name, None, [self.visit(arg) for arg in tree.parts[0]])

    def _list(self, tree: Tree) -> SyntaxNode:
        number = self._take(tree.op)
        elements: list[SyntaxNode] = []
        optionals: list[int] = []
        for at, (optional, element) in enumerate(tree.parts):
            elements.append(self.visit(element))
            if optional:
                optionals.append(at)
        return ListNode(number, elements, tuple(optionals))

    def _entries(self, parts: list[tuple[Token, bool, Tree, Tree]]) -> list[Entry]:
        entries: list[Entry] = []
        for colon, optional, key, value in parts:
            number = self._take(colon)
            key_node = self.visit(key)
            entries.append(Entry(number, key_node, self.visit(value), optional=optional))
        return entries

    def _message(self, tree: Tree) -> SyntaxNode:
        name = ".".join(word.text for word in tree.words)
        number = self._take(tree.op)
        fields: list[Entry] = []
        for colon, optional, word, value in tree.parts:
            field_number = self._take(colon)
            field, wrong = self._field_name(word)
            if wrong:
                self.report(tree.start, wrong)
                continue
            fields.append(Entry(field_number, field, self.visit(value), optional=optional))
        return StructNode(number, f".{name}" if tree.optional else name, fields)

    def _literal(self, tree: Tree) -> SyntaxNode:
        text = tree.words[0].text
        try:
            match tree.rule:
                case "true" | "false":
                    value: object = tree.rule == "true"
                case "null":
                    value = None
                case "int":
                    value = integer((tree.op.text if tree.op else "") + text, signed=True)
                case "uint":
                    value = Uint(integer(text[:-1], signed=False))
                case "double":
                    value = double((tree.op.text if tree.op else "") + text)
                case "bytes":
                    return self._quoted(tree, text[1:], as_bytes=True)
                case _:
                    return self._quoted(tree, text, as_bytes=False)
        except LiteralError:
            return self.report(tree.start, _NUMBERS[tree.rule])
        return Literal(self.numbering.take(tree.start), value)

    def _quoted(self, tree: Tree, text: str, *, as_bytes: bool) -> SyntaxNode:
        try:
            value = unquote(text, as_bytes=as_bytes)
        except LiteralError as error:
            self.report(tree.start, str(error))
            value = text.encode() if as_bytes else text
        return Literal(self.numbering.take(tree.start), value)
