"""RoundRobin: each node in turn, among those that fit, across restarts, and unmoved by questions."""

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.testing import make_node, make_pod
from tests.effort import example_count
from tests.plugins.policies.worlds import PolicyWorld

NODES = [make_node(name) for name in ("a", "b", "c")]


def pods(count: int, prefix: str = "p", **fields: Any) -> list[Pod]:
    return [make_pod(f"{prefix}{number}", **fields) for number in range(count)]


def bound(pod: Pod, node: str, second: int) -> Pod:
    """The pod as the API server shows it after a binding in this second."""
    at = f"2026-11-23T03:{second // 60:02}:{second % 60:02}Z"
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at}
    shown = msgspec.convert({"conditions": [condition]}, type(pod.status))
    return msgspec.structs.replace(placed(pod, node), status=shown)


def test_each_node_in_the_order_of_names_again_and_again() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    assert [world.place(pod) for pod in pods(7)] == ["a", "b", "c", "a", "b", "c", "a"]


def test_a_node_without_room_is_skipped_and_is_first_when_it_fits_again() -> None:
    world = PolicyWorld("RoundRobin", make_node("a"), make_node("b", cpu="0"), make_node("c"))
    assert [world.place(pod) for pod in pods(3, requests={"cpu": "1"})] == ["a", "c", "a"]
    world.cache.update_node(make_node("b"))
    assert [world.place(pod) for pod in pods(3, "q", requests={"cpu": "1"})] == ["b", "c", "a"]


def test_a_new_node_gets_its_turn_and_no_flood() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    assert [world.place(pod) for pod in pods(7)][-1] == "a"
    world.cache.add_node(make_node("aa"))
    assert [world.place(pod) for pod in pods(6, "q")] == ["aa", "b", "c", "a", "aa", "b"]


def test_pods_that_end_at_once_do_not_hold_up_the_round() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    chosen = []
    for pod in pods(6):
        chosen.append(world.place(pod))
        world.cache.remove_pod(pod.metadata.uid)
    assert chosen == ["a", "b", "c", "a", "b", "c"]


def test_queries_do_not_advance_the_round() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    assert world.place(make_pod("p")) == "a"
    assert {world.decide(pod).node_name for pod in pods(10, "asked")} == {"b"}
    assert world.place(make_pod("q")) == "b"


def test_a_failed_binding_has_used_the_turn() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    pod = make_pod("p")
    assert world.place(pod) == "a"
    world.cache.forget_pod(pod.metadata.uid)
    world.policy.unreserve(CycleState(), PodInfo(pod), "a")
    assert world.place(pod) == "b"


def test_each_scheduler_name_has_a_round_of_its_own() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    world.cache.add_pod(bound(make_pod("foreign", schedulerName="other"), "a", 5))
    assert world.place(make_pod("p")) == "a"


def test_after_a_restart_the_round_goes_on_where_it_was() -> None:
    """Eight pods in three seconds: the seconds tell which nodes were first, and counts who is behind in the last."""
    first = PolicyWorld("RoundRobin", *NODES)
    chosen = [first.place(pod) for pod in pods(8)]
    second_of = [0, 0, 0, 1, 1, 1, 2, 2]
    restarted = PolicyWorld("RoundRobin", *NODES)
    for pod, node, second in zip(pods(8), chosen, second_of, strict=True):
        restarted.cache.add_pod(bound(pod, node, second))
    later = pods(7, "later")
    assert [restarted.place(pod) for pod in later] == [first.place(pod) for pod in later]


@settings(max_examples=example_count(60))
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(2, 5))
def test_a_process_that_reads_the_bound_pods_is_right_to_the_second(bursts: list[int], count: int) -> None:
    """As `explain` does, as long as no pod has ended: bursts of pods, a second each."""
    nodes = [make_node(f"n{number}") for number in range(count)]
    world, reader = PolicyWorld("RoundRobin", *nodes), PolicyWorld("RoundRobin", *nodes)
    last_turn: dict[str, int] = {}
    for second, burst in enumerate(bursts):
        for pod in pods(burst, f"s{second}-"):
            node = world.place(pod)
            last_turn[node] = second
            reader.cache.add_pod(bound(pod, node, second))
    exact, read = (each.decide(make_pod("next")).node_name for each in (world, reader))
    assert last_turn.get(exact) == last_turn.get(read)


@settings(max_examples=example_count(40))
@given(st.lists(st.sampled_from(["1", "2", "3"]), min_size=1, max_size=12))
def test_the_round_equals_the_rule_node_by_node(sizes: list[str]) -> None:
    """The naive statement: of the nodes with room the one whose turn was longest ago, then by name."""
    cpu = {"a": 4, "b": 6, "c": 8}
    world = PolicyWorld("RoundRobin", *(make_node(name, cpu=str(amount)) for name, amount in cpu.items()))
    last = dict.fromkeys(cpu, -1)
    for number, size in enumerate(sizes):
        fitting = [name for name, free in cpu.items() if free >= int(size)]
        expected = min(fitting, key=lambda name: (last[name], name), default="")
        assert world.place(make_pod(f"p{number}", requests={"cpu": size})) == expected
        if expected:
            last[expected] = number
            cpu[expected] -= int(size)


def test_a_placed_pod_asks_about_one_row() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    assert [world.place(pod) for pod in pods(4)] == ["a", "b", "c", "a"]
    assert world.queried == [["a", "b", "c"], ["a"], ["b"], ["c"]]


def test_nodes_that_are_gone_are_forgotten() -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    for number in range(700):
        world.policy.reserve(CycleState(), PodInfo(make_pod("p")), f"gone-{number}")
    assert len(world.policy._turns) <= 2 * 3 + 256
    assert world.place(make_pod("p")) == "a"


def test_many_pods_are_dealt_out_evenly() -> None:
    world = PolicyWorld("RoundRobin", *(make_node(f"n{number:02}") for number in range(20)))
    counts = Counter(world.place(pod) for pod in pods(400))
    assert set(counts.values()) == {20}


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-23"])
def test_a_time_that_cannot_be_read_is_no_time(text: str) -> None:
    world = PolicyWorld("RoundRobin", *NODES)
    pod = placed(make_pod("p"), "a")
    pod.metadata.creation_timestamp = text
    world.cache.add_pod(pod)
    assert world.place(make_pod("q")) == "b"
