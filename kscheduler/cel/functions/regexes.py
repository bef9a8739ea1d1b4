"""Regular expressions of RE2, refused in the words of Go's regexp."""

import re
from functools import lru_cache
from typing import Any

import re2

_CACHED = 256
"""Expressions that stay compiled: a few kilobytes each."""

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
_SINGLE_BYTE = re.compile(r"\\(?:\\|Q.*?(?:\\E|$)|[^C])|\\C", re.DOTALL)


class RegexError(ValueError):
    """The text is no regular expression; the message is Go's."""


def _error(words: str, what: str) -> RegexError:
    return RegexError(f"error parsing regexp: {words}: `{what}`")


@lru_cache(maxsize=_CACHED)
def compiled(text: str) -> Any:
    """The expression, compiled. Raises `RegexError`."""
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(text, options=options)
    except re2.error as error:
        message = error.args[0] if error.args else ""
        shown = message.decode() if isinstance(message, bytes) else str(message)
        words, _, what = shown.partition(": ")
        raise _error(_WORDS.get(words, words), what) from None
    # RE2 knows \C, a single byte; Go does not.
    if any(match.group() == "\\C" for match in _SINGLE_BYTE.finditer(text)):
        raise _error("invalid escape sequence", "\\C")
    return pattern


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern occurs. Raises `RegexError`."""
    return compiled(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """The first occurrence, empty without one. Raises `RegexError`."""
    found = compiled(pattern).search(text)
    return found.group() if found else ""


def find_all(text: str, pattern: str, most: int) -> list[str]:
    """All occurrences, or the first `most`. Raises `RegexError`."""
    regex = compiled(pattern)
    found: list[str] = []
    at, previous = 0, -1
    while at <= len(text) and (most < 0 or len(found) < most):
        match = regex.search(text, at)
        if match is None:
            break
        start, end = match.span()
        # An empty occurrence right behind another one does not count.
        if end > start or start != previous:
            found.append(match.group())
            previous = end
        at = end if end > start else end + 1
    return found
