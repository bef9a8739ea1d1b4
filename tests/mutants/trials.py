"""Tests against mutants, each batch in a process of its own.

A trial is a fork of this process, which has imported pytest and everything heavy but none of our modules: the fork
sees the mutant from its first import on, constants and class bodies too, and no mutant pays for numpy. It reports over
a pipe which test it is at, and ends at the first that fails. A test that takes ten times as long as it should has
noticed the mutant by hanging; so has one that eats all memory, or an import that raises. The fork's process group ends
with it. Where this process was killed, the fork ends at its next test, or by SIGALRM when that takes too long.
"""

import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.mutated_import import MutatedImport
from tests.mutants.mutation import Mutant
from tests.mutants.steady_hypothesis import SteadyHypothesis

# Imported once, before the forks.
_HEAVY: Final = (
    "aiohttp.web",
    "hypothesis.stateful",
    "hypothesis.strategies",
    "jsonschema",
    "kubernetes_asyncio.client",
    "kubernetes_asyncio.config",
    "msgspec",
    "numpy",
    "prometheus_client",
    "structlog",
    "yaml",
)
# Hypothesis is imported before pytest could rewrite its assertions, which are no concern of ours.
PYTEST_ARGS: Final = ("-q", "--tb=no", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_IMPORT_SECONDS: Final = 60.0
# A test may take this many times as long as it took for the map.
_PATIENCE: Final = 10.0
# And this beyond: others may be busy.
_GRACE_SECONDS: Final = 20.0
# Bytes that a trial may take beyond what this process has.
_MEMORY: Final = 4 << 30
# A fork that nobody ends does so itself, so much later.
_ORPHAN_SECONDS: Final = 10


@dataclass(frozen=True)
class Job:
    """A mutant and the tests that it has to pass, in batches; without a mutant the tests have to pass by themselves."""

    mutant: Mutant | None
    batches: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    job: Job
    killer: str
    """The test that noticed; a test file where the import failed; empty if nobody noticed."""
    how: str
    failed: tuple[str, ...]
    """All tests that failed: with a mutant the first ends the trial, without one all are run."""
    tests: int
    """How many were run."""
    seconds: float

    @property
    def lived(self) -> bool:
        """Whether nobody noticed."""
        return not self.killer


def signals_as_in_a_terminal() -> None:
    """Under nohup, or behind `&` in a script, some are ignored, and tests send them."""
    for each in (signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def preload() -> None:
    """Import what is heavy. Our own modules must not come with it."""
    for name in _HEAVY:
        import_module(name)


class Trials:
    """Runs jobs, so many at once."""

    def __init__(
        self, root: Path, seconds: dict[str, float], *, at_once: int = 1, grace_seconds: float = _GRACE_SECONDS
    ) -> None:
        """`seconds`: how long each test should take."""
        self._root = root
        self._grace_seconds = grace_seconds
        self._seconds = seconds
        self._at_once = at_once

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """Outcomes as they come."""
        waiting = [_Course(job) for job in jobs]
        waiting.reverse()
        running: list[_Trial] = []
        try:
            while waiting or running:
                while waiting and len(running) < self._at_once:
                    course = waiting.pop()
                    if course.is_over:
                        yield course.outcome()
                    else:
                        running.append(_Trial(course, self._root, self._seconds, self._grace_seconds))
                for trial in _heard(running) if running else ():
                    running.remove(trial)
                    waiting.append(trial.end())
        finally:
            for trial in running:
                trial.end()


class _Course:
    """A job on its way through its batches."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._failed: list[str] = []
        self._how = "lived"
        self._tests = 0
        self._at = 0
        self._began = 0.0

    @property
    def batch(self) -> tuple[str, ...]:
        return self.job.batches[self._at]

    def begin(self) -> None:
        self._began = self._began or time.monotonic()

    @property
    def is_over(self) -> bool:
        has_died = self.job.mutant is not None and bool(self._failed)
        return has_died or self._at >= len(self.job.batches)

    def batch_is_done(self, failed: list[str], how: str, tests: int) -> None:
        self._at += 1
        self._tests += tests
        self._failed += failed
        self._how = how or self._how

    def outcome(self) -> Outcome:
        killer = self._failed[0] if self._failed else ""
        seconds = time.monotonic() - self._began if self._began else 0.0
        return Outcome(self.job, killer, self._how, tuple(self._failed), self._tests, seconds)


class _Trial:
    """One batch in a fork: what it says over its pipe, and how long it may be silent."""

    def __init__(self, course: _Course, root: Path, seconds: dict[str, float], grace_seconds: float) -> None:
        course.begin()
        self._course = course
        self._limits = {name: grace_seconds + _PATIENCE * seconds.get(name, 0.0) for name in course.batch}
        self._scratch = tempfile.mkdtemp(prefix="kscheduler-mutant-")
        self._heard = b""
        self._at = course.batch[0].partition("::")[0]
        self._tests = 0
        self._failed: list[str] = []
        self._how = ""
        self._ended = False
        self.deadline = time.monotonic() + _IMPORT_SECONDS
        self.pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _be_the_trial(course, root, writing, self._scratch, self._limits)
        os.close(writing)

    def listen(self) -> bool:
        """Take what has been said; True if there will be no more."""
        said = os.read(self.pipe, 65536)
        *lines, self._heard = (self._heard + said).split(b"\n")
        for line in lines:
            word, _, rest = line.decode().partition(" ")
            self._take(word, rest)
        return not said

    def hangs(self) -> None:
        """It has been silent for too long."""
        self._fails(self._at, "hung")

    def end(self) -> _Course:
        """Give back the job, moved on. Whatever the fork has started ends."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self._pid, signal.SIGKILL)  # it has not come to be a group of its own
        os.waitpid(self._pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self._scratch, ignore_errors=True)
        if not self._ended and not self._failed:
            self._fails(self._at, "crashed")
        self._course.batch_is_done(self._failed, self._how, self._tests)
        return self._course

    def _take(self, word: str, rest: str) -> None:
        if word == "start":
            self._at = rest
            self._tests += 1
            self.deadline = time.monotonic() + self._limits[rest]
        elif word == "failed":
            self._fails(rest, "failed")
        elif word == "end":
            self._ended = True
            if rest not in ("0", "5") and not self._failed:
                self._fails(self._at, f"pytest said {rest}")

    def _fails(self, name: str, how: str) -> None:
        self._failed.append(name)
        self._how = self._how or how


def _heard(running: Sequence[_Trial]) -> list[_Trial]:
    """Wait until something is said or overdue; gives the trials that are over."""
    soonest = min(trial.deadline for trial in running)
    speaking, _, _ = select.select([trial.pipe for trial in running], [], [], max(0.0, soonest - time.monotonic()))
    over = [trial for trial in running if trial.pipe in speaking and trial.listen()]
    late = [trial for trial in running if trial.pipe not in speaking and trial.deadline <= time.monotonic()]
    for trial in late:
        trial.hangs()
    return over + late


def _be_the_trial(course: _Course, root: Path, pipe: int, scratch: str, limits: dict[str, float]) -> None:
    """What the fork does: the tests, and no return."""
    code: int | str = "nothing"
    try:
        os.setsid()
        signal.alarm(int(_IMPORT_SECONDS) + _ORPHAN_SECONDS)
        signals_as_in_a_terminal()
        _limit_memory()
        _be_silent(scratch)
        os.environ |= {"HYPOTHESIS_STORAGE_DIRECTORY": scratch, "PYTEST_DEBUG_TEMPROOT": scratch}
        if course.job.mutant is not None:
            MutatedImport(root, course.job.mutant).install()
        files = list(dict.fromkeys(name.partition("::")[0] for name in course.batch))
        plugins = [SteadyHypothesis(), _OnlyThese(limits, pipe)]
        to_the_first = ["-x"] if course.job.mutant is not None else []
        code = int(pytest.main([*PYTEST_ARGS, *to_the_first, *files], plugins=plugins))
    finally:
        os.write(pipe, f"end {code}\n".encode())
        os._exit(0)


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY,) * 2)


def _be_silent(scratch: str) -> None:
    """What the tests print is kept until the trial is over, for a look into it with a debugger."""
    output = os.open(Path(scratch, "output"), os.O_CREAT | os.O_WRONLY, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for place, file in ((0, nothing), (1, output), (2, output)):
        os.dup2(file, place)


class _OnlyThese:
    """A pytest plugin: these tests in this order, and word of each over a pipe."""

    def __init__(self, limits: dict[str, float], pipe: int) -> None:
        """`limits`: seconds by test, in the order in which they are run."""
        self._limits = limits
        self._pipe = pipe

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self._limits if name in by_name]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._log_query("start", nodeid)
        signal.alarm(int(self._limits[nodeid]) + _ORPHAN_SECONDS)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._log_query("failed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._log_query("failed", report.nodeid)

    def _log_query(self, word: str, rest: str) -> None:
        os.write(self._pipe, f"{word} {rest}\n".encode())
