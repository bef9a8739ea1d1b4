"""Mistakes in a configuration: the place and the problem, in kube-scheduler's words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kscheduler.config.durations import Duration

T = TypeVar("T")

# Characters of a bad value that a message repeats: a megabyte of text in an error helps no user.
LONGEST_VALUE_SHOWN = 200

# Problems that the text of an error lists; `problems` has all of them.
MAX_PROBLEMS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """A mistake. `path` is empty if the file as a whole is meant."""

    path: str
    message: str
    line: int | None = field(default=None, compare=False)
    """The line of the file, counted from 1, where it is known."""

    def __str__(self) -> str:
        """The problem in one line: `message` may contain the text of a plugin's exception."""
        return escaped(f"{self.path}: {self.message}" if self.path else self.message)


class ConfigError(ValueError):
    """A configuration that cannot be used. The text has a line for each problem: `WHERE:LINE: field.path: message`."""

    def __init__(self, problems: Iterable[Problem], where: str = "") -> None:
        self.problems: tuple[Problem, ...] = in_order_of_lines(problems)
        self.where = where
        lines = [f"{_prefix(where, problem.line)}{problem}" for problem in self.problems[:MAX_PROBLEMS_SHOWN]]
        unshown = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, f"{_prefix(where)}and {unshown} more"] if unshown else lines))


def in_order_of_lines(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """As an editor goes through the file: first those of the file as a whole, then by line, else as they were found."""
    return tuple(sorted(problems, key=lambda problem: problem.line or 0))


class SeveralMistakesError(ConfigError):
    """The mistakes of several places: the text has the lines of each, a line that comes twice once.

    What several checks have found in one file stands together, where the first of them stands.
    """

    def __init__(self, failures: Sequence[ConfigError]) -> None:
        super().__init__(problem for failure in failures for problem in failure.problems)
        of_place: dict[str, list[ConfigError]] = {}
        for index, failure in enumerate(failures):
            of_place.setdefault(failure.where or str(index), []).append(failure)
        texts = [
            str(each[0] if len(each) == 1 else ConfigError((found for one in each for found in one.problems), place))
            for place, each in of_place.items()
        ]
        self.args = ("\n".join(dict.fromkeys("\n".join(texts).split("\n"))),)


class Mistakes:
    """Collects what several checks find, so that one edit of the command line and of the file can correct it all."""

    def __init__(self) -> None:
        self._failures: list[ConfigError] = []

    def __bool__(self) -> bool:
        return bool(self._failures)

    def of(self, check: Callable[[], T]) -> T | None:
        """What the check returns; `None` if it has found a mistake, which is kept."""
        try:
            return check()
        except ConfigError as failure:
            self._failures.append(failure)
            return None

    def error(self) -> ConfigError:
        """All of them."""
        return self._failures[0] if len(self._failures) == 1 else SeveralMistakesError(self._failures)


def _prefix(where: str, line: int | None = None) -> str:
    """As compilers write it, so that editors find the place."""
    if not where:
        return ""
    return f"{where}: " if line is None else f"{where}:{line}: "


def config_error(path: str, message: str, where: str = "") -> ConfigError:
    """A `ConfigError` with a single problem."""
    return ConfigError((Problem(path, message),), where)


def invalid(path: str, value: Any, detail: str) -> Problem:
    """A value outside its range or shape."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}")


def required(path: str, detail: str = "") -> Problem:
    """A value that is missing."""
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: str, value: Any) -> Problem:
    """A value that was given before."""
    return Problem(path, f"Duplicate value: {shown(value)}")


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Problem:
    """A value that is not in a fixed list."""
    listed = ", ".join(shown(item) for item in supported)
    return Problem(path, f"Unsupported value: {shown(value)}: supported values: {listed}")


def forbidden(path: str, detail: str) -> Problem:
    """A field that must not be set here."""
    return Problem(path, f"Forbidden: {detail}")


def shown(value: Any) -> str:
    """A value for a message: text in quotes, lists as JSON, never longer than `LONGEST_VALUE_SHOWN`."""
    if isinstance(value, Duration):
        value = str(value)
    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
    except (ValueError, TypeError, RecursionError):
        text = repr(value)
    return text if len(text) <= LONGEST_VALUE_SHOWN else f"{text[:LONGEST_VALUE_SHOWN]}..."


def escaped(text: str) -> str:
    """The text in one line; what a terminal would interpret is shown as an escape of a Python literal.

    A plugin's error or a file's name may contain line ends and escape sequences: printed raw they forge lines of this
    program, or worse.
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
