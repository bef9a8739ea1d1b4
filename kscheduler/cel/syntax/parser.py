"""Reads expressions, up to the first word that does not follow CEL's grammar.

The depths are those of CEL's parser, which counts how often each rule of its grammar is entered within itself.
"""

from kscheduler.cel.steps import spend
from kscheduler.cel.syntax.literals import SyntaxProblemError, split
from kscheduler.cel.syntax.nodes import Token, Tree

_STEPS_PER_WORD = 20
# How often a rule may be entered within itself.
DEEPEST = 250

_RELATIONS = frozenset(("<", "<=", ">=", ">", "==", "!=", "in"))
_TIMES = frozenset("*/%")
_PLUS = frozenset("+-")
_LITERALS = {"int": "int", "uint": "uint", "float": "double", "string": "string", "bytes": "bytes"}
_WORDS = frozenset(("true", "false", "null"))


class TooDeepError(ValueError):
    """The expression nests deeper than CEL reads."""


def parse(text: str) -> Tree:
    """Raises `SyntaxProblemError`, `TooDeepError`, `TooManyStepsError`."""
    kinds, words = split(text)
    spend(_STEPS_PER_WORD * len(words))
    reader = _Reader(kinds, words)
    tree = reader.expr()
    if reader.kind != "end":
        raise reader.unexpected("an operator or the end")
    return tree


