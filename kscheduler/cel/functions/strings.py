"""The extension of strings, version 2: positions count letters, not bytes."""

from typing import Any

from kscheduler.cel.functions import Implementation
from kscheduler.cel.functions.string_format import format_string
from kscheduler.cel.steps import spend
from kscheduler.cel.values.go_text import shown
from kscheduler.cel.values.kinds import ErrorValue

# That are written, at least; a step writes many more, but they take memory.
_LETTERS_PER_STEP = 64
_SPACES = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _out_of_range(index: int) -> ErrorValue:
    return ErrorValue(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str | ErrorValue:
    return text[index : index + 1] if 0 <= index <= len(text) else _out_of_range(index)


def _index_of(text: str, part: str, offset: int = 0) -> int | ErrorValue:
    if offset < 0:
        return _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    return text.find(part, offset) if offset < len(text) else -1


def _old_index_of(text: str, part: str, offset: int = 0) -> int | ErrorValue:
    """As of cel-go 0.26, which finds the empty string wherever it is asked to start."""
    return _index_of(text, part, offset) if part else offset


def _last_index_of(text: str, part: str, offset: int | None = None) -> int | ErrorValue:
    if offset is None:
        if not part:
            return len(text)
        if len(text.encode()) < len(part.encode()):
            return -1
        offset = len(text) - 1
    if offset < 0:
        return _out_of_range(offset)
    if not part:
        return min(offset, len(text))
    if offset >= len(text):
        return -1
    return text.rfind(part, 0, offset + len(part))


def _old_last_index_of(text: str, part: str, offset: int | None = None) -> int | ErrorValue:
    if not part and offset is not None:
        return offset
    return _last_index_of(text, part, offset)


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    spend(text.count(old) * len(new) // _LETTERS_PER_STEP)
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if not separator:
        spend(len(text))
        letters = list(text)
        return letters if count < 0 or len(letters) <= count else [*letters[: count - 1], text[count - 1 :]]
    return text.split(separator, count - 1 if count > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str | ErrorValue:
    if end is None:
        return text[start:] if 0 <= start <= len(text) else _out_of_range(start)
    if start > end:
        return ErrorValue(f"invalid substring range. start: {start}, end: {end}")
    for index in (start, end):
        if not 0 <= index <= len(text):
            return _out_of_range(index)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str | ErrorValue:
    for part in parts:
        if type(part) is not str:
            return ErrorValue(f"join: invalid input: {shown(part)}")
    spend((sum(map(len, parts)) + len(separator) * len(parts)) // _LETTERS_PER_STEP)
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTES)}"'


def string_functions(*, old_positions: bool) -> dict[str, Implementation]:
    """By overload. `old_positions`: as of cel-go 0.26."""
    index_of = _old_index_of if old_positions else _index_of
    last_index_of = _old_last_index_of if old_positions else _last_index_of
    return {
        "string_char_at_int": _char_at,
        "string_index_of_string": index_of,
        "string_index_of_string_int": index_of,
        "string_last_index_of_string": last_index_of,
        "string_last_index_of_string_int": last_index_of,
        "string_lower_ascii": lambda text: text.translate(_LOWER),
        "string_upper_ascii": lambda text: text.translate(_UPPER),
        "string_replace_string_string": _replace,
        "string_replace_string_string_int": _replace,
        "string_split_string": _split,
        "string_split_string_int": _split,
        "string_substring_int": _substring,
        "string_substring_int_int": _substring,
        "string_trim": lambda text: text.strip(_SPACES),
        "strings_quote": _quote,
        "string_format": format_string,
        "list_join": _join,
        "list_join_string": _join,
    }
