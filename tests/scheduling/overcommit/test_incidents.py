"""What is found on nodes, whose fault it is, and who is told when."""

from typing import Any

import pytest

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.overcommit.incidents import Overcommit
from kscheduler.telemetry.logs.caught import Boundary, caught
from tests.builders import Tree, make_node, make_pod
from tests.scheduling.overcommit.overcommitted import OURS, Looking, looking

HOST_PORT: Tree = {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}


def with_port(address: str = "", port: int = 8080, protocol: str = "TCP") -> dict[str, Any]:
    claim = {"containerPort": 80, "hostPort": port, "hostIP": address, "protocol": protocol}
    return {"containers": [{"name": "main", "image": "app", "ports": [claim]}]}


def test_a_bind_of_another_scheduler_that_overcommits_a_node_is_found_at_the_next_look() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"})
    assert look.found() == {}
    look.theirs("q", requests={"cpu": "2"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}
    (overcommit,) = look.heard.begun
    assert overcommit.excess == ("cpu", 5000, 4000)
    assert overcommit.latest == (("default/q", "uid-of-q", "default-scheduler"),)


def test_a_pod_that_is_only_assumed_counts() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"}, is_confirmed=False)
    look.theirs("q", requests={"cpu": "2"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}


def test_all_pods_that_came_after_the_node_was_full_are_named_last_one_first() -> None:
    look = looking()
    look.theirs("q", requests={"cpu": "4"})
    look.theirs("r", requests={"memory": "1Gi"})
    look.theirs("s", requests={"cpu": "1"})
    look.ours("p", requests={"cpu": "1"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}
    assert [key for key, _, _ in look.heard.begun[0].latest] == ["default/p", "default/s"]


def test_a_node_that_our_own_profile_overcommits_is_not_told_as_anothers_fault() -> None:
    look = looking()
    look.theirs("q", requests={"cpu": "2"})
    look.ours("p", requests={"cpu": "3"})
    assert look.found() == {("a", "cpu"): "own"}


@pytest.mark.parametrize("how", ["bound by another under our name", "made with a node"])
def test_a_pod_with_our_name_that_we_have_not_placed_is_not_our_fault(how: str) -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"})
    pod = look.theirs("q", requests={"cpu": "2"}, schedulerName=OURS)
    if how == "made with a node":
        look.taken.born_on_node(pod)
    else:
        look.taken.bound(pod, "a")
    assert look.found() == {("a", "cpu"): "another_scheduler"}


def test_a_node_that_shrinks_is_to_blame_itself_whoever_came_last() -> None:
    look = looking(make_node("a", **{"example.com/gpu": "2"}))
    look.theirs("q", requests={"example.com/gpu": "1"})
    look.ours("p", requests={"example.com/gpu": "1"})
    look.theirs("r", requests={"cpu": "1"})
    assert look.found() == {}
    look.cache.update_node(make_node("a", **{"example.com/gpu": "0"}))
    assert look.found() == {("a", "example.com/gpu"): "allocatable"}
    look.cache.update_node(make_node("a", **{"example.com/gpu": "2"}))
    assert look.found() == {}


def test_a_node_that_shrinks_while_another_fills_it_beyond_what_it_had_is_anothers_fault() -> None:
    look = looking()
    look.theirs("q", requests={"cpu": "5"})
    look.cache.update_node(make_node("a", cpu="3"))
    assert look.found() == {("a", "cpu"): "another_scheduler"}


def test_a_shrink_that_was_looked_at_before_is_no_excuse_for_what_comes_later() -> None:
    look = looking()
    look.cache.update_node(make_node("a", cpu="3"))
    assert look.found() == {}
    look.theirs("q", requests={"cpu": "4"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}


def test_a_pod_that_asks_for_more_than_it_had_is_reported_apart() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "2"})
    look.theirs("q", requests={"cpu": "2"})
    assert look.found() == {}
    pending = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
    look.cache.update_pod(make_pod("p", node="a", requests={"cpu": "3"}, status=pending))
    assert look.found() == {("a", "cpu"): "resize"}


def test_nobody_is_blamed_for_what_was_there_at_the_first_look() -> None:
    look = Looking(make_node("a"))
    look.theirs("q", requests={"cpu": "5"})
    assert look.found() == {("a", "cpu"): "found_at_start"}


@pytest.mark.parametrize("reported_by", ["PodScheduled", "startTime", "creationTimestamp"])
def test_of_what_was_there_the_pods_that_say_they_came_last_are_named(reported_by: str) -> None:
    """A list is in alphabetical order, so the order in which pods were counted tells nothing."""
    look = Looking(make_node("a"))
    for name, second in (("a", 2), ("b", 9), ("c", 1), ("d", 3)):
        time = f"2026-01-01T00:00:0{second}Z"
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time}
        early, late = "2025-01-01T00:00:00Z", "2027-01-01T00:00:00Z"
        status = {
            "PodScheduled": {"conditions": [condition], "startTime": late},
            "startTime": {"startTime": time},
            "creationTimestamp": {},
        }[reported_by]
        made = time if reported_by == "creationTimestamp" else early
        look.theirs(name, requests={"cpu": "2"}, status=status, metadata={"creationTimestamp": made})
    look.found()
    assert [key for key, _, _ in look.heard.begun[0].latest] == ["default/b", "default/d"]


def test_a_resource_that_the_node_does_not_name_is_left_to_others() -> None:
    """An extender manages it (`ignoredByScheduler`), or the kubelet has not reported the node yet."""
    look = looking()
    look.theirs("q", requests={"example.com/licence": "1"})
    assert look.found() == {}


def test_pods_are_counted_too() -> None:
    look = looking(make_node("a", pods="1"))
    look.theirs("q")
    look.theirs("r")
    assert look.found() == {("a", "pods"): "another_scheduler"}


@pytest.mark.parametrize(
    ("one", "other", "contested"),
    [
        pytest.param(with_port(), with_port(), True, id="one port"),
        pytest.param(with_port("10.0.0.1"), with_port("10.0.0.2"), False, id="two addresses"),
        pytest.param(with_port("10.0.0.1"), with_port(), True, id="an address and all addresses"),
        pytest.param(with_port(), with_port(port=8081), False, id="two ports"),
        pytest.param(with_port(), with_port(protocol="UDP"), False, id="two protocols"),
    ],
)
def test_two_pods_that_claim_one_host_port(one: dict[str, Any], other: dict[str, Any], contested: bool) -> None:
    look = looking()
    look.ours("p", **one)
    look.theirs("q", **other)
    found = look.found()
    assert found == ({("a", "host-ports"): "another_scheduler"} if contested else {})
    if contested:
        assert look.heard.begun[0].latest == (("default/q", "uid-of-q", "default-scheduler"),)
        look.cache.remove_pod("uid-of-p")
        assert look.found() == {}


def test_the_end_is_reported_once_with_its_seconds() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"})
    look.theirs("q", requests={"cpu": "2"})
    look.found()
    look.found()
    assert len(look.heard.begun) == 1
    look.clock._now += 7.0
    look.cache.remove_pod("uid-of-q")
    look.found()
    look.found()
    assert look.heard.ended_as == [("a", "cpu", 7.0, False)]


def test_a_pod_that_the_kubelet_has_rejected_ends_it() -> None:
    look = looking()
    look.ours("p", requests={"cpu": "3"})
    look.theirs("q", requests={"cpu": "2"})
    assert look.found()
    look.cache.remove_pod("uid-of-p")  # as the handler does with a pod whose phase is Failed (OutOfcpu)
    assert look.found() == {}


def test_a_node_that_goes_ends_it_also_if_another_takes_its_row() -> None:
    look = looking()
    look.theirs("q", requests={"cpu": "5"})
    assert look.found()
    look.cache.remove_node("a")
    look.cache.add_node(make_node("b"))
    assert look.found() == {}
    assert look.heard.ended_as == [("a", "cpu", 0.0, True)]


def test_another_node_in_the_row_of_one_that_had_more_has_not_shrunk() -> None:
    look = looking(make_node("a", cpu="64"))
    look.cache.remove_node("a")
    look.cache.add_node(make_node("b"))
    look.theirs("q", "b", requests={"cpu": "5"})
    assert look.found() == {("b", "cpu"): "another_scheduler"}


def test_a_replica_that_stands_by_knows_and_is_silent_until_it_schedules() -> None:
    look = looking(schedules=False)
    look.theirs("p", requests={"cpu": "3"}, schedulerName=OURS)
    look.theirs("q", requests={"cpu": "2"})
    look.theirs("r", "b", requests={"cpu": "2"})
    assert look.found() == {("a", "cpu"): "another_scheduler"}
    assert look.heard.begun == []
    look.nodes.is_reporting = True
    look.found()
    assert [overcommit.cause.value for overcommit in look.heard.begun] == ["another_scheduler"], (
        "it knows who came last"
    )


def test_an_incident_that_nobody_was_reported_of_ends_silently() -> None:
    look = looking(schedules=False)
    look.theirs("q", requests={"cpu": "5"})
    look.found()
    look.nodes.is_reporting = True
    look.cache.remove_pod("uid-of-q")
    look.found()
    assert look.heard.ended_as == []


def test_many_changes_between_two_looks_are_looked_at_all() -> None:
    look = looking(*(make_node(f"n{number}") for number in range(70)))
    look.theirs("q", "n69", requests={"cpu": "5"})
    for number in range(6000):  # the log keeps 4,096
        pod = PodInfo(make_pod(f"p{number}"))
        look.cache.assume_pod(pod, f"n{number % 60}")
        look.cache.forget_pod(pod.uid)
    assert look.found() == {("n69", "cpu"): "another_scheduler"}


def test_nodes_are_counted_once_for_all_their_extended_resources() -> None:
    look = looking(make_node("a", **{"example.com/gpu": "1", "example.com/fpga": "1"}))
    look.theirs("q", requests={"example.com/gpu": "2", "example.com/fpga": "2", "cpu": "5"})
    look.found()
    assert look.nodes.nodes_by_cause() == {("extended", "another_scheduler"): 1, ("cpu", "another_scheduler"): 1}


def test_a_bug_about_one_node_counts_and_the_others_are_looked_at() -> None:
    look = looking(make_node("a"), make_node("b"))
    look.theirs("q", "a", requests={"cpu": "5"})
    look.theirs("r", "b", requests={"cpu": "5"})
    began, before = look.heard.began, caught()[Boundary.EVENT_HANDLER]

    def explode(overcommit: Overcommit, info: NodeInfo) -> None:
        if info.name == "a":
            raise RuntimeError("a bug")
        began(overcommit, info)

    look.heard.began = explode  # type: ignore[method-assign]
    assert look.found() == {("b", "cpu"): "another_scheduler"}
    assert caught()[Boundary.EVENT_HANDLER] == before + 1
