"""The mutants that are known to be equivalent: `equivalent.toml`, matched by content."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.mutation import Mutant

FILE: Final = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Equivalent:
    """One entry."""

    file: str
    scope: str
    """The function or class, by its qualified name; empty at the top of the module."""
    before: str
    after: str
    """The changed lines, joined and without indentation."""
    why: str
    above: str = ""
    """The line above, where the function has the same line twice."""

    def fits(self, mutant: Mutant) -> bool:
        """Whether this is the mutant."""
        theirs = (mutant.path, mutant.scope, mutant.before, mutant.after)
        is_same = (self.file, self.scope, self.before, self.after) == theirs
        return is_same and self.above in ("", mutant.above)


def read(file: Path = FILE) -> list[Equivalent]:
    """All entries."""
    return [Equivalent(**entry) for entry in tomllib.loads(file.read_text()).get("equivalent", [])]


def unfit(entries: Iterable[Equivalent], mutants: Iterable[Mutant]) -> list[Equivalent]:
    """The entries that fit no mutant any more (their line has changed, or their file has moved), or several."""
    known = list(mutants)
    return [entry for entry in entries if sum(entry.fits(mutant) for mutant in known) != 1]
