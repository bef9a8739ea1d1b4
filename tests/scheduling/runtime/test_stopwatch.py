"""A stopwatch counts plugins by node, as kube-scheduler does, and times them in a tenth of the cycles."""

import itertools

import pytest

from kscheduler.framework.status import SUCCESS
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.stopwatch import ObservedStopwatch


@pytest.fixture
def observations() -> Observations:
    return Observations()


@pytest.fixture
def watch(observations: Observations) -> ObservedStopwatch:
    ticks = itertools.count()
    return ObservedStopwatch("default", observations, lambda: float(next(ticks)))


def test_a_plugin_is_counted_once_for_each_node_it_was_queried_about(
    watch: ObservedStopwatch, observations: Observations
) -> None:
    watch.start()
    watch.evaluated("Filter", "NodeName", 5_000)
    watch.evaluated("Filter", "NodeName", 10)
    watch.evaluated("PreFilter", "NodePorts")
    watch.evaluated("PreFilter", "VolumeZone", nodes=0)
    assert observations.plugin_evaluations == {
        ("NodeName", "Filter", "default"): 5_010,
        ("NodePorts", "PreFilter", "default"): 1,
    }


def test_each_plugin_is_timed_by_itself_in_one_of_ten_cycles(
    watch: ObservedStopwatch, observations: Observations
) -> None:
    for _ in range(30):
        watch.start()
        watch.evaluated("PreFilter", "NodePorts", nodes=0)
        watch.lap("PreFilter", SUCCESS)
        watch.evaluated("Filter", "NodeName", 7)
    timed = observations.plugin_seconds
    assert set(timed) == {("NodePorts", "PreFilter", "Skip"), ("NodeName", "Filter", "Success")}
    # Three cycles, and a tick of the clock for each plugin: what other plugins took is not counted in.
    assert {(child.count, child.total) for child in timed.values()} == {(3, 3.0)}
