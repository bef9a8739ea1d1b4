"""Limits of calls per pod: a count above fails and names functions; limits go down freely, and up with a reason."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from benchmarks import calls
from kscheduler.bench.calls import CallsPerPod, python_version
from kscheduler.bench.catalogue import SCENARIOS

Captured = pytest.CaptureFixture[str]


def count(
    python: float = 400.0, builtin: float = 200.0, name: str = "SchedulingBasic", **functions: float
) -> CallsPerPod:
    by_function = {"a.py:f": 10.0, "builtin:len": 20.0, **{f"a.py:{name}": n for name, n in functions.items()}}
    return CallsPerPod(name, 300, 1000, 200, python_version(), "2.4", python, builtin, by_function)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Limits of 400 and 200 calls."""
    file = tmp_path / "calls.json"
    calls.write(file, calls.lowered(calls.Limits(python_version(), "2.4", {}), [count()]))
    return file


def run(file: Path, *flags: str, counted: Iterable[CallsPerPod]) -> int:
    return calls.run(calls.parse(["--limits", str(file), *flags]), counted)


def limit(file: Path, name: str = "SchedulingBasic") -> calls.Limit:
    return calls.read(file).scenarios[name]


@pytest.mark.parametrize(
    ("python", "builtin", "code", "text"),
    [
        pytest.param(400.0, 200.0, 0, "limit 400.0), 200.0 builtin (limit 200.0)\n", id="as before"),
        pytest.param(400.8, 200.5, 0, "limit 200.0)\n", id="within tolerance"),
        pytest.param(401.0, 200.0, 1, "above the limit: SchedulingBasic", id="a call of Python more"),
        pytest.param(400.0, 201.0, 1, "above the limit: SchedulingBasic", id="a call of a builtin function more"),
        pytest.param(390.0, 201.0, 1, "above the limit: SchedulingBasic", id="one lower and the other higher"),
        pytest.param(398.0, 200.0, 0, "lower the limit", id="lower"),
    ],
)
def test_a_count_is_judged_by_its_limit(
    python: float, builtin: float, code: int, text: str, file: Path, capsys: Captured
) -> None:
    before = file.read_bytes()
    assert run(file, counted=[count(python, builtin)]) == code
    assert text in capsys.readouterr().out
    assert file.read_bytes() == before


def test_what_is_called_more_is_named(file: Path, capsys: Captured) -> None:
    assert run(file, counted=[count(404.0, added=4.0, rare=0.3)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "SchedulingBasic: 404.0 Python (limit 400.0), 200.0 builtin (limit 200.0): ABOVE" in lines
    assert [line for line in lines if line.startswith("  ")] == ["      +4.00  a.py:added"]


def test_writing_lowers_limits_and_keeps_the_functions_of_the_new_count(file: Path) -> None:
    assert run(file, "--write", counted=[count(390.0, 200.3, added=2.0)]) == 0
    assert (limit(file).python_calls_per_pod, limit(file).builtin_calls_per_pod) == (390.0, 200.0)
    assert limit(file).by_function == {"a.py:f": 10, "a.py:added": 2, "builtin:len": 20}
    assert limit(file).why == ()


def test_writing_without_a_reason_raises_nothing(file: Path) -> None:
    before = file.read_bytes()
    assert run(file, "--write", counted=[count(410.0, 190.0)]) == 1
    assert file.read_bytes() == before


def test_a_limit_is_raised_with_a_reason_that_stays(file: Path) -> None:
    assert run(file, "--raise", "pods have two heads", counted=[count(410.0)]) == 0
    assert limit(file).why == ("400.0 to 410.0 Python, 200.0 to 200.0 builtin: pods have two heads",)
    assert run(file, "--write", counted=[count(405.0)]) == 0
    assert (limit(file).python_calls_per_pod, len(limit(file).why)) == (405.0, 1)


@pytest.mark.parametrize("why", ["", "  "])
def test_raising_needs_a_reason(why: str, file: Path, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        run(file, "--raise", why, counted=[])
    assert "--raise needs a reason" in capsys.readouterr().err


def test_a_raise_leaves_limits_that_are_not_exceeded(file: Path) -> None:
    assert run(file, "--raise", "why", counted=[count(400.5, 200.0)]) == 0
    assert (limit(file).python_calls_per_pod, limit(file).why) == (400.0, ())


def test_a_scenario_without_a_limit_fails_until_it_is_written(file: Path, capsys: Captured) -> None:
    new = count(name="GangScheduling")
    assert run(file, counted=[new]) == 1
    assert "GangScheduling: no limit yet" in capsys.readouterr().out
    assert run(file, "--write", counted=[new]) == 0
    assert run(file, counted=[new, count()]) == 0


def test_another_python_is_not_compared_and_moves_to_it_with_a_reason(file: Path, capsys: Captured) -> None:
    old = msgspec.structs.replace(calls.read(file), python="3.1")
    calls.write(file, old)
    assert run(file, counted=[count(900.0)]) == 0
    assert "the limits are of Python 3.1" in capsys.readouterr().out
    assert run(file, "--write", counted=[count(900.0)]) == 2
    assert calls.read(file) == old
    assert run(file, "--raise", "a new Python", counted=[count(900.0)]) == 0
    assert (calls.read(file).python, limit(file).python_calls_per_pod) == (python_version(), 900.0)
    assert limit(file).why == ("counted anew on Python " + python_version() + ": a new Python",)


def test_the_functions_of_a_file_stand_in_one_line(file: Path) -> None:
    assert '    "a.py": {"f": 10},' in file.read_text().splitlines()


# --- the limits of this repository ------------------------------------------------------------------------------------


def test_each_scenario_that_is_counted_has_a_limit_and_no_other() -> None:
    limits = calls.read(calls.LIMITS)
    assert list(limits.scenarios) == list(calls.COUNTED)
    assert set(calls.COUNTED) <= SCENARIOS.keys()
    for one in limits.scenarios.values():
        assert sum(one.by_function.values()) == pytest.approx(
            one.python_calls_per_pod + one.builtin_calls_per_pod, rel=0.1
        )


@pytest.mark.slow("counts a scenario in processes, as `make check-calls` does")
def test_a_scenario_is_counted_in_the_size_of_its_limit() -> None:
    (found,) = calls.count(["SchedulingBasic"])
    assert (found.nodes, found.pods) == (calls.NODES, calls.PODS)
