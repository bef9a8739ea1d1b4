"""From ANTLR's tree to the grammar's tree as the visitor knows it; what is missing stays missing."""

from typing import Any

from kscheduler.cel.source import SourceText
from kscheduler.cel.syntax.antlr import rules
from kscheduler.cel.syntax.antlr.contexts import Context
from kscheduler.cel.syntax.tree import Token, Tree


def to_tree(context: Context, source: SourceText) -> Tree | None:
    """The tree of a whole expression."""
    return _Conversion(source).first(context, rules.EXPR)


class _Conversion:
    def __init__(self, source: SourceText) -> None:
        self._source = source

    def _token(self, token: Any) -> Token | None:
        if token is None:
            return None
        return Token(token.text or "", self._source.offset(token.line, token.column))

    def _start(self, context: Context) -> int:
        return self._source.offset(context.start.line, context.start.column)

    def first(self, context: Context, rule: int) -> Tree | None:
        """The first child of a rule."""
        found = context.of(rule)
        return self.tree(found[0]) if found else None

    def tree(self, context: Context | None) -> Tree | None:
        """The tree of a context; rules that made no choice are left out."""
        if context is None:
            return None
        match context.rule:
            case rules.EXPR:
                return self._expr(context)
            case rules.OR | rules.AND:
                return self._logic(context)
            case rules.RELATION:
                return self._chain(context, rules.CALC)
            case rules.CALC:
                return self._chain(context, rules.UNARY)
            case rules.UNARY:
                return self._unary(context)
            case rules.MEMBER:
                return self._member(context)
            case rules.PRIMARY:
                return self._primary(context)
            case rules.LITERAL if context.alternative:
                sign, token = self._token(context.words.get("sign")), self._token(context.words.get("tok"))
                return Tree(context.alternative, self._start(context), sign, [], [token])
        return Tree("unknown", self._start(context))

    def _expr(self, context: Context) -> Tree | None:
        words = context.words
        if words.get("op") is None:
            return self.tree(words.get("e"))
        parts = [self.tree(words.get(name)) for name in ("e", "e1", "e2")]
        return Tree("expr", self._start(context), self._token(words["op"]), parts)

    def _logic(self, context: Context) -> Tree | None:
        ops = context.many("ops")
        if not ops:
            return self.tree(context.words.get("e"))
        name = "||" if context.rule == rules.OR else "&&"
        parts = [self.tree(part) for part in (context.words.get("e"), *context.many("e1"))]
        return Tree(name, self._start(context), None, parts, [self._token(op) for op in ops])

    def _chain(self, context: Context, below: int) -> Tree | None:
        operator = context.words.get("op")
        if operator is None:
            return self.first(context, below)
        operands = [*context.of(context.rule), None, None][:2]
        parts = [self.tree(operand) for operand in operands]
        return Tree(context.alternative, self._start(context), self._token(operator), parts)

    def _unary(self, context: Context) -> Tree | None:
        if context.alternative == "member":
            return self.first(context, rules.MEMBER)
        if not context.alternative:
            return Tree("unary", self._start(context))
        ops = [self._token(op) for op in context.many("ops")]
        return Tree(context.alternative, self._start(context), None, [self.first(context, rules.MEMBER)], ops)

    def _member(self, context: Context) -> Tree | None:
        if context.alternative == "primary":
            return self.first(context, rules.PRIMARY)
        words = context.words
        parts: list[Any] = [self.first(context, rules.MEMBER)]
        names: list[Token | None] = []
        op = self._token(words.get("op"))
        if context.alternative == "select":
            ident = words.get("id")
            if ident is not None:
                parts.append(self._start(ident))
                names.append(self._token(ident.words.get("id")))
        elif context.alternative == "member_call":
            op = self._token(words.get("open"))
            parts.append(self._expressions(words.get("args")))
            names.append(self._token(words.get("id")))
        else:
            parts.append(self.tree(words.get("index")))
        return Tree(context.alternative, self._start(context), op, parts, names, words.get("opt") is not None)

    def _expressions(self, context: Context | None) -> list[Tree | None]:
        return [] if context is None else [self.tree(part) for part in context.many("e")]

    def _primary(self, context: Context) -> Tree | None:
        words, start = context.words, self._start(context)
        op, dot = self._token(words.get("op")), words.get("dot") is not None
        match context.alternative:
            case "ident":
                return Tree("ident", start, None, [], [self._token(words.get("id"))], dot)
            case "call":
                parts: list[Any] = [self._expressions(words.get("args"))]
                return Tree("call", start, op, parts, [self._token(words.get("id"))], dot)
            case "nested":
                return self.tree(words.get("e"))
            case "list":
                return Tree("list", start, op, self._elements(words.get("elems")))
            case "map":
                return Tree("map", start, op, self._entries(words.get("entries")))
            case "message":
                names = [self._token(word) for word in context.many("ids")]
                return Tree("message", start, op, self._fields(words.get("entries")), names, dot)
            case "literal":
                return self.tree(words.get("literal"))
        return Tree("unknown", start)

    def _elements(self, context: Context | None) -> list[tuple[bool, Tree | None]]:
        if context is None:
            return []
        return [(part.words.get("opt") is not None, self.tree(part.words.get("e"))) for part in context.many("e")]

    def _entries(self, context: Context | None) -> list[Any]:
        if context is None:
            return []
        keys, values = context.many("keys"), context.many("values")
        entries: list[Any] = []
        for at, colon in enumerate(context.many("cols")):
            if at >= len(keys) or at >= len(values):
                # Nothing of the map is left, but the colon has got a number.
                entries.append((self._token(colon), False, None, Tree("broken", 0)))
                break
            key = keys[at].words
            entries.append(
                (self._token(colon), key.get("opt") is not None, self.tree(key.get("e")), self.tree(values[at]))
            )
        return entries

    def _fields(self, context: Context | None) -> list[Any]:
        if context is None:
            return []
        cols, values = context.many("cols"), context.many("values")
        fields: list[Any] = []
        for at, field in enumerate(context.many("keys")):
            if at >= len(cols) or at >= len(values):
                return []
            ident = field.words.get("id")
            name = self._token(ident.words.get("id")) if ident is not None else None
            fields.append((self._token(cols[at]), field.words.get("opt") is not None, name, self.tree(values[at])))
        return fields
