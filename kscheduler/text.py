"""Makes names from users' objects safe for a terminal."""

import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import msgspec

from kscheduler.telemetry.logs.clean import one_line


def printable(text: str) -> str:
    """The text in one line, without control characters, direction overrides and the like.

    A line's end is a blank: the words around it would be one.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " if letter.isspace() else "" for letter in text)


def printable_lines(text: str) -> str:
    """The text likewise, its lines kept."""
    return "\n".join(map(printable, text.splitlines()))


def without_empty_answer(message: str) -> str:
    """A pod group's message as a sentence of ours: without the ", " that kube-scheduler puts before an empty answer."""
    return message.removesuffix(", ")


def some(names: list[str], most: int) -> list[str]:
    """The first `most` names, and the number of the rest."""
    shown = [printable(name) for name in names[:most]]
    return [*shown, f"and {len(names) - most} more"] if len(names) > most else shown


def json_line(tree: dict[str, Any] | msgspec.Struct) -> str:
    """The object in one line. What a terminal would obey is escaped, which JSON allows: the value stays the same."""
    return one_line(msgspec.json.encode(tree).decode())


# Text layout: colours, width, columns, wrapping.

INDENT: Final = "  "
_DEFAULT_WIDTH: Final = 100
_NARROWEST_TERMINAL: Final = 40
_WIDEST: Final = 120
# Columns by which continuation lines are indented.
_HANGING: Final = 4

_ESCAPES: Final = re.compile(r"\x1b\[[0-9]*m")

BOLD, RED, GREEN, YELLOW, DIM = "1", "31", "32", "33", "2"


class Style(msgspec.Struct, frozen=True):
    """Colour and width of the text."""

    colour: bool = False
    width: int = _DEFAULT_WIDTH
    """Columns; the table of points shows as many nodes as fit."""

    def paint(self, text: str, code: str) -> str:
        """The text in a colour, if colours are on."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text


PLAIN: Final = Style()


def style_of(stream: TextIO) -> Style:
    """Colours and width for a terminal (unless NO_COLOR is set); plain text for everything else."""
    if not stream.isatty():
        return Style()
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except OSError:
        width = _DEFAULT_WIDTH
    return Style(colour=not os.environ.get("NO_COLOR"), width=min(max(width, _NARROWEST_TERMINAL), _WIDEST))


def wrapped(line: str, width: int) -> list[str]:
    """The line split into lines of at most `width`, continuation lines indented; words are never cut."""
    if len(_ESCAPES.sub("", line)) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    hanging = indent + " " * _HANGING
    return textwrap.wrap(line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def aligned(rows: Iterable[tuple[str, ...]], right: set[int]) -> Iterator[str]:
    """Rows of cells as lines with aligned columns; the columns in `right` are flush right."""
    table = list(rows)
    widths = [max(len(cell) for cell in column) for column in zip(*table, strict=True)]
    for row in table:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  ".join(cell.rjust(width) if at in right else cell.ljust(width) for at, (cell, width) in cells).rstrip()


def nodes(count: int) -> str:
    """`1 node`, `5 nodes`."""
    return "1 node" if count == 1 else f"{count} nodes"


def pods(count: int) -> str:
    """`1 pod`, `5 pods`."""
    return "1 pod" if count == 1 else f"{count} pods"


def age_of(since: str, now: datetime) -> str:
    """`3h`, from a time as the API has it."""
    try:
        began = datetime.fromisoformat(since)
    except ValueError:
        return "an unknown time"
    if began.tzinfo is None:
        began = began.replace(tzinfo=UTC)
    seconds = max(int((now - began).total_seconds()), 0)
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
