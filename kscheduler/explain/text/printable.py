"""Makes names from users' objects safe for a terminal."""

from typing import Any

import msgspec

from kscheduler.logs.clean import one_line


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


def some(names: list[str], most: int) -> list[str]:
    """The first `most` names, and the number of the rest."""
    shown = [printable(name) for name in names[:most]]
    return [*shown, f"and {len(names) - most} more"] if len(names) > most else shown


def json_line(tree: dict[str, Any]) -> str:
    """The object in one line. What a terminal would obey is escaped, which JSON allows: the value stays the same."""
    return one_line(msgspec.json.encode(tree).decode())
