"""The shared arithmetic of scores: columns of any numbers give Go's integers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.framework.rules.scoring import Usage, by_shape, percent, points_by_utilization
from kscheduler.plugins.node_resources_balanced_allocation import evenness
from tests.effort import example_count
from tests.specification import scores
from tests.specification.requests_by_hand import MOST
from tests.specification.scores import cut, line_through

examples = settings(max_examples=example_count(200), deadline=None)

edges = [0, 1, 2, 3, 99, 100, 101, 2**46 - 1, 2**46, 2**53, 2**53 + 1, 2**56 - 1, 2**56, 2**62, MOST - 1, MOST]
amounts = st.one_of(st.sampled_from(edges), st.integers(0, 10**6), st.integers(0, MOST))
wholes_and_parts = amounts.flatmap(lambda whole: st.tuples(st.just(whole), st.integers(0, whole)))
shapes = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=5).map(
    lambda corners: sorted(corners.items())
)


@examples
@given(st.lists(wholes_and_parts, max_size=5))
def test_percent_is_integer_division_for_every_int64(pairs: list[tuple[int, int]]) -> None:
    wholes = np.array([whole for whole, _ in pairs], dtype=np.int64)
    parts = np.array([part for _, part in pairs], dtype=np.int64)
    assert percent(parts, wholes).tolist() == [part * 100 // whole if whole else 0 for whole, part in pairs]


@pytest.mark.parametrize("limit", [2**46, 2**53, 2**56, 2**57, 2**60], ids=lambda limit: f"2^{limit.bit_length() - 1}")
def test_percent_is_exact_where_arithmetic_changes_and_where_the_next_would_overflow(limit: int) -> None:
    for whole in range(limit - 3, limit + 4):
        parts = [0, 1, whole // 3, whole // 2, whole - whole // 100, whole - whole // 100 - 1, whole - 1, whole]
        wholes = np.full(len(parts), whole, dtype=np.int64)
        assert percent(np.array(parts, dtype=np.int64), wholes).tolist() == [part * 100 // whole for part in parts]


@examples
@given(shapes)
def test_a_shape_rises_and_falls_with_gos_division(shape: list[tuple[int, int]]) -> None:
    corners = [(utilization, score * 10) for utilization, score in shape]
    expected = [line_through(corners, utilization) for utilization in range(101)]
    assert points_by_utilization(shape).tolist() == expected


usages = st.tuples(amounts, amounts, st.integers(1, MOST), st.integers(1, 100))


@examples
@given(st.lists(usages, min_size=1, max_size=4), shapes)
def test_the_mean_over_a_shape_leaves_out_what_earns_nothing_and_rounds_halves_up(
    numbers: list[tuple[int, int, int, int]], shape: list[tuple[int, int]]
) -> None:
    table = points_by_utilization(shape)
    total = weights = 0
    for capacity, requested, request, weight in numbers:
        together = requested + request
        points = int(table[100 if together > capacity else cut(together * 100, capacity)]) if capacity else 0
        if points > 0:
            total += points * weight
            weights += weight
    expected = (2 * total + weights) // (2 * weights) if weights else 0
    capacities, sums, requests, weighing = zip(*numbers, strict=True)
    columns = [np.array(one).reshape(-1, 1) for one in (capacities, sums, requests)]
    used = Usage(columns[0], columns[1], columns[2], weighing)
    assert by_shape(used, table).tolist() == [expected]


@examples
@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=5))
def test_evenness_counts_the_resources_that_a_node_has(numbers: list[tuple[int, int]]) -> None:
    capacities, used = (np.array([[amount] for amount in one]) for one in zip(*numbers, strict=True))
    fractions = [min(1.0, float(taken) / float(capacity)) for capacity, taken in numbers if capacity]
    assert evenness(capacities, used).tolist() == [scores.evenness(fractions)]


@pytest.mark.parametrize("absent", [0, 1, 2], ids="{} resources that the node lacks".format)
def test_two_resources_deviate_by_half_their_distance_to_the_last_bit(absent: int) -> None:
    """0.1 and 0.8: half the distance leaves 64 points, the root of the mean square 65."""
    lacking = [[0]] * absent
    assert evenness(np.array([[160], [170], *lacking]), np.array([[16], [136], *lacking])).tolist() == [64]
