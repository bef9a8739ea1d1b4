"""A stopwatch counts plugins by node, as kube-scheduler does, and times them in a tenth of the cycles."""

import itertools

import pytest

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unschedulable
from kscheduler.scheduling.observations import Observations
from kscheduler.scheduling.stopwatch import ObservedStopwatch, timed_pre_enqueue
from tests.builders import pod_info


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


@pytest.mark.parametrize("status", [SUCCESS, unschedulable("gated")], ids=["let in", "gated"])
def test_pre_enqueue_is_measured_under_the_profile_of_the_pod(observations: Observations, status: Status) -> None:
    queried: list[tuple[PodInfo, str]] = []

    def run(pod: PodInfo, first: str) -> Status:
        queried.append((pod, first))
        return status

    pod = pod_info(schedulerName="mine")
    assert timed_pre_enqueue(run, observations.extension_point, lambda: 0.0, pod, "Gate") is status
    assert queried == [(pod, "Gate")]
    assert observations.extension_points["PreEnqueue", "Success", "mine"].count == 1
