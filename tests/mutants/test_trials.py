"""Trials of a small package, in a process of its own: a trial must not have imported what it changes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROCESSES = pytest.mark.slow("runs pytest in forks for each mutant")

ROOT = Path(__file__).parents[2]
LITTLE = """
LIMIT = 3

def is_small(x):
    return x < LIMIT

def count_up(x):
    while x < 10:
        x += 1
    return x

def unnoticed():
    return 1
"""
TESTS = """
from little.code import count_up, is_small, unnoticed

def test_limit():
    assert is_small(2) and not is_small(3)

def test_count():
    assert count_up(0) == 10

def test_nothing():
    unnoticed()

def test_flaky():
    assert False
"""
CHANGES = ("LIMIT = 2", "return x <= LIMIT", "x -= 1", "return 2")
PROGRAM = """
import json, sys
from pathlib import Path
from tests.mutants.mutation import mutants_of
from tests.mutants.trials import Job, Trials

root = Path(sys.argv[1])
source = (root / "little/code.py").read_bytes()
names = [f"test_little.py::test_{name}" for name in ("limit", "count", "nothing")]
mutants = [mutant for mutant in mutants_of("little/code.py", source) if mutant.after in sys.argv[2:]]
jobs = [Job(mutant, ((names[0],), tuple(names[1:]))) for mutant in mutants]
jobs.append(Job(None, ((*names, "test_little.py::test_flaky"),)))
jobs.append(Job(jobs[0].mutant, ()))
for outcome in Trials(root, {}, at_once=2, grace_seconds=2).run(jobs):
    after = outcome.job.mutant.after if outcome.job.mutant else ""
    print(json.dumps([after, outcome.killer.rpartition("_")[2], outcome.how, outcome.tests, outcome.failed]))
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[list[object]]:
    """Of every change of the small package."""
    root = tmp_path_factory.mktemp("little")
    (root / "little").mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    (root / "little/code.py").write_text(LITTLE)
    (root / "test_little.py").write_text(TESTS)
    program = [sys.executable, "-c", PROGRAM, str(root), *CHANGES]
    done = subprocess.run(program, cwd=root, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    assert (root / "little/code.py").read_text() == LITTLE
    return [json.loads(line) for line in done.stdout.splitlines()]


@PROCESSES
@pytest.mark.parametrize(
    ("change", "killer", "how", "tests"),
    [
        pytest.param("return x <= LIMIT", "limit", "failed", 1, id="a line"),
        pytest.param("LIMIT = 2", "limit", "failed", 1, id="what runs at import"),
        pytest.param("x -= 1", "count", "hung", 2, id="an endless loop"),
        pytest.param("return 2", "", "lived", 3, id="nobody notices"),
    ],
)
def test_a_mutant_dies_at_the_first_test_that_notices(
    outcomes: list[list[object]], change: str, killer: str, how: str, tests: int
) -> None:
    assert [change, killer, how, tests] in [outcome[:4] for outcome in outcomes]


def test_without_a_mutant_all_tests_run_and_those_that_fail_are_named(outcomes: list[list[object]]) -> None:
    assert ["", "flaky", "failed", 4, ["test_little.py::test_flaky"]] in outcomes


def test_a_mutant_without_tests_has_lived(outcomes: list[list[object]]) -> None:
    assert ["LIMIT = 2", "", "lived", 0, []] in outcomes
