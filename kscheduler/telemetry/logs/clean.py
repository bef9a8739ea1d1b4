"""Makes fields safe to write: users who choose a pod's name or a server's answer must not be able to forge log lines.

    newlines, control characters    escaped, so that no field can begin a line of its own or command a terminal
    direction overrides             escaped: they make a line read as a different one
    bytes that are not text         escaped (Python keeps them as lone surrogates, which no encoder accepts)
    credentials                     replaced; recognised by their form and by the name of the field
    long texts and lists            cut, with a note of their length

Limits: a secret that looks like any other word is not recognised; no code here logs secrets on purpose. Newlines and
control characters up to U+001F are left to the renderers, whose quoting escapes them.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

# Characters of one field. A condition's message has 1,024 at most where it becomes an Event.
LONGEST_TEXT: Final = 4096
# Characters of a traceback; a longer one loses its middle, since both ends say most.
LONGEST_TRACEBACK: Final = 16_384
# Elements of a list or mapping.
MAX_ELEMENTS: Final = 1000
# Levels of nesting; deeper ones are written as text.
DEEPEST: Final = 6
REDACTED: Final = "[redacted]"

_UNSAFE: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_CONTROL: Final = re.compile("[\x00-\x1f]")
_CREDENTIALS: Final = re.compile(
    r"(?P<scheme>\b(?:[Bb]earer|[Bb]asic)\s+)[\w.~+/=-]{8,}"
    r"|(?P<url>://)[^/\s:@]*:[^/\s@]+(?=@)"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    # what programs print when they fail, as `token: abc123`; a plain word behind the colon is a sentence
    # (every repetition but the last has a bound: the time must not grow with the square of a hostile text)
    r"|(?P<name>\b[\w-]{0,20}(?i:token|password|secret|api_key)[\"']?\s?[:=]\s?[\"']?)"
    r"(?=[^\s\"',;]{0,100}[\dA-Z_])[^\s\"',;]{6,}"
)
_SECRET_NAMES: Final = frozenset({"authorization", "password", "secret", "token", "id_token", "refresh_token"})


def clean_event(event: dict[str, Any]) -> dict[str, Any]:
    """The event with safe values, in place. Keys are our own, and safe."""
    for key, value in event.items():
        if type(value) is str:
            if len(value) > LONGEST_TEXT or not value.isascii() or "\x7f" in value:
                event[key] = _text(value, LONGEST_TRACEBACK if key == "exception" else LONGEST_TEXT)
        elif value is not None and type(value) not in _HARMLESS:
            event[key] = _clean(value, 0)
    return event


def one_line(text: str) -> str:
    """The text in one line that commands no terminal: for what leaves the process elsewhere than in the log."""
    return text if text.isprintable() else _UNSAFE.sub(_escaped, _CONTROL.sub(_escaped, text))


def without_credentials(event: dict[str, Any]) -> dict[str, Any]:
    """The event without what looks like a credential, in place. For lines that hold text from outside."""
    for key, value in event.items():
        if key in _SECRET_NAMES:
            event[key] = REDACTED
        elif type(value) is str:
            event[key] = redacted(value)
        elif isinstance(value, BaseException):
            event[key] = redacted(_of_exception(value))
    return event


def redacted(text: str) -> str:
    """The text without bearer tokens, JSON web tokens, passwords in URLs, and values that a name calls secret."""
    return _CREDENTIALS.sub(_without_secret, text)


def _without_secret(match: re.Match[str]) -> str:
    return f"{match['scheme'] or match['url'] or match['name'] or ''}{REDACTED}"


_HARMLESS: Final = frozenset({int, float, bool})


def _clean(value: object, depth: int) -> Any:
    # From plain values to containers: text first, because a str is a Sequence; anything unknown becomes its `str`.
    if isinstance(value, str):
        return _text(str(value), LONGEST_TEXT)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, BaseException):
        return _text(_of_exception(value), LONGEST_TEXT)
    if depth >= DEEPEST:
        return _text(str(value), LONGEST_TEXT)
    if isinstance(value, Mapping):
        pairs = list(value.items())
        kept = {_text(str(key), LONGEST_TEXT): _clean(child, depth + 1) for key, child in pairs[:MAX_ELEMENTS]}
        return {**kept, "...": f"{len(pairs) - MAX_ELEMENTS} more"} if len(pairs) > MAX_ELEMENTS else kept
    if isinstance(value, AbstractSet):
        return _clean(sorted(value, key=str), depth)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        some = [_clean(child, depth + 1) for child in value[:MAX_ELEMENTS]]
        return [*some, f"... {len(value) - MAX_ELEMENTS} more"] if len(value) > MAX_ELEMENTS else some
    return _text(str(value), LONGEST_TEXT)


def _of_exception(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}"


def _text(text: str, longest: int) -> str:
    if len(text) > longest:
        text = _cut(text, longest)
    return text if text.isascii() and "\x7f" not in text else _UNSAFE.sub(_escaped, text)


def _cut(text: str, longest: int) -> str:
    """The beginning of the text and, of a traceback, its end."""
    tail = longest // 2 if longest > LONGEST_TEXT else 0
    left_out = len(text) - longest
    return f"{text[: longest - tail]}... [{left_out} characters left out] ...{text[len(text) - tail :]}"


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def short_line(text: str, longest: int) -> str:
    """The beginning of a text from outside, in one line and without control characters: it forges no further line."""
    return "".join(char if char.isprintable() else " " for char in text[:longest])
