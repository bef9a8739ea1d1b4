"""SourceText text with its lines, and how an error points into it."""

import re
from bisect import bisect_right
from dataclasses import dataclass, field

import msgspec

# Line and column of an error that has no place.
NO_LOCATION = (-1, -1)

_NARROW, _WIDE = re.compile(r"[\x00-\x7f]"), re.compile(r"[^\x00-\x7f]")
_LONGEST_SNIPPET = 16384
_MAX_ISSUES = 100


class SourceText:
    """An expression as text; offsets count code points, lines end at a newline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_starts = [0, *(at + 1 for at, letter in enumerate(text) if letter == "\n")]

    def location(self, offset: int) -> tuple[int, int]:
        """Line (from 1) and column (from 0) of an offset; offsets behind the end are in the last line."""
        if not self.text:
            return 1, -1
        line = max(bisect_right(self._line_starts, offset), 1)
        return line, offset - self._line_starts[line - 1]

    def offset(self, line: int, column: int) -> int:
        """The offset of a line (from 1) and a column (from 0); -1 for a line that is not there."""
        return self._line_starts[line - 1] + column if 0 < line <= len(self._line_starts) else -1

    def snippet(self, line: int) -> str | None:
        """The text of a line, or None if there is none to show."""
        if not 0 < line <= len(self._line_starts) or not self.text:
            return None
        start = self._line_starts[line - 1]
        end = self._line_starts[line] - 1 if line < len(self._line_starts) else None
        return self.text[start:end]


class Issue(msgspec.Struct, frozen=True):
    """An error in an expression: line (from 1), column (from 0), and what is wrong."""

    location: tuple[int, int]
    message: str

    def shown(self, source: SourceText) -> str:
        """The error with its line and a mark below the column."""
        line, column = self.location
        text = f"ERROR: <input>:{line}:{column + 1}: {self.message}"
        snippet = source.snippet(line)
        if snippet is None or len(snippet.encode("utf-8", "surrogatepass")) > _LONGEST_SNIPPET:
            return text
        snippet = snippet.replace("\t", " ")
        dots = _WIDE.sub("．", _NARROW.sub(".", snippet[: max(column, 0)]))
        mark = "^" if column >= len(snippet) or snippet[max(column, 0)].isascii() else "＾"
        return f"{text}\n | {snippet}\n | {dots}{mark}"


@dataclass(slots=True)
class Issues:
    """All errors of an expression, shown in the order of their places."""

    source: SourceText
    found: list[Issue] = field(default_factory=list)
    count: int = 0

    def add(self, location: tuple[int, int], message: str) -> None:
        """Keep an error; beyond a hundred they are only counted."""
        self.count += 1
        if self.count <= _MAX_ISSUES:
            self.found.append(Issue(location, message))

    def shown(self) -> str:
        """The errors, one after the other."""
        texts = [issue.shown(self.source) for issue in sorted(self.found, key=lambda issue: issue.location)]
        if self.count > _MAX_ISSUES:
            texts.append(f"{self.count - _MAX_ISSUES} more errors were truncated")
        return "\n".join(texts)
