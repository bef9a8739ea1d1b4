"""Ties as kube-scheduler breaks them: the top of the heap that Go makes of the nodes in visiting order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.well_known import ZONE
from kscheduler.scheduling.cycle.sampling import FEWEST_TO_FIND
from kscheduler.scheduling.cycle.visiting_ties import TieBreakingSampler
from kscheduler.state.cache import Cache
from tests.builders import make_node


def cluster(*zones: str) -> Cache:
    """Nodes node-000, node-001 ... in these zones."""
    cache = Cache()
    for number, zone in enumerate(zones):
        cache.add_node(make_node(f"node-{number:03}", labels={ZONE: zone}))
    return cache


def chosen(cache: Cache, feasible: list[int], tied: list[int], start: int = 0) -> int:
    """The row that is taken."""
    sampler = TieBreakingSampler()
    sampler.next_start = start
    return sampler.among_equals(cache.nodes, cache.nodes.rows(), np.array(feasible), np.array(tied))


def top_of_heap(points: list[int]) -> int:
    """The place of the top after Go's `heap.Init`, swap by swap."""
    heap = list(enumerate(points))
    for begin in range(len(heap) // 2 - 1, -1, -1):
        parent = begin
        while (child := 2 * parent + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1][1] > heap[child][1]:
                child += 1
            if not heap[child][1] > heap[parent][1]:
                break
            heap[parent], heap[child] = heap[child], heap[parent]
            parent = child
    return heap[0][0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_the_choice_is_the_top_of_gos_heap(points: list[int]) -> None:
    cache = cluster(*["a"] * len(points))
    tied = [row for row, each in enumerate(points) if each == max(points)]
    assert chosen(cache, list(range(len(points))), tied) == top_of_heap(points)


def test_zones_take_turns_in_the_order_of_their_first_nodes() -> None:
    cache = cluster("b", "b", "a", "c")
    order = [0, 2, 3, 1]
    for place, row in enumerate(order):
        assert chosen(cache, order[place:], order[place:]) == row


def test_only_feasible_nodes_have_a_place_in_the_heap() -> None:
    # Places 0, 1, 2 in the heap are rows 1, 2, 3: the walk from the top is 1, 2, 3, and not that of places 1, 2, 3.
    cache = cluster("a", "a", "a", "a")
    assert chosen(cache, [1, 2, 3], [2, 3]) == 2
    assert chosen(cache, [0, 1, 2, 3], [2, 3]) == 3, "row 3 is below row 1, on the left"


def test_the_visit_starts_where_the_last_one_stopped() -> None:
    assert chosen(cluster("a", "a", "a"), [0, 1, 2], [0, 1, 2], start=2) == 2


def test_where_kube_scheduler_looks_at_a_part_of_the_nodes_there_is_no_rule() -> None:
    rows = list(range(FEWEST_TO_FIND))
    assert chosen(cluster(*["a"] * FEWEST_TO_FIND), rows, rows) == -1


def test_the_order_that_is_kept_follows_the_nodes() -> None:
    cache, sampler = cluster("a", "a", "b", "b"), TieBreakingSampler()

    def first_of_all() -> int:
        every = cache.nodes.rows()
        sampler.next_start = 1
        return sampler.among_equals(cache.nodes, every, every, every)

    second = first_of_all()
    assert cache.nodes.name_of(second) == "node-002", "the first of the second zone is visited after node-000"
    cache.update_node(make_node("node-002", labels={ZONE: "a"}))
    assert cache.nodes.name_of(first_of_all()) == "node-003"
