"""Reads an expression as CEL's own parser does, wrong ones too: its syntax errors are the texts of ANTLR's runtime.

Slow, and needed only where `kscheduler.cel.syntax.parser` refused: an expression with a syntax error is read by the
grammar of cel-go (`grammar.json`, the automata that ANTLR 4.13 makes of its file `CEL.g4`, Apache License 2.0) with the
recovery and the limits of cel-go, and what could be read goes on to the visitor, which adds errors of its own.
"""

from antlr4 import CommonTokenStream, InputStream
from antlr4.error.ErrorListener import ErrorListener
from antlr4.tree.Tree import ParseTreeListener

from kscheduler.cel.source import NO_LOCATION, Issues, SourceText
from kscheduler.cel.syntax.antlr.automata import CelLexer
from kscheduler.cel.syntax.antlr.contexts import Context
from kscheduler.cel.syntax.antlr.conversion import to_tree
from kscheduler.cel.syntax.antlr.recovery import GoRecovery, LookaheadLimitError, RecoveryLimitError
from kscheduler.cel.syntax.antlr.rules import CelRules
from kscheduler.cel.syntax.parser import DEEPEST, TooDeepError
from kscheduler.cel.syntax.tree import Tree

_MOST_ERRORS = 100


class _TooManyErrors(Exception):  # noqa: N818 : ends a parse
    """More syntax errors than are reported."""


def parse_with_errors(source: SourceText, issues: Issues) -> Tree | None:
    """The tree, with parts missing; None if reading was given up. The errors go to the issues."""
    listener = _Errors(issues)
    lexer = CelLexer(InputStream(source.text))
    lexer.removeErrorListeners()
    lexer.addErrorListener(listener)
    rules = CelRules(CommonTokenStream(lexer))
    rules.removeErrorListeners()
    rules.addErrorListener(listener)
    rules.addParseListener(_Depths())
    rules._errHandler = GoRecovery()
    try:
        return to_tree(rules.start(), source)
    except TooDeepError:
        issues.add(NO_LOCATION, f"expression recursion limit exceeded: {DEEPEST}")
    except LookaheadLimitError as error:
        issues.add(NO_LOCATION, str(error))
    except (RecoveryLimitError, _TooManyErrors):
        pass
    return None


class _Errors(ErrorListener):  # type: ignore[misc]
    def __init__(self, issues: Issues) -> None:
        super().__init__()
        self._issues, self._count = issues, 0

    def syntaxError(self, recognizer, offendingSymbol, line, column, msg, e) -> None:  # type: ignore[no-untyped-def]  # noqa: ARG002, N802, N803
        location = (line, column)
        for word in ("true", "false", "null"):
            # As older versions of CEL said it.
            wrong = f"no viable alternative at input '.{word}'"
            msg = msg.replace(wrong, f"mismatched input '{word}' expecting IDENTIFIER")
        if self._count >= _MOST_ERRORS:
            self._issues.add(location, f"Syntax error: More than {_MOST_ERRORS} syntax errors")
            raise _TooManyErrors
        self._count += 1
        self._issues.add(location, f"Syntax error: {msg}")


class _Depths(ParseTreeListener):  # type: ignore[misc]
    """Counts how often each rule is entered within itself."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def enterEveryRule(self, ctx: Context) -> None:  # noqa: N802 : ANTLR's name
        depth = self._depths.get(ctx.rule, 0) + 1
        self._depths[ctx.rule] = depth
        if depth > DEEPEST:
            raise TooDeepError

    def exitEveryRule(self, ctx: Context) -> None:  # noqa: N802 : ANTLR's name
        depth = self._depths.get(ctx.rule, 0)
        if depth > 0:
            self._depths[ctx.rule] = depth - 1
