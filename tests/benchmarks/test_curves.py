"""The benchmark of curves: each kind of pod has a scenario at each size, and its tables say what was measured."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import curves
from benchmarks.curves import AXES, KINDS, SIZES, Axis, CurvePoint, Curves
from benchmarks.real import table as real_table
from benchmarks.runs import Machine
from kscheduler import __version__
from kscheduler.bench.figures import Figures
from kscheduler.bench.scenario import CreatePods

HERE = Machine(cpu="cpu", cores=1, memory_gib=1, python="3", numpy="2", load=0.0, reference_us=1.0)
MOST: dict[Axis, int] = {"nodes": 100_000, "running": 1_000_000}


def figures(cpu: float, p99: float = 7.0, *, bound: int = 10) -> Figures:
    values: dict[str, Any] = dict.fromkeys(Figures.__struct_fields__, 0)
    named = {"scenario": "s", "pods": 10, "bound": bound, "cpu_us_per_decision": cpu, "p99_us": p99, "seconds": {}}
    return Figures(**{**values, **named})


def measured(kind: str, axis: Axis, costs: dict[int, float]) -> Curves:
    return Curves(__version__, HERE, 10, [CurvePoint(kind, axis, at, [figures(cpu)]) for at, cpu in costs.items()])


def test_every_kind_is_measured_at_every_size_and_preemptors_against_nodes_only() -> None:
    points = [(kind, axis, at) for kind, axis, at, _ in curves.wanted(KINDS, AXES, MOST, 50)]
    assert len(points) == len(set(points))
    assert len(points) == len(KINDS) * len(SIZES["nodes"]) + (len(KINDS) - 1) * len(SIZES["running"])
    assert ("preemption", "running", 0) not in points


@pytest.mark.parametrize("kind", [pytest.param(kind, id=kind) for kind in KINDS if KINDS[kind].runs_among != "none"])
def test_so_many_pods_run_before_the_measured_ones_come(kind: str) -> None:
    scenario = curves.scenario_of(kind, "running", 10_000, 30)
    pods = [operation for operation in scenario.operations if isinstance(operation, CreatePods)]
    assert [(each.count, each.arrival, each.measured) for each in pods[:-1]] == [(10_000, "running", False)]
    assert pods[-1].measured
    assert scenario.nodes == curves.RUNNING_NODES
    if KINDS[kind].runs_among == "like":
        assert (pods[0].namespace, pods[0].template.kind) == (pods[-1].namespace, pods[-1].template.kind)


def test_an_interrupted_run_goes_on_with_the_points_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    curves.keep(path, measured("plain", "nodes", {100: 5.0}))
    left = curves.begun(path, 10, resumes=True)
    small = curves.scenario_of("plain", "nodes", 10, 10)
    curves.measure(path, left, [("plain", "nodes", 100, small), ("plain", "nodes", 1_000, small)], rounds=1)
    there = curves.kept(path)
    assert there.point("plain", "nodes", 100).cpu_us == 5.0
    assert there.point("plain", "nodes", 1_000).cpu_us > 0


def test_what_was_measured_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    curves.keep(path, measured("plain", "nodes", {100: 5.0}))
    with pytest.raises(SystemExit, match="begin anew without --resume"):
        curves.begun(path, 11, resumes=True)
    assert curves.begun(path, 11, resumes=False).points == []


def test_the_table_has_medians_growth_and_what_was_not_bound() -> None:
    there = measured("plain", "nodes", {100: 90.0, 1_000: 50.0, 5_000: 100.0})
    there.points[0].figures.extend([figures(10.0), figures(20.0, bound=9)])
    text = "\n".join(curves.tables(there))
    assert "| pods | 100 | 1,000 | 5,000 | growth |" in text
    assert "| plain | 20 / 7 (not all bound) | 50 / 7 | 100 / 7 | 2.0 x |" in text


def test_kube_schedulers_points_stand_beside_where_they_were_measured() -> None:
    values: dict[str, Any] = dict.fromkeys(("round", "pods_per_second", "first_bind_seconds", "start_cpu_seconds"), 0)
    values |= dict.fromkeys(("apiserver_cpu_milliseconds", "peak_mebibytes", "events"), 0)
    rival = real_table.Figures(
        workload="plain",
        scheduler="kube-scheduler",
        nodes=1_000,
        pods=5,
        bound=5,
        cpu_milliseconds=0.8,
        latency_p99_milliseconds=3.0,
        **values,
    )
    stuck = msgspec.structs.replace(rival, bound=4, cpu_milliseconds=99.0)
    text = "\n".join(curves.tables(measured("plain", "nodes", {100: 90.0, 1_000: 50.0}), [rival, stuck]))
    assert "| plain: kube-scheduler | - | 800 / 3,000 | |" in text
