r"""Verbosity by module: klog's `--vmodule`.

    --vmodule reflector=4,pods=5,aiohttp.*=4

In klog a module is a source file without its path and `.go`. Here it is the last part of a logger's name, which for
most loggers is the source file as well: `kscheduler.informers.reflector` is the module `reflector`, all lines about
pods are the module `pods`, libraries have theirs (`aiohttp.client`: `client`). A pattern with a dot is compared with
the whole name, so `aiohttp.*` means a library with all its modules.

The rules are klog's: the first pattern that matches decides; it raises the verbosity of its module above `-v` and never
lowers it; 0 has no effect. A pattern is a shell's, as Go's `filepath.Match` reads it: `*` and `?`, classes as `[a-c]`
and `[^a-c]`, a backslash before a character that means itself. A pattern that is malformed matches nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

# As in klog, whose levels are int32.
LARGEST_LEVEL: Final = 2**31 - 1
# Modules that were renamed or joined in 0.2: their old names are understood for one version.
FORMER_NAMES: Final = {
    "failures": "failure_handler",
    "incomplete_waits": "long_waits",
    "permit_waits": "long_waits",
    "taken_pods": "foreign_bindings",
    "truth_check": "drift_check",
}
_SPECIAL: Final = frozenset("\\*?[]")


class ModuleLevel(msgspec.Struct, frozen=True):
    """A pattern and its verbosity."""

    pattern: str
    level: int

    def matches(self, logger: str) -> bool:
        """Whether the pattern is about this logger, given by its whole name."""
        name = logger if "." in self.pattern else logger.rpartition(".")[2]
        if _SPECIAL.isdisjoint(self.pattern):
            return name == self.pattern
        compiled = glob(self.pattern)
        return compiled is not None and compiled.fullmatch(name) is not None


@dataclass(slots=True)
class ModuleLevels:
    """The verbosity of every logger."""

    least: int
    """`-v`."""
    raised: Sequence[ModuleLevel] = ()
    _known: dict[str, int] = field(default_factory=dict)

    def of(self, logger: str) -> int:
        """The verbosity of a logger. Names are kept: a process has a few dozen loggers."""
        known = self._known.get(logger)
        if known is None:
            first = next((entry.level for entry in self.raised if entry.matches(logger)), 0)
            known = self._known[logger] = max(self.least, first)
        return known

    @property
    def most(self) -> int:
        """The highest verbosity that any logger may have."""
        return max((self.least, *(entry.level for entry in self.raised)))


def parse_modules(text: str) -> tuple[ModuleLevel, ...]:
    """Read `pattern=N,...`. Raises `ValueError`, which names the part that is wrong."""
    return tuple(found for part in text.split(",") if part and (found := _parse(part)).level)


def _parse(part: str) -> ModuleLevel:
    pattern, separator, level = part.partition("=")
    if not (pattern and separator and level.isascii() and level.isdecimal() and len(level) <= 10):
        message = f"{part!r} is not pattern=LEVEL"
        raise ValueError(message)
    if int(level) > LARGEST_LEVEL:
        message = f"{part!r}: the level must be at most {LARGEST_LEVEL}"
        raise ValueError(message)
    return ModuleLevel(FORMER_NAMES.get(pattern, pattern), int(level))


def glob(pattern: str) -> re.Pattern[str] | None:
    """A pattern as Go's `filepath.Match` reads it; `None` if it is malformed."""
    parts: list[str] = []
    rest = pattern
    while rest:
        first, rest = rest[0], rest[1:]
        if first == "*":
            parts.append("[^/]*")
        elif first == "?":
            parts.append("[^/]")
        elif first == "[":
            found = _character_class(rest)
            if found is None:
                return None
            parts.append(found[0])
            rest = found[1]
        elif first == "\\":
            if not rest:
                return None
            parts.append(re.escape(rest[0]))
            rest = rest[1:]
        else:
            parts.append(re.escape(first))
    return re.compile("".join(parts))


def _character_class(rest: str) -> tuple[str, str] | None:
    """The class that begins behind a `[`, and what follows its `]`: Go has `^` for "not", and no empty class."""
    is_negated = rest.startswith("^")
    rest = rest[is_negated:]
    ranges: list[str] = []
    while not (ranges and rest.startswith("]")):
        low = _member(rest)
        if low is None:
            return None
        first, rest = low
        last = first
        if rest.startswith("-"):
            high = _member(rest[1:])
            if high is None:
                return None
            last, rest = high
        # an empty range, as z-a, is allowed and holds nothing
        ranges.append(f"{re.escape(first)}-{re.escape(last)}" if first <= last else "")
    inside = "".join(ranges)
    if not inside:
        return ("." if is_negated else "(?!)"), rest[1:]
    return f"[{'^' if is_negated else ''}{inside}]", rest[1:]


def _member(rest: str) -> tuple[str, str] | None:
    """A character of a class, and what follows it."""
    if rest.startswith("\\"):
        return (rest[1], rest[2:]) if len(rest) > 1 else None
    return (rest[0], rest[1:]) if rest and rest[0] not in "-]" else None
