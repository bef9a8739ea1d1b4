"""Do the tests notice? Draws small changes of the code and runs the tests that should fail of each: `make mutants`.

    python -m tests.mutants [--seed 0] [--count 300] [--only 'kscheduler/state/*'] [--jobs 1]

One line per mutant, then counts, then the survivors as small diffs; exit code 1 when fewer than 80 % die. The first run
measures which tests run which line (`coverage_map`), as long as the suite takes; later ones measure what has changed.
What is kept lies in `.cache/mutants`. The tree is never written to.

A kill counts only if the killing test passes without the mutant: each is run once more at the end. Mutants that
`equivalent.toml` knows are counted apart.

Why no kept tool: mutmut 3 rewrites a copy of the tree into trampolines, which the checks of a plugin's shape see, and
leaves constants and class bodies alone; cosmic-ray writes into the tree and starts pytest again for each mutant.
Neither draws a sample by seed or chooses tests by line.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path, PurePath
from typing import Final

from tests.mutants import equivalents, report
from tests.mutants.coverage_map import KeptMap, measure
from tests.mutants.mutation import Mutant
from tests.mutants.sampling import Chooser, all_mutants, draw
from tests.mutants.trials import PYTEST_ARGS, Job, Outcome, Trials, preload, signals_as_in_a_terminal

ROOT: Final = Path(__file__).parents[2]
PACKAGE: Final = "kscheduler"
# The top packages whose code is changed; what lies below them may move freely.
PACKAGES: Final = tuple(
    f"{PACKAGE}/{name}" for name in ("state", "framework", "plugins", "scheduling", "client", "informers", "config")
)
_KEPT: Final = ROOT / ".cache" / "mutants"
# Folders of tests that start kscheduler as a process, or are about this program.
_NOT_COUNTED: Final = frozenset({"e2e", "mutants"})
# Killing tests are checked in groups of so many.
_TOGETHER: Final = 25


def main() -> int:
    """The command."""
    arguments = _parser().parse_args()
    os.chdir(ROOT)
    sources = _sources()
    drawn = _drawn(sources, arguments)
    if arguments.list:
        _log_query(*map(str, drawn))
        return 0
    kept = KeptMap(ROOT, _KEPT)
    test_files = _test_files()
    _measure(kept, test_files if arguments.fresh else kept.stale(test_files))
    covered = kept.load(test_files)
    choice = Chooser(sources, covered, {path: (ROOT / path).read_bytes() for path in test_files})
    jobs = [Job(mutant, tuple(map(tuple, choice.batches(choice.tests_of(mutant))))) for mutant in drawn]
    preload()
    trials = Trials(ROOT, {name: facts.seconds for name, facts in covered.tests.items()}, at_once=arguments.jobs)
    outcomes = _tried(trials, jobs)
    _log_query(
        "", *report.table(outcomes), "", *(line for each in outcomes if each.lived for line in report.survivor(each))
    )
    _log_query(f"{report.share(outcomes):.1%} died; {report.ENOUGH:.0%} should")
    return 0 if report.share(outcomes) >= report.ENOUGH else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Do the tests notice small changes?")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--count", type=int, default=300, help="how many mutants")
    parser.add_argument("--only", default="*", help="files, as a pattern: 'kscheduler/state/*'")
    parser.add_argument("--line", default="", help="only changes of lines with this text in them")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--fresh", action="store_true", help="measure anew which tests run which line")
    parser.add_argument("--list", action="store_true", help="only say which mutants are drawn")
    return parser


def _sources() -> dict[str, bytes]:
    """All of our files by path."""
    return {str(file.relative_to(ROOT)): file.read_bytes() for file in sorted((ROOT / PACKAGE).rglob("*.py"))}


def _test_files() -> list[str]:
    files = (file.relative_to(ROOT) for file in sorted((ROOT / "tests").rglob("test_*.py")))
    return [str(file) for file in files if _NOT_COUNTED.isdisjoint(file.parts)]


def _drawn(sources: dict[str, bytes], arguments: argparse.Namespace) -> list[Mutant]:
    """The sample, without what is known to be equivalent."""
    known = equivalents.read()
    everything = all_mutants(sources, PACKAGES, arguments.only)
    mutants = [mutant for mutant in everything if arguments.line in mutant.before]
    drawn = draw(mutants, arguments.seed, arguments.count)
    left = [mutant for mutant in drawn if not any(entry.fits(mutant) for entry in known)]
    _log_query(
        f"{len(everything)} changes are possible; {len(drawn)} drawn, {len(drawn) - len(left)} of them equivalent"
    )
    return left


def _measure(kept: KeptMap, test_files: Sequence[str]) -> None:
    """A fork per folder: what was measured is kept when a later folder fails."""
    for folder, files in groupby(test_files, lambda path: str(PurePath(path).parent)):
        began = time.monotonic()
        pid = os.fork()
        if pid == 0:
            signals_as_in_a_terminal()
            failed = measure(ROOT, PACKAGE, list(files), [*PYTEST_ARGS, "--no-summary", "--quiet"], kept)
            _log_query(*(f"{name} fails without any mutant" for name in sorted(failed)))
            os._exit(0)
        os.waitpid(pid, 0)
        _log_query(f"measured {folder} in {time.monotonic() - began:.0f} s")


def _tried(trials: Trials, jobs: list[Job]) -> list[Outcome]:
    """Every mutant's end. A test that fails without the mutant too has killed nobody: it is left out, and again."""
    outcomes: list[Outcome] = []
    while jobs:
        fresh = list(_reported(trials.run(jobs)))
        unsound = _failing_anyway(trials, fresh)
        outcomes += [outcome for outcome in fresh if outcome.killer not in unsound]
        jobs = [_without(outcome, unsound) for outcome in fresh if outcome.killer in unsound]
    return outcomes


def _reported(outcomes: Iterable[Outcome]) -> Iterable[Outcome]:
    for outcome in outcomes:
        _log_query(report.line(outcome))
        yield outcome


def _failing_anyway(trials: Trials, outcomes: Iterable[Outcome]) -> set[str]:
    """Of the tests that have killed, those that fail by themselves."""
    killers = sorted({outcome.killer for outcome in outcomes if "::" in outcome.killer})
    checks = [Job(None, (tuple(killers[first : first + _TOGETHER]),)) for first in range(0, len(killers), _TOGETHER)]
    failing = {name for checked in trials.run(checks) for name in checked.failed}
    _log_query(*(f"{name} fails without any mutant: it has killed nobody" for name in sorted(failing)))
    return failing


def _without(outcome: Outcome, tests: set[str]) -> Job:
    batches = (tuple(name for name in batch if name not in tests) for batch in outcome.job.batches)
    return Job(outcome.job.mutant, tuple(batch for batch in batches if batch))


def _log_query(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
