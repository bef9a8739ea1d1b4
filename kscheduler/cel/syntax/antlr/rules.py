"""The rules of CEL's grammar, step by step as ANTLR would generate them: each step names the state of the automaton.

`_enter` and `_leave` surround a rule; `_predict` asks the automaton for an alternative; `_match` takes a word.
"""

from collections.abc import Callable
from typing import Any

from antlr4 import CommonTokenStream, Parser, RecognitionException
from antlr4.error.Errors import NoViableAltException

from kscheduler.cel.syntax.antlr.automata import CountingParser, automaton, grammar
from kscheduler.cel.syntax.antlr.contexts import Context

(START, EXPR, OR, AND, RELATION, CALC, UNARY, MEMBER, PRIMARY, EXPR_LIST, LIST_INIT, FIELDS, OPT_FIELD, ENTRIES,
 ESCAPE_IDENT, OPT_EXPR, LITERAL) = range(17)  # fmt: skip
_AND_WORD, _OR_WORD = 8, 9
_LBRACKET, _RBRACKET, _LBRACE, _RBRACE, _LPAREN, _RPAREN = range(10, 16)
_DOT, _COMMA, _MINUS, _NOT, _QUESTION, _COLON, _PLUS = range(16, 23)
_TRUE, _FALSE, _NULL = 26, 27, 28
_FLOAT, _INT, _UINT, _STRING, _BYTES, _IDENT, _ESCAPED = range(31, 38)
_RELATIONS = frozenset(range(1, 8))
_TIMES = frozenset((23, 24, 25))
_SIGNS = frozenset((_MINUS, _PLUS))
_EXPR_STARTS = 135762105344
_ELEMENT_STARTS = 135763153920
_FIELD_STARTS = 206159478784
_CONSTANTS = {
    1: ("int", 243, 242, 245, _INT), 2: ("uint", 0, 0, 246, _UINT), 3: ("double", 248, 247, 250, _FLOAT),
    4: ("string", 0, 0, 251, _STRING), 5: ("bytes", 0, 0, 252, _BYTES), 6: ("true", 0, 0, 253, _TRUE),
    7: ("false", 0, 0, 254, _FALSE), 8: ("null", 0, 0, 255, _NULL),
}  # fmt: skip


