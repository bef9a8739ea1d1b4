"""Columns of counts with their sums by domain: which are kept, and for how long."""

import numpy as np
import pytest

from kscheduler.state.cache import Cache
from kscheduler.state.topology import columns as topology_columns
from kscheduler.state.topology.columns import RecentColumns
from tests.builders import make_node


@pytest.fixture
def cache() -> Cache:
    """Three nodes in two zones, in a rack each."""
    cache = Cache()
    for number, zone in enumerate("aab"):
        cache.add_node(make_node(f"node-{number}", labels={"zone": zone, "rack": str(number)}))
    return cache


def sums(columns: RecentColumns[str], owner: str, key: str, cache: Cache) -> dict[str, int]:
    """What a column counts, by the label's values."""
    column = columns.use(owner)
    assert column is not None
    found = columns.by_domain(column, key, cache.nodes)
    assert found is not None
    _, values = cache.nodes.label_values(key, cache.nodes.rows())
    return {value: int(found.sums[number]) for number, value in enumerate(values) if value is not None}


def test_sums_follow_the_pods_that_come_and_go(cache: Cache) -> None:
    columns = RecentColumns[str](1 << 20)
    columns.keep("web", np.zeros(cache.nodes.capacity, dtype=np.int64))
    rows = [cache.nodes.row_of(f"node-{number}") for number in range(3)]
    columns.count("web", rows[0], 2)
    assert sums(columns, "web", "zone", cache) == {"a": 2, "b": 0}
    columns.count("web", rows[1], 1)
    columns.count("web", rows[2], 4)
    columns.count("nobody", rows[2], 4)
    assert sums(columns, "web", "zone", cache) == {"a": 3, "b": 4}
    columns.clear(rows[0])
    assert sums(columns, "web", "zone", cache) == {"a": 1, "b": 4}


def test_sums_are_kept_until_there_are_too_many_and_then_begin_anew(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology_columns, "_MAX_SUMS", 6)
    columns = RecentColumns[str](1 << 20)
    column = np.zeros(cache.nodes.capacity, dtype=np.int64)
    columns.keep("web", column)
    columns.count("web", cache.nodes.row_of("node-0"), 2)
    first = columns.by_domain(column, "zone", cache.nodes)
    assert columns.by_domain(column, "zone", cache.nodes) is first
    for key in ("rack", "row", "room", "hall"):
        columns.by_domain(column, key, cache.nodes)
    assert columns.by_domain(column, "zone", cache.nodes) is not first
    assert sums(columns, "web", "zone", cache) == {"a": 2, "b": 0}


def test_those_not_used_for_longest_make_room_and_their_owner_hears_of_it(cache: Cache) -> None:
    dropped: list[str] = []
    columns = RecentColumns[str](1 << 20, dropped.append)
    for owner in ("a", "b"):
        columns.keep(owner, np.zeros(cache.nodes.capacity, dtype=np.int64), most_columns=2)
    columns.use("a")
    columns.keep("c", np.zeros(cache.nodes.capacity, dtype=np.int64), most_columns=2)
    assert dropped == ["b"]
    assert list(columns) == ["a", "c"]
    assert columns.use("b") is None


def test_a_column_of_another_collection_has_no_sums(cache: Cache) -> None:
    columns = RecentColumns[str](1 << 20)
    assert columns.by_domain(np.zeros(cache.nodes.capacity, dtype=np.int64), "zone", cache.nodes) is None


def test_the_budget_is_in_bytes_and_one_column_is_always_kept(cache: Cache) -> None:
    columns = RecentColumns[str](1)
    for owner in ("a", "b"):
        columns.keep(owner, np.zeros(cache.nodes.capacity, dtype=np.int64))
    assert list(columns) == ["b"]
    roomy = RecentColumns[str](3 * (8 * cache.nodes.capacity + 2048))
    for owner in ("a", "b", "c", "d"):
        roomy.keep(owner, np.zeros(cache.nodes.capacity, dtype=np.int64))
    assert list(roomy) == ["b", "c", "d"]
