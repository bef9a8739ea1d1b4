r"""An event as a line: JSON, or text in klog's manner.

    {"ts":"2026-11-22T11:01:05.123456Z","level":"info","v":2,"msg":"pod_bound","logger":"pods","pod":"shop/web-1",...}
    2026-11-22T11:01:05.123456Z I pod_bound pod="shop/web-1" node="n1" score=231 logger="pods"

Both escape newlines, so one event is one line; in text a traceback follows on lines of its own, each of which begins
with `    | ` and so cannot be taken for an event. Strings are quoted in text, as klog does: `pod="shop/web-1"`.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

Render = Callable[[dict[str, Any]], str]

# Bytes of a JSON line. Log collectors split lines (containerd at 16 KiB, and joins them again) or drop them.
LONGEST_LINE: Final = 65_536
_FIRST: Final = ("ts", "level", "v", "msg", "logger")
_LETTERS: Final = {"debug": "D", "info": "I", "warning": "W", "error": "E", "critical": "F"}
_COLOURS: Final = {"D": "\x1b[2m", "I": "\x1b[32m", "W": "\x1b[33m", "E": "\x1b[31m", "F": "\x1b[31;1m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_line(event: dict[str, Any]) -> str:
    """One line of JSON, its fields in the order of the event."""
    line = _encode(event)
    if len(line) <= LONGEST_LINE:
        return line.decode()
    first = {key: event.pop(key) for key in _FIRST if key in event}
    kept = {key: value if isinstance(value, int | float) else str(value)[:200] for key, value in event.items()}
    some: dict[str, Any] = dict(list(kept.items())[:50])
    return _encode({**first, **some, "cut_bytes": len(line)}).decode()


def text_line(event: dict[str, Any], *, is_coloured: bool = False) -> str:
    """One line of text, and a traceback below it."""
    letter = _LETTERS.get(str(event.pop("level", "")), "I")
    timestamp, message = event.pop("ts", ""), str(event.pop("msg", ""))
    logger, trace = event.pop("logger", None), event.pop("exception", None)
    event.pop("v", None)
    headline = message if message.replace("_", "").isalnum() and message.isascii() else _quoted(message)
    if is_coloured:
        letter, headline = f"{_COLOURS[letter]}{letter}{_RESET}", f"{_BOLD}{headline}{_RESET}"
    fields = [f"{key}={_quoted(value)}" for key, value in event.items()]
    if logger is not None:
        fields.append(f"logger={_quoted(logger)}")
    line = " ".join([str(timestamp), letter, headline, *fields])
    if trace is None:
        return line
    return "\n".join([line, *(f"    | {_visible(part)}" for part in str(trace).splitlines())])


def _quoted(value: object) -> str:
    """As JSON: strings in quotes, control characters escaped."""
    return _encode(value).decode()


def _visible(text: str) -> str:
    """A line of a traceback, with terminal control characters escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
