"""argparse with one-line errors.

The problem: argparse prints its usage, 25 lines for `run`, above the line that says what is wrong, and ends at the
first mistake. The idea: print only a line for each flag that has a wrong value, with a suggestion and a hint at
`--help`, and then what is wrong with the files that other flags name (`further_mistakes`, among a verb's defaults).
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

from kscheduler.cli.refusal import refuse
from kscheduler.config.durations import Duration, DurationError, parse_duration

# The place of a mistake, where errors of files have the file's name.
COMMAND_LINE: Final = "command line"
_WORDS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_FURTHER: Final = "further_mistakes"
_LARGEST_PORT: Final = 65535
_LONGEST_PORT: Final = 9


class Parser(argparse.ArgumentParser):
    """Prints errors as one line, with exit code 2. Parsers of subcommands have this class too."""

    def __init__(self, **settings: Any) -> None:
        """`settings` as in argparse. Flags must not be abbreviated: new flags would make abbreviations ambiguous."""
        super().__init__(**{"allow_abbrev": False, **settings})
        self._mistakes: list[str] = []
        """Of the command line that is being read."""

    def error(self, message: str) -> NoReturn:
        """End the process with what was found so far, `message` and a hint at `--help`."""
        self._end(message)

    def _end(self, message: str, *further: object) -> NoReturn:
        lines = [*self._mistakes, f"{message}; `{self.prog} --help` lists what there is"]
        for text in ("\n".join(lines), *further):
            refuse(text)
        self.exit(2)

    def _print_message(self, message: str, file: Any = None) -> None:
        """As argparse, which keeps silent where it cannot be written: help in a file on a full disk."""
        (file or sys.stderr).write(message)

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse overloads it by the namespace's type
        """As argparse, but wrong values and unknown flags are refused together, and here, where the subcommand's flags
        are known for a suggestion.
        """
        self._mistakes.clear()
        parsed, unknown = super().parse_known_args(args, namespace)
        self._mistakes += [self._unknown(word) for word in unknown[:1]]
        if self._mistakes:
            # With a word too many it is not certain which of them is the file.
            asks = getattr(parsed, _FURTHER, None) if all(word.startswith("-") for word in unknown[:1]) else None
            further = None if asks is None else asks(parsed)
            self._end(self._mistakes.pop(), *([] if further is None else [further]))
        if hasattr(parsed, _FURTHER):
            delattr(parsed, _FURTHER)
        return parsed, unknown

    def note(self, mistake: argparse.ArgumentError) -> None:
        """A flag has a wrong value: it is reported after all flags are parsed."""
        self._mistakes.append(str(mistake))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The value of a flag. Of a wrong one what argparse takes for none, so that it reads on."""
        try:
            return super()._get_values(action, arg_strings)
        except argparse.ArgumentError as mistake:
            self.note(mistake)
            return argparse.SUPPRESS

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

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, _flag: str | None = None) -> None:
        """Store the value. Raises `ArgumentError`, unless the parser collects mistakes."""
        try:
            setattr(namespace, self.dest, text(values))
        except argparse.ArgumentTypeError as error:
            mistake = argparse.ArgumentError(self, str(error))
            if not isinstance(parser, Parser):
                raise mistake from None
            parser.note(mistake)


class AppendText(StoreText):
    """Stores each `text` that is given in a list: of files that are named twice none is passed over."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, flag: str | None = None) -> None:
        """Store the value behind those before it. Raises as `StoreText`."""
        before = getattr(namespace, self.dest) or []
        setattr(namespace, self.dest, None)
        super().__call__(parser, namespace, values, flag)
        given = getattr(namespace, self.dest)
        setattr(namespace, self.dest, before if given is None else [*before, given])
