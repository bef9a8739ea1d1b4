"""argparse, with refusals that a person reads at a glance.

The problem: argparse prints its usage, 25 lines for `run`, above the one line that says what is wrong. The idea: only
that line, what was probably meant, and where the flags are listed.
"""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

COMMAND_LINE: Final = "command line"
"""Where a mistake is, in place of a file's name."""
_LARGEST_PORT: Final = 65535
_LONGEST_PORT: Final = 9


class Parser(argparse.ArgumentParser):
    """Refuses in one line with exit code 2. Parsers of subcommands are of this class too."""

    def __init__(self, **settings: Any) -> None:
        """`settings` as argparse has them; flags may not be shortened: a new flag would change what they mean."""
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        """End the process: `message`, and how to see what there is."""
        self.exit(2, f"kscheduler: {message}; `{self.prog} --help` lists what there is\n")

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse overloads it by the namespace's type
        """As argparse, but nothing unknown comes back: each parser knows best what its own flags are called."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return known, unknown

    def _unknown(self, given: str) -> str:
        if not given.startswith("-"):
            return f"{given!r} is one argument too many"
        flag = given.partition("=")[0]
        near = get_close_matches(flag, self._option_string_actions, n=1, cutoff=0.7)
        meant = f"; did you mean {near[0]}?" if near else ""
        return f"unknown flag {flag}{meant}"


def text(given: str) -> str:
    """A name, path, address or URL on the command line: not nothing. Raises `ArgumentTypeError`.

    `--flag "$UNSET"` is a mistake; to take it for the default hides it, and an empty name may mean another's pods.
    """
    if not given.strip():
        raise argparse.ArgumentTypeError("it is empty: give a value, or leave the flag out")
    return given


def port(given: str) -> int:
    """A TCP port or 0. Raises `ArgumentTypeError`."""
    if not (given.isascii() and given.isdecimal() and len(given) <= _LONGEST_PORT and int(given) <= _LARGEST_PORT):
        raise argparse.ArgumentTypeError(f"{given!r} must be between 0 and {_LARGEST_PORT}")
    return int(given)


class StoreText(argparse.Action):
    """Stores a `text`; as an action, because argparse would pass a default of "" through `type` too."""

    def __call__(self, _parser: Any, namespace: argparse.Namespace, values: Any, _flag: str | None = None) -> None:
        """What was given. Raises `ArgumentError`."""
        try:
            setattr(namespace, self.dest, text(values))
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from None
