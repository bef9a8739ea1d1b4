"""Sums over nodes that an int64 cannot hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.nodes.exact_sums import exact_sum
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod


@given(st.lists(st.integers(-MAX_INT64 - 1, MAX_INT64)))
def test_the_sum_is_that_of_pythons_integers(amounts: list[int]) -> None:
    assert exact_sum(np.array(amounts, dtype=np.int64)) == sum(amounts)


@pytest.mark.parametrize("amount", [MAX_INT64, -MAX_INT64 - 1, 2**32 - 1, -1], ids=["most", "least", "low", "negative"])
def test_a_hundred_thousand_rows_of_one_amount(amount: int) -> None:
    assert exact_sum(np.full(100_000, amount, dtype=np.int64)) == 100_000 * amount


def test_a_table_adds_up_what_pods_bound_past_the_scheduler_request() -> None:
    cache = Cache()
    for number in range(3):
        cache.add_node(make_node(f"n{number}", **{"a.b/c": "8E"}))
        cache.add_pod(make_pod(f"p{number}", node=f"n{number}", uid=f"p{number}", requests={"a.b/c": "7E"}))
    nodes = cache.nodes
    assert nodes.total(nodes.allocatable, "a.b/c", nodes.rows()) == 24 * 10**18
    assert nodes.total(nodes.requested, "a.b/c", nodes.rows()) == 21 * 10**18
    assert nodes.total(nodes.requested, "a.b/c", nodes.rows()[:1]) == 7 * 10**18
    assert nodes.total(nodes.requested, "a.b/unknown", nodes.rows()) == 0
