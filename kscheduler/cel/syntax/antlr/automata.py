"""The automata of the grammar, read when the first syntax error is worded. What they do is counted in steps."""

import base64
import json
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Final

from antlr4 import InputStream, Lexer
from antlr4.atn.ATN import ATN
from antlr4.atn.ATNDeserializer import ATNDeserializer
from antlr4.atn.LexerATNSimulator import LexerATNSimulator
from antlr4.atn.ParserATNSimulator import ParserATNSimulator
from antlr4.dfa.DFA import DFA
from antlr4.PredictionContext import PredictionContextCache

from kscheduler.cel.steps import spend

_STEPS_PER_CLOSURE: Final = 40
"""One state that is followed: about twenty microseconds."""


@cache
def grammar() -> dict[str, Any]:
    """Names and automata as they are stored."""
    text = Path(__file__).with_name("grammar.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def _automaton(name: str) -> ATN:
    packed = zlib.decompress(base64.b64decode(grammar()[name]))
    numbers = list(struct.unpack(f">{len(packed) // 4}i", packed))
    return ATNDeserializer().deserialize(numbers)


def automaton(name: str) -> tuple[ATN, list[DFA], PredictionContextCache]:
    """The automaton of the lexer or parser, with tables that this run fills.

    ANTLR shares the tables between runs: then they grow with what was ever read, and how many steps an expression takes
    depends on those before it.
    """
    atn = _automaton(name)
    return atn, [DFA(state, number) for number, state in enumerate(atn.decisionToState)], PredictionContextCache()


class _CountingLexer(LexerATNSimulator):  # type: ignore[misc]
    def closure(self, *args: Any) -> bool:
        spend(_STEPS_PER_CLOSURE)
        return bool(super().closure(*args))


class CountingParser(ParserATNSimulator):  # type: ignore[misc]
    """ANTLR's parser, whose looks ahead are counted. Raises `TooManyStepsError`."""

    def closureCheckingStopState(self, *args: Any) -> None:  # noqa: N802 : ANTLR's name
        """Follow the automaton from one state: what all its work consists of."""
        spend(_STEPS_PER_CLOSURE)
        super().closureCheckingStopState(*args)


class CelLexer(Lexer):  # type: ignore[misc]
    """ANTLR's lexer with CEL's automaton."""

    def __init__(self, text: InputStream) -> None:
        super().__init__(text)
        stored = grammar()
        self.literalNames, self.symbolicNames = stored["literals"], stored["symbols"]
        self.ruleNames, self.grammarFileName = stored["lexerRules"], "CEL.g4"
        self.modeNames = ["DEFAULT_MODE"]
        self._interp = _CountingLexer(self, *automaton("lexer"))
        self._actions = None
        self._predicates = None

    def getErrorDisplay(self, s: str) -> str:  # noqa: N802 : ANTLR's name
        """The text as it is: the Go runtime escapes nothing here."""
        return s
