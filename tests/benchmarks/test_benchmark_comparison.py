"""Comparing runs: slower is told beyond the noise, and only of the same work."""

from pathlib import Path

import pytest

from benchmarks import compare, runs
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import Figures

MACHINE = runs.Machine("a CPU", 2, 16, "3.11", "2.2", 0.1, 1000.0)


def figures(cpu: float, *, nodes: int = 5000, bound: int = 100, rss: float = 100.0, name: str = "Basic") -> Figures:
    return Figures(name, nodes, 100, bound, 0, 1e6 / cpu, 0, cpu, 1.0, 2.0, rss, float(nodes), {})


def words(before: list[Figures], now: list[Figures], speed: float = 1.0) -> tuple[str, ...]:
    return compare.judged(before, now, speed).words


def rounds(*cpu: float) -> list[Figures]:
    return [figures(one) for one in cpu]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        pytest.param(rounds(100), rounds(105), (), id="within tolerance"),
        pytest.param(rounds(100), rounds(115), ("slower",), id="slower"),
        pytest.param(rounds(100), rounds(80), ("faster",), id="faster"),
        pytest.param(rounds(90, 100, 120), rounds(120, 125, 130), (), id="the baseline's rounds lie apart"),
        pytest.param(rounds(100, 100, 300), rounds(100, 101, 102), (), id="one round was disturbed"),
        pytest.param(rounds(100), [figures(100, rss=130)], ("larger",), id="larger"),
        pytest.param(rounds(100), [figures(100, bound=99)], ("binds fewer",), id="binds fewer"),
    ],
)
def test_what_is_said_of_a_scenario(before: list[Figures], now: list[Figures], expected: tuple[str, ...]) -> None:
    assert words(before, now) == expected
    assert compare.judged(before, now, 1.0).is_worse == (expected not in ((), ("faster",)))


def test_on_a_slower_cpu_the_same_work_may_take_longer() -> None:
    assert words(rounds(100), rounds(150), speed=1.5) == ()


@pytest.mark.parametrize(
    ("cpu", "code", "text"),
    [
        pytest.param(101.0, 0, "nothing got worse", id="as before"),
        pytest.param(200.0, 1, "worse: Basic", id="twice as slow"),
    ],
)
def test_a_run_that_was_kept_is_compared_with_the_baseline(
    cpu: float, code: int, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, now = tmp_path / "before.json", tmp_path / "now.json"
    runs.write(before, runs.Run(MACHINE, (figures(100.0),)))
    runs.write(now, runs.Run(MACHINE, (figures(cpu),)))
    assert compare.main(["--baseline", str(before), "--result", str(now)]) == code
    assert text in capsys.readouterr().out


def test_another_size_is_not_compared() -> None:
    before, now = runs.Run(MACHINE, (figures(100.0),)), runs.Run(MACHINE, (figures(10.0, nodes=100),))
    assert compare.compared(before, now) == []
    assert compare.left_out(before, now) == ["Basic"]


def test_the_baseline_is_of_scenarios_as_they_are_declared() -> None:
    kept = runs.read(compare.BASELINE).rounds()
    declared = {name: (one.nodes, one.pods) for name, one in SCENARIOS.items() if name in kept}
    assert {name: (rounds[0].nodes, rounds[0].pods) for name, rounds in kept.items()} == declared


# --- the baseline is the best there ever was --------------------------------------------------------------------------


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Two scenarios of two rounds each."""
    file = tmp_path / "baseline.json"
    played = (figures(100.0), figures(200.0, name="Spread"), figures(104.0), figures(204.0, name="Spread"))
    runs.write(file, runs.Run(MACHINE, played))
    return file


def write(baseline: Path, *now: Figures, flags: tuple[str, ...] = (), machine: runs.Machine = MACHINE) -> int:
    played = baseline.with_name("now.json")
    runs.write(played, runs.Run(machine, now))
    return compare.main(["--result", str(played), "--write", str(baseline), *flags])


def cpu(file: Path, name: str = "Basic") -> list[float]:
    return [one.cpu_us_per_decision for one in runs.read(file).rounds()[name]]


def test_of_each_scenario_the_better_rounds_are_kept(baseline: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write(baseline, figures(90), figures(220, name="Spread"), figures(99)) == 1
    assert cpu(baseline) == [90, 99]
    assert cpu(baseline, "Spread") == [200, 204]
    basic, spread = capsys.readouterr().out.splitlines()
    assert basic == "Basic: 102.0 to 94.5 us"
    assert spread.startswith("Spread: 202.0 to 220.0 us, refused")
    assert "raised" not in baseline.read_text()


def test_a_worse_median_is_kept_with_a_reason_that_stays(baseline: Path) -> None:
    assert write(baseline, figures(110), flags=("--raise", "pods have two heads")) == 0
    assert write(baseline, figures(105)) == 0
    assert cpu(baseline) == [105]
    assert runs.read(baseline).raised == {"Basic": ("102.0 to 110.0 us: pods have two heads",)}
    assert [one.scenario for one in runs.read(baseline).figures] == ["Basic", "Spread", "Spread"]


@pytest.mark.parametrize(
    "now",
    [pytest.param(figures(50, nodes=100), id="another size"), pytest.param(figures(50, bound=99), id="binds fewer")],
)
def test_rounds_of_other_work_do_not_replace_better_ones(now: Figures, baseline: Path) -> None:
    before = baseline.read_bytes()
    assert write(baseline, now) == 1
    assert baseline.read_bytes() == before


def test_a_new_scenario_is_added(baseline: Path) -> None:
    assert write(baseline, figures(300, name="New")) == 0
    assert (cpu(baseline, "New"), cpu(baseline)) == ([300], [100, 104])


def test_figures_of_another_cpu_are_not_mixed_in(baseline: Path) -> None:
    before = baseline.read_bytes()
    with pytest.raises(SystemExit, match="the file is of a CPU, and this is a faster one"):
        write(baseline, figures(50), machine=runs.Machine("a faster one", 2, 16, "3.11", "2.2", 0.1, 500.0))
    assert baseline.read_bytes() == before


def test_a_file_that_is_not_there_is_made(tmp_path: Path) -> None:
    assert write(tmp_path / "new.json", figures(100)) == 0
    assert cpu(tmp_path / "new.json") == [100]


@pytest.mark.parametrize("flags", [("--raise", "why"), ("--write", "x.json", "--raise", " ")])
def test_raising_needs_a_reason_and_a_file(flags: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.main(list(flags))
    assert "--raise needs a reason, and --write" in capsys.readouterr().err


def test_writing_the_baseline_again_changes_nothing(tmp_path: Path) -> None:
    copy = tmp_path / "baseline.json"
    copy.write_bytes(compare.BASELINE.read_bytes())
    assert compare.main(["--result", str(compare.BASELINE), "--write", str(copy)]) == 0
    assert copy.read_bytes() == compare.BASELINE.read_bytes()
