"""argparse with one-line errors.

The problem: argparse prints its usage, 25 lines for `run`, above the line that says what is wrong. The idea: print only
that line, with a suggestion and a hint at `--help`.
"""

import argparse
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from kscheduler.config.durations import Duration, DurationError, parse_duration

COMMAND_LINE: Final = "command line"
"""The place of a mistake, where errors of files have the file's name."""
_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_LARGEST_PORT: Final = 65535
_LONGEST_PORT: Final = 9


class Parser(argparse.ArgumentParser):
    """Prints errors as one line, with exit code 2. Parsers of subcommands have this class too."""

    def __init__(self, **settings: Any) -> None:
        """`settings` as in argparse. Flags must not be abbreviated: new flags would make abbreviations ambiguous."""
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """End the process with `message` and a hint at `--help`."""
        self.exit(2, f"kscheduler: {message}; `{self.prog} --help` lists what there is\n")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse overloads it by the namespace's type
        """As argparse, but unknown flags are refused here, where the subcommand's flags are known for a suggestion."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return parsed, unknown

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one argument too many"
        flag = word.partition("=")[0]
        near = get_close_matches(flag, self._option_string_actions, n=1, cutoff=0.7)
        suggestion = f"; did you mean {near[0]}?" if near else ""
        return f"unknown flag {flag}{suggestion}"


def boolean(value: str) -> bool:
    """A boolean as Go reads it. Raises `ArgumentTypeError`."""
    if value not in _WORDS:
        raise argparse.ArgumentTypeError(f"{value!r} is neither true nor false")
    return _WORDS[value]


def duration(value: str) -> Duration:
    """A duration such as `15s` or `1m30s`. Raises `ArgumentTypeError`."""
    try:
        return parse_duration(value)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def text(value: str) -> str:
    """A name, path, address or URL that is not empty. Raises `ArgumentTypeError`.

    `--flag "$UNSET"` is a mistake that the default would hide; an empty scheduler name could even mean other pods.
    """
    if not value.strip():
        raise argparse.ArgumentTypeError("it is empty: give a value, or leave the flag out")
    return value


def port(value: str) -> int:
    """A TCP port or 0. Raises `ArgumentTypeError`."""
    if not (value.isascii() and value.isdecimal() and len(value) <= _LONGEST_PORT and int(value) <= _LARGEST_PORT):
        raise argparse.ArgumentTypeError(f"{value!r} must be between 0 and {_LARGEST_PORT}")
    return int(value)


class StoreText(argparse.Action):
    """Stores a `text`. An action rather than a `type`, which argparse would also apply to the default ""."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _flag: str | None = None) -> None:
        """Store the value. Raises `ArgumentError`."""
        try:
            setattr(namespace, self.dest, text(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
