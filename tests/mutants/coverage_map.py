"""Which tests run a line: measured once with coverage.py, kept between runs, and repaired where something changed.

A trial of a mutant runs only tests that can notice it, so each line needs the list of its tests. coverage.py keeps a
context per line; here the context is the id of the test, set-up and tear-down included. The map is kept by test file:
one file's part is stale when the test file has changed, or a source file of which it has run a line. Only stale parts
are measured again, so a new test costs its own time and not the suite's.

Limits: what runs while a module is imported belongs to no test (`sampling` finds tests for such lines by name). What a
test does in another process is not seen. A change of a file beside the tests (`tests/builders.py`) makes no part stale:
`--fresh` measures everything.
"""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import coverage
import pytest

from tests.mutants.steady_hypothesis import SteadyHypothesis


@dataclass(frozen=True)
class RunFacts:
    """What one test has run."""

    seconds: float
    """With coverage measured, which makes a test about twice as slow."""
    lines: dict[str, list[int]]
    """Line numbers by source file, ascending. Lines of import time are left out."""

    @property
    def size(self) -> int:
        """How many lines it has run: a test that runs few is about these."""
        return sum(map(len, self.lines.values()))


@dataclass(frozen=True)
class Part:
    """What the tests of one file have run. Tests that failed are left out: they can tell nothing about a mutant."""

    digests: dict[str, str]
    """Of the test file and of each source file of which a line was run: the part holds while these are the same."""
    tests: dict[str, RunFacts]

    def is_current(self, root: Path) -> bool:
        """Whether nothing that was run has changed since."""
        return all(_digest(root / path) == digest for path, digest in self.digests.items())


class CoverageMap:
    """Tests by line, and what each of them costs."""

    def __init__(self, parts: Iterable[Part]) -> None:
        """Join the parts."""
        self.tests: dict[str, RunFacts] = {}
        self._by_line: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        for part in parts:
            self.tests |= part.tests
            for name, facts in part.tests.items():
                for path, lines in facts.lines.items():
                    for line in lines:
                        self._by_line[path][line].append(name)

    def tests_of(self, path: str, lines: Iterable[int]) -> set[str]:
        """The tests that run any of the lines."""
        by_line = self._by_line.get(path, {})
        return {name for line in lines for name in by_line.get(line, ())}


class KeptMap:
    """The map in a folder, one JSON file per test file."""

    def __init__(self, root: Path, folder: Path) -> None:
        """`root`: of the repository, to which all paths are relative."""
        self._root = root
        self._folder = folder

    def stale(self, test_files: Iterable[str]) -> list[str]:
        """The test files that have to be measured (again)."""
        return [path for path in test_files if (part := self._read(path)) is None or not part.is_current(self._root)]

    def load(self, test_files: Iterable[str]) -> CoverageMap:
        """Everything that is kept about these files, stale or not."""
        return CoverageMap(part for path in test_files if (part := self._read(path)) is not None)

    def keep(self, test_file: str, tests: dict[str, RunFacts]) -> None:
        """Replace what is known of a test file."""
        touched = {test_file, *(path for facts in tests.values() for path in facts.lines)}
        digests = {path: _digest(self._root / path) for path in sorted(touched)}
        kept = self._file(test_file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(asdict(Part(digests, tests))))

    def _read(self, test_file: str) -> Part | None:
        kept = self._file(test_file)
        if not kept.exists():
            return None
        tree = json.loads(kept.read_text())
        return Part(tree["digests"], {name: RunFacts(**facts) for name, facts in tree["tests"].items()})

    def _file(self, test_file: str) -> Path:
        return self._folder / (test_file.replace("/", "__") + ".json")


def _digest(path: Path) -> str:
    """Of a file's content; of a file that is gone, nothing."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.exists() else ""


class Recorder:
    """A pytest plugin: tells coverage.py which test runs, and keeps how long each took and whether it passed."""

    def __init__(self, measured: coverage.Coverage) -> None:
        """`measured` is running."""
        self._coverage = measured
        self.seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._skipped: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Everything that happens for a test belongs to it, fixtures too."""
        self._coverage.switch_context(item.nodeid)
        started = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[item.nodeid] = time.perf_counter() - started
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep who is of no use."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.skipped:
            self._skipped.add(report.nodeid)

    def passed(self) -> dict[str, float]:
        """Seconds of each test that passed."""
        return {name: taken for name, taken in self.seconds.items() if name not in self._failed | self._skipped}

    @property
    def failed(self) -> frozenset[str]:
        """Tests that failed: under coverage's weight, or because the tree is broken."""
        return frozenset(self._failed)


def measure(root: Path, package: str, test_files: list[str], pytest_args: list[str], kept: KeptMap) -> frozenset[str]:
    """Run the test files under coverage and keep their parts; gives the tests that failed.

    To be called in a process that has not imported `package` yet and ends afterwards: pytest and coverage leave their
    traces in it.
    """
    measured = coverage.Coverage(data_file=None, source_pkgs=[package], config_file=False, messages=False)
    measured.set_option("run:disable_warnings", ["no-data-collected", "module-not-imported", "module-not-measured"])
    measured.start()
    recorder = Recorder(measured)
    try:
        pytest.main([*pytest_args, *test_files], plugins=[recorder, SteadyHypothesis()])
    finally:
        measured.stop()
    by_file: dict[str, dict[str, RunFacts]] = {path: {} for path in test_files}
    lines = _lines_by_test(measured.get_data(), root)
    for name, seconds in recorder.passed().items():
        by_file.setdefault(name.partition("::")[0], {})[name] = RunFacts(round(seconds, 4), lines.get(name, {}))
    for path, tests in by_file.items():
        kept.keep(path, tests)
    return recorder.failed


def _lines_by_test(data: coverage.CoverageData, root: Path) -> dict[str, dict[str, list[int]]]:
    """Test -> source file -> lines, ascending."""
    lines: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for path in data.measured_files():
        relative = str(Path(path).relative_to(root))
        by_test: dict[str, list[int]] = defaultdict(list)
        for line, names in data.contexts_by_lineno(path).items():
            for name in names:
                if name:
                    by_test[name].append(line)
        for name, numbers in by_test.items():
            lines[name][relative] = sorted(numbers)
    return lines
