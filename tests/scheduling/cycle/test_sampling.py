"""`percentageOfNodesToScore`: how many nodes are enough, and where the next search begins."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.assembly import profiles_over
from kscheduler.config.loader import load_bytes
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.status import SUCCESS
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.cycle.sampling import NodeSampler, in_turn_by_zone, nodes_to_find
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod, pod_info
from tests.scheduling.around import SchedulerHarness
from tests.scheduling.plugins_for_tests import Looks, TurnsDown, cluster, profile

NAMES = tuple(f"n{number:03}" for number in range(250))


def sampling(*plugins: Plugin, percentage: int = 50) -> Profile:
    return replace(profile(*plugins), percentage_of_nodes_to_score=percentage)


def decide(
    some: Profile, sampler: NodeSampler | None = None, nodes: Sequence[str] = NAMES, cache: Cache | None = None
) -> SchedulingRecord:
    return schedule(some, pod_info(), cache or cluster(*nodes), sampler=sampler)


@pytest.mark.parametrize(
    ("percentage", "count", "expected"),
    [
        (0, 5000, 5000),
        (100, 5000, 5000),
        (50, 5000, 2500),
        (1, 5000, 100),
        (33, 1001, 330),
        (50, 99, 99),
        (50, 100, 100),
        (1, 101, 100),
        (30, 0, 0),
    ],
)
def test_how_many_nodes_are_enough(percentage: int, count: int, expected: int) -> None:
    assert nodes_to_find(percentage, count) == expected


def test_left_alone_every_node_is_looked_at() -> None:
    sampler = NodeSampler()
    assert len(decide(sampling(percentage=0), sampler).feasible) == 250
    assert sampler.next_start == 0


def test_set_only_so_many_are_looked_at_and_the_next_search_goes_on_from_there() -> None:
    sampler = NodeSampler()
    cache = cluster(*NAMES)
    judge = TurnsDown("J")
    first = decide(sampling(judge), sampler, cache=cache)
    second = decide(sampling(judge), sampler, cache=cache)
    assert len(first.feasible) == len(second.feasible) == 125
    assert not set(first.feasible_names()) & set(second.feasible_names())
    assert sampler.next_start == 0, "round once"


def test_without_a_sampler_every_search_begins_at_the_first_node() -> None:
    some, cache = sampling(), cluster(*NAMES)
    assert decide(some, cache=cache).feasible_names() == decide(some, cache=cache).feasible_names()


def test_nodes_that_are_rejected_have_had_their_turn_but_do_not_count_as_found() -> None:
    sampler = NodeSampler()
    record = decide(sampling(TurnsDown("J", *NAMES[:60])), sampler)
    assert record.feasible_names() == list(NAMES[60:185])
    assert sampler.next_start == 185


def test_where_nothing_fits_every_node_is_looked_at() -> None:
    sampler = NodeSampler()
    record = decide(sampling(TurnsDown("J", *NAMES)), sampler)
    assert record.message == "0/250 nodes are available: 250 not for J."
    assert sampler.next_start == 0


def test_a_search_that_pre_filter_narrowed_takes_its_share_of_what_is_left() -> None:
    sampler = NodeSampler()
    narrowing = Looks("Narrow", SUCCESS, frozenset(NAMES[:220]))
    assert len(decide(sampling(narrowing), sampler).feasible) == 110
    assert sampler.next_start == 110


def test_zones_are_visited_in_turn() -> None:
    cache = Cache()
    for name, zone in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
        cache.add_node(make_node(name, labels={"topology.kubernetes.io/zone": zone}))
    order = in_turn_by_zone(cache.nodes, cache.nodes.rows())
    assert [cache.nodes.name_of(row) for row in order.tolist()] == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_region_reports_zones_of_one_name_apart() -> None:
    cache = Cache()
    for name, region in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        labels = {"topology.kubernetes.io/zone": "1", "topology.kubernetes.io/region": region}
        cache.add_node(make_node(name, labels=labels))
    order = in_turn_by_zone(cache.nodes, cache.nodes.rows())
    assert [cache.nodes.name_of(row) for row in order.tolist()] == ["a1", "b1", "a2"]


@given(
    st.lists(st.booleans(), min_size=101, max_size=180),
    st.integers(1, 99),
    st.integers(0, 400),
    st.lists(st.sampled_from(["", "a", "b"]), min_size=180, max_size=180),
)
def test_finds_what_a_walk_finds(fits: list[bool], percentage: int, start: int, zones: list[str]) -> None:
    cache = Cache()
    for number, zone in enumerate(zones[: len(fits)]):
        cache.add_node(make_node(NAMES[number], labels={"topology.kubernetes.io/zone": zone} if zone else {}))
    sampler = NodeSampler()
    sampler.next_start = start
    out = [NAMES[number] for number, passes in enumerate(fits) if not passes]
    order = in_turn_by_zone(cache.nodes, cache.nodes.rows()).tolist()
    assert sorted(order) == cache.nodes.rows().tolist()
    wanted, looked_at = nodes_to_find(percentage, len(fits)), 0
    found: list[str] = []
    while looked_at < len(order) and len(found) < wanted:
        name = cache.nodes.name_of(order[(start + looked_at) % len(order)])
        looked_at += 1
        if name not in out:
            found.append(name)
    record = decide(sampling(TurnsDown("J", *out), percentage=percentage), sampler, cache=cache)
    assert record.feasible_names() == sorted(found)
    assert sampler.next_start == (start if wanted == len(order) else (start + looked_at) % len(order))


def test_a_profile_goes_before_the_rest_of_the_file() -> None:
    text = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 40
profiles: [{schedulerName: own, percentageOfNodesToScore: 70}, {schedulerName: all, percentageOfNodesToScore: 0},
  {schedulerName: none}]
"""
    profiles = profiles_over(cluster("a"), load_bytes(text.encode(), "f"), registry())
    shares = {name: one.percentage_of_nodes_to_score for name, one in profiles.items()}
    assert shares == {"own": 70, "all": 0, "none": 40}


def test_the_scheduler_remembers_where_to_go_on() -> None:
    harness = SchedulerHarness(sampling(), cluster(*NAMES))
    chosen: set[str] = set()
    for number in range(2):
        harness.add(make_pod(f"p{number}"))
        queued = harness.queue.pop_nowait(harness.clock.time())
        assert queued is not None
        attempt = harness.scheduler.decide(queued)
        assert attempt is not None
        assert not chosen & set(attempt.record.feasible_names())
        chosen |= set(attempt.record.feasible_names())
    assert chosen == set(NAMES)


def test_a_node_that_comes_takes_part_in_the_next_search() -> None:
    cache, sampler = cluster(*NAMES[:3]), NodeSampler()
    assert sampler.visiting_order(cache.nodes, cache.nodes.rows()).tolist() == [0, 1, 2]
    cache.add_node(make_node("new"))
    assert len(sampler.visiting_order(cache.nodes, cache.nodes.rows())) == 4
    sampler.move_on(5, 4)
    assert sampler.visiting_order(cache.nodes, np.array([0, 2, 3], dtype=np.intp)).tolist() == [2, 3, 0]
