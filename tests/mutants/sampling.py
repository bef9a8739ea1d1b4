"""Which mutants are tried, and which tests can notice each.

The draw goes by content: every line that can be changed gets a number from the seed, its text and the function around
it, and the lowest numbers are drawn, one change a line. A file that moves, or a line that is added elsewhere, leaves
the rest of the sample as it was, so that two figures of one seed can be compared over weeks.
"""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Final

from tests.mutants.coverage_map import CoverageMap
from tests.mutants.mutation import Mutant, mutants_of
from tests.mutants.name_uses import NameUses

FIRST_SECONDS: Final = 2.0
# The first batch of tests is small: most mutants die in it, and few test files have to be imported.
_FIRST_FILES: Final = 3
# Of tests per mutant, as the map measured them. Who lives longer has lived.
BUDGET_SECONDS: Final = 30.0
_QUICK_SECONDS: Final = 0.02
_WORD: Final = re.compile(r"\w+")


def all_mutants(sources: Mapping[str, bytes], packages: Iterable[str], only: str = "*") -> list[Mutant]:
    """Every change of every file below the packages whose path matches `only`."""
    within = tuple(f"{package.rstrip('/')}/" for package in packages)
    paths = [path for path in sources if path.startswith(within) and fnmatch(path, only)]
    return [mutant for path in sorted(paths) for mutant in mutants_of(path, sources[path])]


def draw(mutants: Iterable[Mutant], seed: int, count: int) -> list[Mutant]:
    """At most `count` mutants, each of another line."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_line[mutant.path, mutant.line].append(mutant)

    def line_number(line: list[Mutant]) -> str:
        return _lot(seed, line[0].scope, line[0].before)

    lines = sorted(by_line.values(), key=line_number)[:count]
    return [min(line, key=lambda mutant: _lot(seed, mutant.after)) for line in lines]


def _lot(seed: int, *content: str) -> str:
    return hashlib.sha256("\0".join((str(seed), *content)).encode()).hexdigest()


class Chooser:
    """Tests by mutant."""

    def __init__(self, sources: Mapping[str, bytes], covered: CoverageMap, tests: Mapping[str, bytes]) -> None:
        """`sources`: the whole package, for names that are used elsewhere; `tests`: the test files, for the same."""
        self._covered = covered
        self._uses = NameUses(sources)
        self._sources = sources
        self._words = {path: frozenset(_WORD.findall(source.decode())) for path, source in tests.items()}

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Those that run the changed statement, the quickest and most specific first."""
        if mutant.function is not None:
            names = self._covered.tests_of(mutant.path, mutant.header)
        else:
            names = self._tests_by_name(mutant)
        return self._in_order(names)

    def batches(self, tests: list[str]) -> Iterator[list[str]]:
        """A small one out of few files, and all others that fit in the budget."""
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests))[:_FIRST_FILES]
        first = self._within(FIRST_SECONDS, [name for name in tests if name.partition("::")[0] in files])
        rest = self._within(BUDGET_SECONDS, [name for name in tests if name not in set(first)])
        yield from (batch for batch in (first, rest) if batch)

    def _within(self, seconds: float, tests: Iterable[str]) -> list[str]:
        """As many as fit, and one at least: a test that takes longer may be the only one."""
        batch: list[str] = []
        for name in tests:
            seconds -= self._covered.tests[name].seconds
            if batch and seconds < 0:
                break
            batch.append(name)
        return batch

    def _tests_by_name(self, mutant: Mutant) -> set[str]:
        lines: dict[str, set[int]] = defaultdict(set)
        for path, line in self._uses.lines(mutant.names):
            lines[path].add(line)
        tests = {name for path, numbers in lines.items() for name in self._covered.tests_of(path, numbers)}
        constants = {name for name in mutant.names if name.isupper()}
        files = {path for path, words in self._words.items() if not words.isdisjoint(constants)}
        tests |= {name for name in self._covered.tests if name.partition("::")[0] in files}
        return tests or self._covered.tests_of(mutant.path, range(1, self._sources[mutant.path].count(b"\n") + 2))

    def _in_order(self, names: Iterable[str]) -> list[str]:
        """By time in coarse steps; within a step the first case of each test function, then the second; small first."""
        seen: dict[str, int] = defaultdict(int)

        def place(name: str) -> tuple[int, int, int, str]:
            facts = self._covered.tests[name]
            step = math.floor(math.log2(max(1.0, facts.seconds / _QUICK_SECONDS)) / 2)
            function = name.partition("[")[0]
            seen[function] += 1
            return step, seen[function], facts.size, name

        return [name for *_, name in sorted(place(name) for name in sorted(names))]
