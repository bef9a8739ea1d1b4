"""Regular expressions of RE2, refused in the words of Go's regexp."""

import re
from threading import Lock
from typing import Any, Final

import re2

from kscheduler.bounded import WithinBudget
from kscheduler.cel.steps import afford, spend

# Expressions that stay compiled: a few kilobytes each, some megabytes where one repeats a large class of letters.
_MAX_KEPT, _MAX_KEPT_BYTES = 256, 16 * 2**20
_BYTES_PER_INSTRUCTION: Final = 24
# Memory that an expression may have at first: RE2 gives up after two milliseconds where that is not enough.
_SMALL_BYTES: Final = 256 << 10
# RE2's default.
_LARGE_BYTES: Final = 8 << 20
# Of a program in so much memory. To make one is about a step: the largest takes a quarter of a second.
_MAX_INSTRUCTIONS: Final = 500_000
_LOOKS_PER_STEP: Final = 64
_TOO_LARGE: Final = "pattern too large - compile failed"

_WORDS = {
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid UTF-8": "invalid UTF-8",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "unexpected )",
}
_kept: WithinBudget[str, Any] = WithinBudget(_MAX_KEPT_BYTES, _MAX_KEPT)
# Long evaluations run in threads.
_kept_lock = Lock()
_SINGLE_BYTE = re.compile(r"\\(?:\\|Q.*?(?:\\E|$)|[^C])|\\C", re.DOTALL)


class RegexError(ValueError):
    """The text is no regular expression; the message is Go's."""


def _error(words: str, what: str) -> RegexError:
    return RegexError(f"error parsing regexp: {words}: `{what}`")


def compiled(text: str) -> Any:
    """The expression, compiled. Raises `RegexError`, `TooManyStepsError`."""
    with _kept_lock:
        known = _kept.take(text)
        if known is not None:
            _kept.put(text, known, _weight(text, known))
            return known
    pattern = _compiled(text)
    with _kept_lock:
        _kept.put(text, pattern, _weight(text, pattern))
    return pattern


def _weight(text: str, pattern: Any) -> int:
    return len(text) + _BYTES_PER_INSTRUCTION * int(pattern._regexp.ProgramSize())


def _compiled(text: str) -> Any:
    spend(len(text))
    try:
        pattern = _within(text, _SMALL_BYTES)
    except re2.error as error:
        if _text_of(error) != _TOO_LARGE:
            raise _message(error) from None
        # What it takes is known only afterwards, so there must be room for the largest.
        afford(_MAX_INSTRUCTIONS)
        try:
            pattern = _within(text, _LARGE_BYTES)
        except re2.error as too_large:
            raise _message(too_large) from None
    spend(int(pattern._regexp.ProgramSize()))
    # RE2 knows \C, a single byte; Go does not.
    if any(match.group() == "\\C" for match in _SINGLE_BYTE.finditer(text)):
        raise _error("invalid escape sequence", "\\C")
    return pattern


def _within(text: str, most_bytes: int) -> Any:
    options = re2.Options()
    options.log_errors = False
    # Nobody asks for groups. With hundreds of them in the pattern, a match would take a thousand times as long.
    options.never_capture = True
    options.max_mem = most_bytes
    return re2._Regexp(text, options)  # as `re2.compile` does, which keeps the last 128 whatever they weigh


def _message(error: Exception) -> RegexError:
    words, _, what = _text_of(error).partition(": ")
    return _error(_WORDS.get(words, words), what)


def _text_of(error: Exception) -> str:
    message = error.args[0] if error.args else ""
    return message.decode() if isinstance(message, bytes) else str(message)


def _search(regex: Any, text: str, start: int = 0) -> Any:
    """The first occurrence. RE2 may look at each instruction for each letter, which it does many times in a step."""
    spend((len(text) - start) * int(regex._regexp.ProgramSize()) // _LOOKS_PER_STEP)
    return regex.search(text, start)


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern occurs. Raises `RegexError`."""
    return _search(compiled(pattern), text) is not None


def find(text: str, pattern: str) -> str:
    """The first occurrence, empty without one. Raises `RegexError`."""
    found = _search(compiled(pattern), text)
    return found.group() if found else ""


def find_all(text: str, pattern: str, most: int) -> list[str]:
    """All occurrences, or the first `most`. Raises `RegexError`."""
    regex = compiled(pattern)
    found: list[str] = []
    at, previous = 0, -1
    while at <= len(text) and (most < 0 or len(found) < most):
        match = _search(regex, text, at)
        if match is None:
            break
        start, end = match.span()
        # An empty occurrence right behind another one does not count.
        if end > start or start != previous:
            found.append(match.group())
            previous = end
        at = end if end > start else end + 1
    return found
