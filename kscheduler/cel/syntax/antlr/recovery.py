"""How the parser goes on after an error: as ANTLR's Go runtime does, with cel-go's limits.

The Go runtime lacks the memory of skipped tokens that Java and Python have, and names a missing token differently.
"""

from typing import Any

from antlr4.atn.ATNState import ATNState
from antlr4.error.Errors import InputMismatchException
from antlr4.error.ErrorStrategy import DefaultErrorStrategy
from antlr4.IntervalSet import IntervalSet
from antlr4.Token import Token

from kscheduler.cel.steps import spend

_STEPS_PER_LOOK = 40
_MOST_RECOVERIES = 30
_MOST_SKIPPED = 256
_STARTS = frozenset(
    (ATNState.BLOCK_START, ATNState.STAR_BLOCK_START, ATNState.PLUS_BLOCK_START, ATNState.STAR_LOOP_ENTRY)
)
_LOOPS = frozenset((ATNState.PLUS_LOOP_BACK, ATNState.STAR_LOOP_BACK))


class RecoveryLimitError(Exception):
    """Too many errors to recover from; they have been told."""


class LookaheadLimitError(Exception):
    """Too many words to skip."""


class GoRecovery(DefaultErrorStrategy):  # type: ignore[misc]
    """ANTLR's default strategy as its Go runtime has it."""

    def __init__(self) -> None:
        super().__init__()
        self._attempts = 0
        self._skipped = 0

    def sync(self, recognizer: Any) -> None:
        """Look whether the next word fits, before a choice is made."""
        spend(_STEPS_PER_LOOK)
        if self.inErrorRecoveryMode(recognizer):
            return
        state = recognizer._interp.atn.states[recognizer.state]
        expected = recognizer.atn.nextTokens(state)
        if Token.EPSILON in expected or recognizer.getTokenStream().LA(1) in expected:
            return
        if state.stateType in _STARTS:
            if self.singleTokenDeletion(recognizer) is None:
                raise InputMismatchException(recognizer)
        elif state.stateType in _LOOPS:
            self.reportUnwantedToken(recognizer)
            # A set of its own: the automaton keeps the one that it gives.
            expecting = IntervalSet()
            expecting.addSet(recognizer.getExpectedTokens())
            expecting.addSet(self.getErrorRecoverySet(recognizer))
            self._skipped = -1
            self.consumeUntil(recognizer, expecting)

    def recover(self, recognizer: Any, e: Any) -> None:
        """Skip words until one may follow."""
        del e
        self._check(recognizer)
        self._skipped = 0
        index = recognizer.getInputStream().index
        states = self.lastErrorStates  # type: ignore[has-type]
        if self.lastErrorIndex == index and recognizer.state in (states or ()):  # type: ignore[has-type]
            self._consume(recognizer)
        self.lastErrorIndex = recognizer.getInputStream().index
        self.lastErrorStates = [*(states or ()), recognizer.state]
        self.consumeUntil(recognizer, self.getErrorRecoverySet(recognizer))

    def recoverInline(self, recognizer: Any) -> Any:  # noqa: N802 : ANTLR's name
        """Leave a word out, or think one that is missing."""
        self._check(recognizer)
        self._skipped = 0
        return super().recoverInline(recognizer)

    def _check(self, recognizer: Any) -> None:
        if self._attempts == _MOST_RECOVERIES:
            self._attempts += 1
            message = f"error recovery attempt limit exceeded: {_MOST_RECOVERIES}"
            recognizer.notifyErrorListeners(message, None, None)
            raise RecoveryLimitError(message)
        self._attempts += 1

    def _consume(self, recognizer: Any) -> None:
        if self._skipped >= _MOST_SKIPPED:
            message = f"error recovery token lookahead limit exceeded: {_MOST_SKIPPED}"
            raise LookaheadLimitError(message)
        if self._skipped >= 0:
            self._skipped += 1
        recognizer.consume()

    def consumeUntil(self, recognizer: Any, set_: Any) -> None:  # noqa: N802 : ANTLR's name
        """Skip words that are not in a set."""
        stream = recognizer.getTokenStream()
        while stream.LA(1) != Token.EOF and stream.LA(1) not in set_:
            self._consume(recognizer)

    def getMissingSymbol(self, recognizer: Any) -> Any:  # noqa: N802 : ANTLR's name
        """A word for one that is missing."""
        current = recognizer.getCurrentToken()
        expected = self.getExpectedTokens(recognizer)[0]
        literals = recognizer.literalNames
        if expected == Token.EOF:
            text = "<missing EOF>"
        elif 0 < expected < len(literals) and literals[expected] != "<INVALID>":
            text = f"<missing {literals[expected]}>"
        else:
            text = "<missing undefined>"
        before = recognizer.getTokenStream().LT(-1)
        if current.type == Token.EOF and before is not None:
            current = before
        factory = recognizer.getTokenFactory()
        channel = Token.DEFAULT_CHANNEL
        return factory.create(current.source, expected, text, channel, -1, -1, current.line, current.column)
