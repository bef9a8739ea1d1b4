"""The map of a small package, measured in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.coverage_map import KeptMap

ROOT = Path(__file__).parents[2]
CODE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
TESTS = """
import pytest
from little.code import one, two

@pytest.fixture
def fixed():
    return two()

def test_one():
    assert one() == 1

def test_fixture(fixed):
    pass

@pytest.mark.parametrize("call", [one, two])
def test_either(call):
    call()

def test_broken():
    assert one() == 2
"""
PROGRAM = """
import json, sys
from pathlib import Path
from tests.mutants.coverage_map import KeptMap, measure

root = Path(sys.argv[1])
kept = KeptMap(root, root / "kept")
failed = measure(root, "little", ["test_little.py"], ["-q", "-p", "no:cacheprovider"], kept)
known = kept.load(["test_little.py"])
lines = {line: sorted(known.tests_of("little/code.py", [line])) for line in range(1, 7)}
print(json.dumps({"failed": sorted(failed), "lines": lines}))
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder, and what was found out."""
    root = tmp_path_factory.mktemp("measured")
    (root / "little").mkdir()
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\npythonpath = ['.']\n")
    (root / "little/__init__.py").write_text("")
    (root / "little/code.py").write_text(CODE)
    (root / "test_little.py").write_text(TESTS)
    program = [sys.executable, "-c", PROGRAM, str(root)]
    done = subprocess.run(program, cwd=root, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return root, found


def names(*tests: str) -> list[str]:
    return [f"test_little.py::test_{test}" for test in tests]


def test_a_line_belongs_to_the_tests_that_run_it_fixtures_too(measured: tuple[Path, dict[str, Any]]) -> None:
    lines = measured[1]["lines"]
    assert lines["2"] == names("either[one]", "one")
    assert lines["6"] == names("either[two]", "fixture")


def test_what_runs_at_import_belongs_to_no_test(measured: tuple[Path, dict[str, Any]]) -> None:
    assert measured[1]["lines"]["1"] == []


def test_a_test_that_fails_by_itself_is_named_and_left_out(measured: tuple[Path, dict[str, Any]]) -> None:
    assert measured[1]["failed"] == names("broken")


@pytest.mark.parametrize("changed", ["little/code.py", "test_little.py"])
def test_a_part_is_stale_when_the_test_or_what_it_ran_has_changed(
    measured: tuple[Path, dict[str, Any]], changed: str
) -> None:
    root, _ = measured
    kept = KeptMap(root, root / "kept")
    assert kept.stale(["test_little.py", "test_new.py"]) == ["test_new.py"]
    before = (root / changed).read_text()
    (root / changed).write_text(before + "# changed\n")
    assert kept.stale(["test_little.py"]) == ["test_little.py"]
    (root / changed).write_text(before)
    assert kept.stale(["test_little.py"]) == []
