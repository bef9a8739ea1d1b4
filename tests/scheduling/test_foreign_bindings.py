"""Two schedulers that serve one name: the one that notices says so, once a minute, and counts."""

from typing import Any

import pytest
import structlog

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.client.errors import UnknownOutcomeError
from kscheduler.election import Fence
from kscheduler.scheduling.attempt.binding import BindingWriter
from kscheduler.scheduling.foreign_bindings import SECONDS_BETWEEN_LINES, ForeignBindings
from kscheduler.scheduling.observations import Observations
from tests.builders import make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.attempt.test_binding import ELSEWHERE, HERE, POD, Impatient, ScriptedPods, refusal
from tests.scheduling.plugins_for_tests import TurnsDown, cluster, profile


class Serving:
    """The handler of pods of a process that schedules for `kscheduler`."""

    def __init__(self) -> None:
        harness = SchedulerHarness(profile(TurnsDown("F")), cluster("a", "b"))
        self.clock, self.observations, self.taken = harness.clock, harness.observations, harness.taken
        self.taken.is_scheduling = True
        self.cache, self.handler = harness.cache, harness.pod_handler

    def placed(self, name: str, node: str = "a", **fields: Any) -> None:
        """The watch shows that a pod that waited has a node."""
        self.handler.on_update(make_pod(name, **fields), make_pod(name, node=node, **fields))

    @property
    def count(self) -> int:
        return self.observations.pods_taken[()]


def test_a_waiting_pod_that_somebody_else_binds_is_counted_and_warned_of() -> None:
    serving = Serving()
    with structlog.testing.capture_logs() as lines:
        serving.placed("p")
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("pods_bound_by_another_scheduler", "warning")
    assert (line["pod"], line["node"], line["scheduler"], line["pods"]) == ("default/p", "a", "kscheduler", 1)
    assert serving.count == 1
    assert "uid-of-p" in serving.taken


def test_a_pod_that_was_assumed_elsewhere_is_counted_too() -> None:
    serving = Serving()
    serving.cache.assume_pod(pod_info("p"), "b")
    serving.placed("p", "a")
    assert serving.count == 1


def test_pods_that_were_assumed_elsewhere_are_warned_of_once_a_minute_with_their_number() -> None:
    serving = Serving()
    with structlog.testing.capture_logs() as lines:
        for number in range(36):
            serving.cache.assume_pod(pod_info(f"p{number}"), "b")
            serving.placed(f"p{number}", "a")
        serving.clock._now += SECONDS_BETWEEN_LINES
        serving.cache.assume_pod(pod_info("late"), "b")
        serving.placed("late", "a")
    reported = [line for line in lines if line["event"] == "pod_bound_elsewhere"]
    assert [(line["pod"], line["pods"]) for line in reported] == [("default/p0", 1), ("default/late", 36)]
    assert (reported[0]["node"], reported[0]["assumed_on"]) == ("a", "b")


@pytest.mark.parametrize("whose", ["assumed", "another", "follower", "made with a node", "listed"])
def test_what_is_as_it_should_be_is_not_counted(whose: str) -> None:
    serving = Serving()
    fields = {}
    if whose == "assumed":
        serving.cache.assume_pod(pod_info("p"), "a")
    if whose == "another":
        fields = {"schedulerName": "default-scheduler"}
    if whose == "follower":
        serving.taken.is_scheduling = False
    with structlog.testing.capture_logs() as lines:
        if whose in ("made with a node", "listed"):
            serving.handler.on_add(make_pod("p", node="a"), initial=whose == "listed")
        else:
            serving.placed("p", **fields)
    assert serving.count == 0
    assert lines == []
    assert serving.cache.node_of("uid-of-p") == "a", "it counts all the same"
    assert ("uid-of-p" in serving.taken) == (whose == "made with a node")


def test_a_leader_that_was_stopped_past_its_lease_does_not_take_its_own_replica_for_another_scheduler() -> None:
    """What it sees first when it goes on was bound by the replica that has led meanwhile, under the same Lease."""
    serving, clock = Serving(), VirtualClock()
    fence = Fence(clock.monotonic, clock)
    taken = serving.taken
    taken.may_bind = fence.is_open
    fence.open_until(10.0)
    with structlog.testing.capture_logs() as lines:
        clock._now += 18.0
        serving.placed("p")
        assert (lines, serving.count) == ([], 0)
        fence.open_until(40.0)
        serving.placed("q")
    assert [line["pod"] for line in lines] == ["default/q"]


def test_a_line_a_minute_reports_how_many() -> None:
    serving = Serving()
    with structlog.testing.capture_logs() as lines:
        for number in range(10):
            serving.placed(f"p{number}")
        serving.clock._now += SECONDS_BETWEEN_LINES
        serving.placed("late")
    assert [line["pods"] for line in lines] == [1, 10]
    assert serving.count == 11


@pytest.mark.parametrize(
    ("binds", "reads", "is_taken"),
    [
        pytest.param([refusal(409)], [HERE], True, id="both have decided alike"),
        pytest.param([UnknownOutcomeError("?")], [HERE], False, id="our own try was applied"),
        pytest.param([UnknownOutcomeError("?"), refusal(409)], [POD, HERE], False, id="our own try, applied late"),
        pytest.param([refusal(409)], [ELSEWHERE], False, id="on another node, which the watch will show"),
        pytest.param([None], [], False, id="bound"),
    ],
)
async def test_a_binding_that_is_refused_because_the_pod_is_on_that_very_node(
    binds: list[Any], reads: list[Pod | Exception], is_taken: bool
) -> None:
    observations = Observations()
    taken = ForeignBindings(observations, VirtualClock())
    taken.is_scheduling = True
    pods = ScriptedPods(list(binds), list(reads))
    writer = BindingWriter(pods, Impatient(), observations, lambda *_: None, taken=taken)
    await writer.bind(POD, "node")
    assert observations.pods_taken[()] == int(is_taken)
