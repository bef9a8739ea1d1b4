"""Comparing runs: slower is told beyond the noise, and only of the same work."""

from pathlib import Path

import pytest

from benchmarks import compare, runs
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import Figures

MACHINE = runs.Machine("a CPU", 2, 16, "3.11", "2.2", 0.1, 1000.0)


def figures(cpu: float, *, nodes: int = 5000, bound: int = 100, rss: float = 100.0) -> Figures:
    return Figures("Basic", nodes, 100, bound, 0, 1e6 / cpu, 0, cpu, 1.0, 2.0, rss, float(nodes), {})


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
