"""Figures of `make bench-real`: medians, ratios, goals, what is unsound, and that nothing is lost in the file."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.real import table as real_table
from benchmarks.real import throughput as real
from benchmarks.real.table import Figures, Row, Run
from benchmarks.runs import Machine

MACHINE = Machine("a CPU", 2, 16, "3.11", "2.2", 0.1, 1000.0)


def figures(scheduler: str, speed: float, cpu: float = 1.0, workload: str = "spread", **fields: Any) -> Figures:
    given = {
        "round": 0,
        "nodes": 5_000,
        "pods": 100,
        "bound": 100,
        "first_bind_seconds": 0.5,
        "start_cpu_seconds": 0.4,
        "apiserver_cpu_milliseconds": 2.0,
        "peak_mebibytes": 150.0,
        "events": 100,
        **fields,
    }
    return Figures(workload=workload, scheduler=scheduler, pods_per_second=speed, cpu_milliseconds=cpu, **given)


def ours(*all_of: Figures) -> Row:
    return next(row for row in real_table.rows(all_of) if row.scheduler == "kscheduler")


def test_ratios_are_those_of_the_medians_over_rounds() -> None:
    kube = [figures("kube-scheduler", speed, 8.0) for speed in (90, 100, 300)]
    floor = [figures("floor", 1_000.0, 0.4)]
    row = ours(*(figures("kscheduler", speed, 0.8) for speed in (400, 10, 500)), *kube, *floor)
    assert (row.times_rival, row.times_floor, row.cpu_of_rival) == (4.0, 0.4, 0.1)


def test_without_the_others_there_are_no_ratios_and_no_goals_missed_for_want_of_them() -> None:
    row = ours(figures("kscheduler", 10.0, 0.5))
    assert (row.times_rival, row.times_floor, row.misses) == (None, None, [])


def test_a_rival_that_bound_nothing_gives_no_ratio() -> None:
    assert ours(figures("kscheduler", 10.0), figures("kube-scheduler", 0.0)).times_rival is None


@pytest.mark.parametrize(
    ("workload", "speed", "cpu", "missed"),
    [
        pytest.param("spread", 400, 0.8, [], id="all reached"),
        pytest.param("spread", 300, 0.8, ["3.8x", "floor 0.75"], id="too slow"),
        pytest.param("spread", 400, 0.9, ["CPU 0.8 ms"], id="too much CPU"),
        pytest.param("plain", 400, 0.7, ["CPU 0.6 ms", "floor 0.85"], id="plain pods have goals of their own"),
    ],
)
def test_goals_that_were_missed_are_reported(workload: str, speed: float, cpu: float, missed: list[str]) -> None:
    others = figures("kube-scheduler", 100, 8.0, workload), figures("floor", 500, 0.4, workload)
    assert ours(figures("kscheduler", speed, cpu, workload), *others).misses == missed


def test_nobody_else_has_goals() -> None:
    rows = real_table.rows([figures("kube-scheduler", 1, 99.0), figures("floor", 1, 99.0)])
    assert [row.misses for row in rows] == [[], []]


def test_rows_stand_in_the_order_of_the_workloads_whatever_was_measured_first() -> None:
    measured = [
        figures(name, 1, workload=workload) for workload in ("mixed", "plain") for name in ("floor", "kscheduler")
    ]
    order = [(row.workload, row.scheduler) for row in real_table.rows(measured)]
    assert order == [("plain", "kscheduler"), ("plain", "floor"), ("mixed", "kscheduler"), ("mixed", "floor")]


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        pytest.param({}, "sound", id="sound"),
        pytest.param({"bound": 60}, "60 of 100 bound", id="pods are left"),
        pytest.param({"faults": ("one", "two")}, "2 faults", id="the audit found something"),
        pytest.param({"bound": 0, "stuck": "it ended"}, "stuck, 0 of 100 bound", id="stuck"),
    ],
)
def test_a_result_that_is_not_sound_says_so_everywhere(
    fields: dict[str, Any], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = figures("kscheduler", 10.0, **fields)
    assert one.verdict == verdict
    code = real.report(Run(MACHINE, "v1", (one,)), with_markdown=True)
    printed = capsys.readouterr().out
    assert code == (verdict != "sound")
    assert ("NOT SOUND" in printed, "(not sound)" in printed) == (bool(code), bool(code))


def test_latency_that_was_not_measured_is_a_dash() -> None:
    last = list(real_table.markdown([figures("kscheduler", 10.0)]))[-1]
    assert last.split(" | ")[-1] == "- |"


def test_the_markdown_table_has_as_many_cells_in_each_line() -> None:
    both = [
        figures("kscheduler", 10.0, latency_p50_milliseconds=1.0, latency_p99_milliseconds=2.5),
        figures("floor", 9.0),
    ]
    lines = list(real_table.markdown(both))
    assert {line.count("|") for line in lines} == {len(real_table.COLUMNS) + 1}
    assert "1.0, 2.5 ms" in lines[2]


def test_a_file_gives_back_what_was_measured_and_its_table_without_a_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Run(MACHINE, "v1.36.3", (figures("kscheduler", 10.0), figures("floor", 20.0, faults=("a fault",))))
    real_table.write(tmp_path / "run.json", kept)
    assert real_table.read(tmp_path / "run.json") == kept
    assert real.main(["--result", str(tmp_path / "run.json")]) == 1
    assert "0.50" in capsys.readouterr().out


def test_a_file_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"run\.json"):
        real_table.read(tmp_path / "run.json")
