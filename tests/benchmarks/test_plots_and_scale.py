"""The benchmarks of large clusters: their objects are what they say, and their figures are read rightly."""

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import plots, scale_objects
from benchmarks.real import loop_lag
from benchmarks.runs import Machine
from kscheduler import __version__
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.scenario import CreatePods
from kscheduler.client.watch import WatchDecoder, WatchEvent

HERE = Machine(cpu="cpu", cores=1, memory_gib=1, python="3", numpy="2", load=0.0, reference_us=1.0)


def read(kind: Kind, obj: bytes) -> Any:
    decoder: WatchDecoder[Any] = WatchDecoder(kind)
    event = decoder.feed(b'{"type":"ADDED","object":%b}' % obj)
    assert isinstance(event, WatchEvent)
    return event.object


def test_pods_of_the_scale_benchmark_are_of_the_promised_size_and_run_on_its_nodes() -> None:
    written = list(scale_objects.pods(200, nodes=7, scheduler="s"))
    names = {scale_objects.node_name(number) for number in range(7)}
    assert {read(PODS, one).spec.node_name for one in written} == names
    assert all(2_000 <= len(one) <= 2_700 for one in written)
    assert len({read(PODS, one).metadata.uid for one in written}) == 200


def test_nodes_of_the_scale_benchmark_are_of_the_promised_size() -> None:
    written = list(scale_objects.nodes(3))
    assert all(9_500 <= len(one) <= 10_500 for one in written)
    assert [len(read(NODES, one).status.images) for one in written] == [30, 30, 30]


def measured(**lines: dict[int, list[float]]) -> plots.RunMeasurements:
    points = {line: [plots.Point(at, costs) for at, costs in points.items()] for line, points in lines.items()}
    return plots.RunMeasurements(0, 10, __version__, HERE, points)


def test_an_interrupted_run_goes_on_with_the_points_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "by_nodes.json"
    wanted = [plots.Wanted("plain pods", at, SCENARIOS["SchedulingBasic"].resized(at, 10)) for at in (1, 2)]
    path.write_bytes(msgspec.json.encode(measured(**{"plain pods": {1: [5.0]}})))
    plots.measure(path, plots.begun(path, nodes=0, pods=10, resumes=True), wanted, rounds=1)
    there = plots.kept(path)
    assert there.point("plain pods", 1).cpu_us == [5.0]
    assert there.point("plain pods", 2).median > 0


def test_what_was_measured_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "by_nodes.json"
    path.write_bytes(msgspec.json.encode(measured()))
    with pytest.raises(SystemExit, match="other pods"):
        plots.begun(path, nodes=0, pods=11, resumes=True)
    assert plots.begun(path, nodes=0, pods=11, resumes=False).pods == 11


def test_growth_is_reported_of_lines_that_have_both_ends() -> None:
    there = measured(plain={50_000: [900.0, 500.0, 600.0], 1_000: [200.0]}, short={1_000: [200.0]})
    assert list(plots.growth(there)) == ["plain: 3.0 times as much on 50,000 nodes as on 1,000"]


def test_every_point_of_the_pictures_has_room_and_running_pods_that_nobody_must_schedule() -> None:
    points = [*plots.by_nodes(100_000, 2_000), *plots.by_running(500_000, 2_000, 5_000)]
    assert {one.scenario.pods for one in points} == {2_000}
    before = [one for point in points for one in point.scenario.operations if isinstance(one, CreatePods)]
    assert {one.arrival for one in before if not one.measured} == {"running"}


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        pytest.param(0.5, 0.01, id="at a bound"),
        pytest.param(0.75, 0.03, id="within"),
        pytest.param(1.0, 0.05, id="all"),
    ],
)
def test_a_quantile_lies_within_its_bucket_as_prometheus_has_it(share: float, seconds: float) -> None:
    counts = {0.01: 50.0, 0.05: 100.0, math.inf: 100.0}
    assert loop_lag.quantile(counts, share) == pytest.approx(seconds)
