"""The benchmarks of large clusters: their objects are what they say, and their figures are read rightly."""

import math
from typing import Any

import pytest

from benchmarks import loop_lag, plots, scale_objects
from benchmarks.runs import Machine
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.client.watch import Decoder, WatchEvent
from kscheduler.simulation.benchmarks.catalogue import SCENARIOS
from kscheduler.simulation.benchmarks.figures import Figures

HERE = Machine(cpu="cpu", cores=1, memory_gib=1, python="3", numpy="2", load=0.0, reference_us=1.0)


def figures(nodes: int, cost: float, scenario: str = "SchedulingBasic") -> Figures:
    return Figures(scenario, nodes, 10, 10, 0, 1.0, 0, cost, 1.0, 1.0, 1.0, 1.0, {})


def read(kind: Kind, obj: bytes) -> Any:
    decoder: Decoder[Any] = Decoder(kind)
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


def test_a_point_that_was_measured_is_found_again_and_others_are_not() -> None:
    scenario = SCENARIOS["SchedulingBasic"].resized(100, 10)
    measured = plots.Measured(HERE, {"plain pods": [figures(100, 1.0)]})
    assert measured.has("plain pods", scenario)
    assert not measured.has("another line", scenario)
    assert not measured.has("plain pods", SCENARIOS["SchedulingBasic"].resized(200, 10))


def test_growth_is_told_of_lines_that_have_both_ends() -> None:
    both = [figures(50_000, 600.0), figures(1_000, 200.0)]
    measured = plots.Measured(HERE, {"plain pods": both, "short": [figures(1_000, 200.0)]})
    assert list(plots.growth(measured)) == ["plain pods: 3.0 times as much on 50,000 nodes as on 1,000"]


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