class _Reader:
    def __init__(self, kinds: list[str], words: list[Token]) -> None:
        self._kinds, self._words = kinds, words
        self._at = 0
        self.kind = kinds[0]
        self._exprs = self._relations = self._calcs = 0

    @property
    def word(self) -> Token:
        return self._words[self._at]

    def unexpected(self, wanted: str) -> SyntaxProblemError:
        """The word that is next is none of those that may stand here."""
        found = "end of the expression" if self.kind == "end" else f"'{self.word.text}'"
        return SyntaxProblemError(self.word.offset, f"unexpected {found}, expected {wanted}")

    def _next(self) -> Token:
        word = self._words[self._at]
        self._at += 1
        self.kind = self._kinds[self._at]
        return word

    def _expect(self, kind: str) -> Token:
        if self.kind != kind:
            raise self.unexpected("a name" if kind == "ident" else f"'{kind}'")
        return self._next()

    def _accept(self, kind: str) -> Token | None:
        return self._next() if self.kind == kind else None

    def expr(self) -> Tree:
        self._exprs += 1
        if self._exprs > DEEPEST:
            raise TooDeepError
        tree = self._logic("||")
        if self.kind == "?":
            op = self._next()
            yes = self._logic("||")
            self._expect(":")
            tree = Tree("expr", tree.start, op, [tree, yes, self.expr()])
        self._exprs -= 1
        return tree

    def _logic(self, op: str) -> Tree:
        first = self._logic("&&") if op == "||" else self._relation()
        if self.kind != op:
            return first
        tree = Tree(op, first.start, None, [first])
        while self.kind == op:
            tree.words.append(self._next())
            tree.parts.append(self._logic("&&") if op == "||" else self._relation())
        return tree

    def _relation(self) -> Tree:
        self._relations += 1
        if self._relations > DEEPEST:
            raise TooDeepError
        tree = self._calc(1)
        while self.kind in _RELATIONS:
            op = self._next()
            self._relations += 1
            tree = Tree("relation", tree.start, op, [tree, self._calc(1)])
            self._relations -= 1
        self._relations -= 1
        return tree

    def _calc(self, binding: int) -> Tree:
        self._calcs += 1
        if self._calcs > DEEPEST:
            raise TooDeepError
        tree = self._unary()
        while (self.kind in _TIMES and binding <= 2) or (self.kind in _PLUS and binding <= 1):
            right = 3 if self.kind in _TIMES else 2
            op = self._next()
            tree = Tree("calc", tree.start, op, [tree, self._calc(right)])
        self._calcs -= 1
        return tree

    def _unary(self) -> Tree:
        if self.kind not in ("!", "-"):
            return self._member()
        sign, start = self.kind, self.word.offset
        if sign == "-" and self._kinds[self._at + 1] in ("int", "float"):
            return self._member()
        ops: list[Token] = []
        while self.kind == sign:
            ops.append(self._next())
        return Tree("not" if sign == "!" else "negate", start, None, [self._member()], ops)

    def _member(self) -> Tree:
        tree = self._primary()
        while True:
            if self.kind == ".":
                op = self._next()
                optional = self._accept("?") is not None
                if self.kind not in ("ident", "escaped"):
                    raise self.unexpected("the name of a field or function")
                name = self._next()
                if self.kind == "(" and not optional and name.text[0] != "`":
                    opened = self._next()
                    tree = Tree("member_call", tree.start, opened, [tree, self._arguments()], [name])
                else:
                    tree = Tree("select", tree.start, op, [tree], [name], optional)
            elif self.kind == "[":
                op = self._next()
                optional = self._accept("?") is not None
                index = self.expr()
                self._expect("]")
                tree = Tree("index", tree.start, op, [tree, index], [], optional)
            else:
                return tree

    def _arguments(self) -> list[Tree]:
        args: list[Tree] = []
        if self.kind != ")":
            args.append(self.expr())
            while self._accept(","):
                args.append(self.expr())
        self._expect(")")
        return args

    def _primary(self) -> Tree:
        start = self.word.offset
        match self.kind:
            case "." | "ident":
                return self._named(start)
            case "(":
                self._next()
                tree = self.expr()
                self._expect(")")
                return tree
            case "[":
                return self._list(start)
            case "{":
                op = self._next()
                return Tree("map", start, op, self._entries())
            case "-" if self._kinds[self._at + 1] in ("int", "float"):
                sign = self._next()
                return Tree(_LITERALS[self.kind], start, sign, [], [self._next()])
        if self.kind in _LITERALS:
            return Tree(_LITERALS[self.kind], start, None, [], [self._next()])
        if self.kind in _WORDS:
            return Tree(self.kind, start, None, [], [self._next()])
        raise self.unexpected("a value")

    def _named(self, start: int) -> Tree:
        dot = self._accept(".") is not None
        name = self._expect("ident")
        if self.kind == "(":
            op = self._next()
            return Tree("call", start, op, [self._arguments()], [name], dot)
        ahead = self._at
        while self._kinds[ahead] == "." and self._kinds[ahead + 1] == "ident":
            ahead += 2
        if self._kinds[ahead] != "{":
            return Tree("ident", start, None, [], [name], dot)
        names: list[Token] = [name]
        while self._accept("."):
            names.append(self._next())
        op = self._next()
        return Tree("message", start, op, self._fields(), names, dot)

    def _another(self, closing: str) -> bool:
        """Whether a comma and another element follow; a comma before the closing bracket is left for the caller."""
        return self.kind == "," and self._kinds[self._at + 1] != closing and bool(self._next())

    def _list(self, start: int) -> Tree:
        op = self._next()
        elements: list[tuple[bool, Tree]] = []
        more = self.kind not in ("]", ",")
        while more:
            elements.append((self._accept("?") is not None, self.expr()))
            more = self._another("]")
        self._accept(",")
        self._expect("]")
        return Tree("list", start, op, elements)

    def _entries(self) -> list[tuple[Token, bool, Tree, Tree]]:
        entries: list[tuple[Token, bool, Tree, Tree]] = []
        more = self.kind not in ("}", ",")
        while more:
            optional = self._accept("?") is not None
            key = self.expr()
            colon = self._expect(":")
            entries.append((colon, optional, key, self.expr()))
            more = self._another("}")
        self._accept(",")
        self._expect("}")
        return entries

    def _fields(self) -> list[tuple[Token, bool, Token, Tree]]:
        fields: list[tuple[Token, bool, Token, Tree]] = []
        more = self.kind not in ("}", ",")
        while more:
            optional = self._accept("?") is not None
            if self.kind not in ("ident", "escaped"):
                raise self.unexpected("the name of a field")
            name = self._next()
            colon = self._expect(":")
            fields.append((colon, optional, name, self.expr()))
            more = self._another("}")
        self._accept(",")
        self._expect("}")
        return fields