class CelRules(Parser):  # type: ignore[misc]
    """ANTLR's parser with CEL's rules."""

    def __init__(self, stream: CommonTokenStream) -> None:
        super().__init__(stream)
        stored = grammar()
        self.literalNames, self.symbolicNames = stored["literals"], stored["symbols"]
        self.ruleNames, self.grammarFileName = stored["rules"], "CEL.g4"
        self.atn, decisions, contexts = automaton("parser")
        self._interp = CountingParser(self, self.atn, decisions, contexts)
        self._predicates = None

    def sempred(self, _context: Any, rule: int, predicate: int) -> bool:
        """Whether a rule of operators may go on at the precedence it was entered with."""
        binding = {(RELATION, 0): 1, (CALC, 1): 2, (CALC, 2): 1, (MEMBER, 3): 3, (MEMBER, 4): 2, (MEMBER, 5): 1}
        return bool(self.precpred(self._ctx, binding[rule, predicate]))

    def _predict(self, decision: int) -> int:
        self._errHandler.sync(self)
        return int(self._interp.adaptivePredict(self._input, decision, self._ctx))

    def _next(self) -> int:
        """The kind of the next word, after a look whether it fits."""
        self._errHandler.sync(self)
        return int(self._input.LA(1))

    def _match(self, state: int, kind: int) -> Any:
        self.state = state
        return self.match(kind)

    def _rule(self, rule: int, body: Callable[[Context], None]) -> Context:
        """A rule that does not begin with itself."""
        context = Context(self._ctx, self.state, rule)
        self.enterRule(context, 2 * rule, rule)
        try:
            self.enterOuterAlt(context, 1)
            body(context)
        except RecognitionException as error:
            self._failed(context, error)
        finally:
            self.exitRule()
        return context

    def _failed(self, context: Context, error: RecognitionException) -> None:
        context.exception = error
        self._errHandler.reportError(self, error)
        self._errHandler.recover(self, error)

    def _chain(self, rule: int, binding: int, body: "Callable[[_Chain], None]") -> Context:
        """A rule that begins with itself: each operator wraps what was read until then."""
        chain = _Chain(self, rule, binding)
        try:
            self.enterOuterAlt(chain.context, 1)
            body(chain)
        except RecognitionException as error:
            self._failed(chain.context, error)
        finally:
            self.unrollRecursionContexts(chain.parent)
        return chain.context

    def _operator(self, context: Context, state: int, kinds: frozenset[int]) -> None:
        self.state = state
        context.words["op"] = self._input.LT(1)
        if self._input.LA(1) not in kinds:
            context.words["op"] = self._errHandler.recoverInline(self)
        else:
            self._errHandler.reportMatch(self)
            self.consume()

    def start(self) -> Context:
        """A whole expression."""

        def body(_context: Context) -> None:
            self.state = 34
            self.expr()
            self._match(35, -1)

        return self._rule(START, body)

    def expr(self) -> Context:
        """`a ? b : c`."""

        def body(context: Context) -> None:
            self.state = 37
            context.words["e"] = self._logic(OR)
            self.state = 43
            if self._next() == _QUESTION:
                context.words["op"] = self._match(38, _QUESTION)
                self.state = 39
                context.words["e1"] = self._logic(OR)
                self._match(40, _COLON)
                self.state = 41
                context.words["e2"] = self.expr()

        return self._rule(EXPR, body)

    def _logic(self, rule: int) -> Context:
        first, loop, op, operand, after, word = (
            (45, 50, 46, 47, 52, _OR_WORD) if rule == OR else (53, 58, 54, 55, 60, _AND_WORD)
        )

        def term() -> Context:
            return self._logic(AND) if rule == OR else self.relation(0)

        def body(context: Context) -> None:
            self.state = first
            context.words["e"] = term()
            self.state = loop
            while self._next() == word:
                context.many("ops").append(self._match(op, word))
                self.state = operand
                context.many("e1").append(term())
                self.state = after

        return self._rule(rule, body)

    def relation(self, binding: int) -> Context:
        """`a < b`."""

        def body(chain: "_Chain") -> None:
            self.state = 62
            self.calc(0)
            self._ctx.stop = self._input.LT(-1)
            self.state = 69
            while self._predict(3) == 1:
                chain.leave()
                context = chain.push("relation")
                self.state = 64
                self._operator(context, 65, _RELATIONS)
                self.state = 66
                self.relation(2)
                self.state = 71

        return self._chain(RELATION, binding, body)

    def calc(self, binding: int) -> Context:
        """`a + b`, `a * b`."""

        def body(chain: "_Chain") -> None:
            self.state = 73
            self.unary()
            self._ctx.stop = self._input.LT(-1)
            self.state = 83
            while self._predict(5) == 1:
                chain.leave()
                self.state = 81
                times = self._predict(4) == 1
                context = chain.push("calc")
                self._operator(context, 76 if times else 79, _TIMES if times else _SIGNS)
                self.state = 77 if times else 80
                self.calc(3 if times else 2)
                self.state = 85

        return self._chain(CALC, binding, body)

    def unary(self) -> Context:
        """`!a`, `-a`."""

        def body(context: Context) -> None:
            self.state = 99
            alternative = self._predict(8)
            context.alternative = {1: "member", 2: "not", 3: "negate"}.get(alternative, "")
            if alternative == 1:
                self.state = 86
            elif alternative == 2:
                self.state = 88
                self._errHandler.sync(self)
                while True:
                    context.many("ops").append(self._match(87, _NOT))
                    self.state = 90
                    if self._next() != _NOT:
                        break
                self.state = 92
            else:
                self._minuses(context)
            self.member()

        return self._rule(UNARY, body)

    def _minuses(self, context: Context) -> None:
        self.state = 94
        self._errHandler.sync(self)
        more = 1
        while more == 1:
            context.many("ops").append(self._match(93, _MINUS))
            self.state = 96
            more = self._predict(7)
        self.state = 98

    def member(self) -> Context:
        """`a.b`, `a.b(c)`, `a[b]`."""

        def body(chain: "_Chain") -> None:
            chain.context.alternative = "primary"
            self.state = 102
            self.primary()
            self._ctx.stop = self._input.LT(-1)
            self.state = 128
            while self._predict(13) == 1:
                chain.leave()
                self.state = 126
                self._suffix(chain, self._predict(12))
                self.state = 130

        return self._chain(MEMBER, 0, body)

    def _suffix(self, chain: "_Chain", alternative: int) -> None:
        context = chain.push({1: "select", 2: "member_call", 3: "index"}[alternative])
        if alternative == 1:
            context.words["op"] = self._match(105, _DOT)
            self.state = 107
            if self._next() == _QUESTION:
                context.words["opt"] = self._match(106, _QUESTION)
            self.state = 109
            context.words["id"] = self._escape_ident()
        elif alternative == 2:
            context.words["op"] = self._match(111, _DOT)
            context.words["id"] = self._match(112, _IDENT)
            context.words["open"] = self._match(113, _LPAREN)
            self._arguments(context, 115, 114)
            self._match(117, _RPAREN)
        else:
            context.words["op"] = self._match(119, _LBRACKET)
            self.state = 121
            if self._next() == _QUESTION:
                context.words["opt"] = self._match(120, _QUESTION)
            self.state = 123
            context.words["index"] = self.expr()
            self._match(124, _RBRACKET)

    def _arguments(self, context: Context, look: int, state: int) -> None:
        self.state = look
        if _among(self._next(), _EXPR_STARTS):
            self.state = state
            context.words["args"] = self._list(EXPR_LIST, self.expr, (186, 191, 187, 188, 193), None)

    def primary(self) -> Context:
        """A name, a call, brackets, a list, a map, a message, a literal."""

        def body(context: Context) -> None:
            self.state = 184
            alternative = self._predict(25)
            names = ("", "ident", "call", "nested", "list", "map", "message", "literal")
            context.alternative = names[alternative]
            getattr(self, f"_primary_{names[alternative]}")(context)

        return self._rule(PRIMARY, body)

    def _leading_dot(self, context: Context, look: int, state: int) -> None:
        self.state = look
        if self._next() == _DOT:
            context.words["dot"] = self._match(state, _DOT)

    def _primary_ident(self, context: Context) -> None:
        self._leading_dot(context, 132, 131)
        context.words["id"] = self._match(134, _IDENT)

    def _primary_call(self, context: Context) -> None:
        self._leading_dot(context, 136, 135)
        context.words["id"] = self._match(138, _IDENT)
        context.words["op"] = self._match(139, _LPAREN)
        self._arguments(context, 141, 140)
        self._match(143, _RPAREN)

    def _primary_nested(self, context: Context) -> None:
        self._match(144, _LPAREN)
        self.state = 145
        context.words["e"] = self.expr()
        self._match(146, _RPAREN)

    def _comma(self, look: int, state: int) -> None:
        self.state = look
        if self._next() == _COMMA:
            self._match(state, _COMMA)

    def _primary_list(self, context: Context) -> None:
        context.words["op"] = self._match(148, _LBRACKET)
        self.state = 150
        if _among(self._next(), _ELEMENT_STARTS):
            self.state = 149
            context.words["elems"] = self._list(LIST_INIT, self._opt_expr, (194, 199, 195, 196, 201), 27)
        self._comma(153, 152)
        self._match(155, _RBRACKET)

    def _primary_map(self, context: Context) -> None:
        context.words["op"] = self._match(156, _LBRACE)
        self.state = 158
        if _among(self._next(), _ELEMENT_STARTS):
            self.state = 157
            context.words["entries"] = self._pairs(ENTRIES, self._opt_expr, (220, 230, 223, 30))
        self._comma(161, 160)
        self._match(163, _RBRACE)

    def _primary_message(self, context: Context) -> None:
        self._leading_dot(context, 165, 164)
        context.many("ids").append(self._match(167, _IDENT))
        self.state = 172
        while self._next() == _DOT:
            self._match(168, _DOT)
            context.many("ids").append(self._match(169, _IDENT))
            self.state = 174
        context.words["op"] = self._match(175, _LBRACE)
        self.state = 177
        if _among(self._next(), _FIELD_STARTS):
            self.state = 176
            context.words["entries"] = self._pairs(FIELDS, self._opt_field, (202, 212, 205, 28))
        self._comma(180, 179)
        self._match(182, _RBRACE)

    def _primary_literal(self, context: Context) -> None:
        self.state = 183
        context.words["literal"] = self._literal()

    def _list(
        self, rule: int, element: Callable[[], Context], states: tuple[int, int, int, int, int], decision: int | None
    ) -> Context:
        """Elements with commas between them; `decision` tells a comma between from one at the end."""
        first, loop, comma, more, after = states

        def goes_on() -> bool:
            return self._next() == _COMMA if decision is None else self._predict(decision) == 1

        def body(context: Context) -> None:
            self.state = first
            context.many("e").append(element())
            self.state = loop
            while goes_on():
                self._match(comma, _COMMA)
                self.state = more
                context.many("e").append(element())
                self.state = after

        return self._rule(rule, body)

    def _pairs(self, rule: int, key: Callable[[], Context], states: tuple[int, int, int, int]) -> Context:
        """Entries of a map or message. Key, colon and value are three states behind each other."""
        first, loop, comma, decision = states

        def pair(context: Context, state: int) -> None:
            self.state = state
            context.many("keys").append(key())
            context.many("cols").append(self._match(state + 1, _COLON))
            self.state = state + 2
            context.many("values").append(self.expr())

        def body(context: Context) -> None:
            pair(context, first)
            self.state = loop
            while self._predict(decision) == 1:
                self._match(comma, _COMMA)
                pair(context, comma + 1)
                self.state = loop + 2

        return self._rule(rule, body)

    def _opt_field(self) -> Context:
        def body(context: Context) -> None:
            self.state = 216
            if self._next() == _QUESTION:
                context.words["opt"] = self._match(215, _QUESTION)
            self.state = 218
            context.words["id"] = self._escape_ident()

        return self._rule(OPT_FIELD, body)

    def _opt_expr(self) -> Context:
        def body(context: Context) -> None:
            self.state = 238
            if self._next() == _QUESTION:
                context.words["opt"] = self._match(237, _QUESTION)
            self.state = 240
            context.words["e"] = self.expr()

        return self._rule(OPT_EXPR, body)

    def _escape_ident(self) -> Context:
        def body(context: Context) -> None:
            self.state = 235
            kind = self._next()
            if kind not in (_IDENT, _ESCAPED):
                raise NoViableAltException(self)
            context.words["id"] = self._match(233 if kind == _IDENT else 234, kind)

        return self._rule(ESCAPE_IDENT, body)

    def _literal(self) -> Context:
        def body(context: Context) -> None:
            self.state = 256
            name, look, sign, state, kind = _CONSTANTS[self._predict(35)]
            context.alternative = name
            if look:
                self.state = look
                if self._next() == _MINUS:
                    context.words["sign"] = self._match(sign, _MINUS)
            context.words["tok"] = self._match(state, kind)

        return self._rule(LITERAL, body)


class _Chain:
    """The contexts of a rule that begins with itself."""

    def __init__(self, rules: CelRules, rule: int, binding: int) -> None:
        self._rules, self._rule = rules, rule
        self.parent, self._state = rules._ctx, rules.state
        self.context = Context(self.parent, self._state, rule)
        rules.enterRecursionRule(self.context, 2 * rule, rule, binding)

    def leave(self) -> None:
        """The rule is left before it is entered again around what was read."""
        self._rules.triggerExitRuleEvent()

    def push(self, alternative: str) -> Context:
        """Wrap what was read."""
        self.context = Context(self.parent, self._state, self._rule, alternative)
        self._rules.pushNewRecursionContext(self.context, 2 * self._rule, self._rule)
        return self.context


def _among(kind: int, mask: int) -> bool:
    return 0 <= kind < 64 and bool(1 << kind & mask)
