"""The automata of the grammar, read once when the first syntax error is worded."""

import base64
import json
import struct
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from antlr4 import InputStream, Lexer
from antlr4.atn.ATN import ATN
from antlr4.atn.ATNDeserializer import ATNDeserializer
from antlr4.atn.LexerATNSimulator import LexerATNSimulator
from antlr4.dfa.DFA import DFA
from antlr4.PredictionContext import PredictionContextCache


@cache
def grammar() -> dict[str, Any]:
    """Names and automata as they are stored."""
    text = Path(__file__).with_name("grammar.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def automaton(name: str) -> tuple[ATN, list[DFA], PredictionContextCache]:
    """The automaton of the lexer or parser, with what is shared between runs."""
    packed = zlib.decompress(base64.b64decode(grammar()[name]))
    numbers = list(struct.unpack(f">{len(packed) // 4}i", packed))
    atn = ATNDeserializer().deserialize(numbers)
    decisions = [DFA(state, number) for number, state in enumerate(atn.decisionToState)]
    return atn, decisions, PredictionContextCache()


class CelLexer(Lexer):  # type: ignore[misc]
    """ANTLR's lexer with CEL's automaton."""

    def __init__(self, text: InputStream) -> None:
        super().__init__(text)
        stored = grammar()
        self.literalNames, self.symbolicNames = stored["literals"], stored["symbols"]
        self.ruleNames, self.grammarFileName = stored["lexerRules"], "CEL.g4"
        self.modeNames = ["DEFAULT_MODE"]
        self._interp = LexerATNSimulator(self, *automaton("lexer"))
        self._actions = None
        self._predicates = None

    def getErrorDisplay(self, s: str) -> str:  # noqa: N802 : ANTLR's name
        """The text as it is: the Go runtime escapes nothing here."""
        return s
