"""Whom a pod must leave room for, by row: equal to a walk over all nominations, whatever came between two questions."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nodes.arrivals import Arrivals
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache
from kscheduler.state.nominator import NominatedPods
from tests.builders import make_node, make_pod

NODES = ("a", "b", "c")
FIELDS: tuple[dict[str, Any], ...] = (
    {"requests": {"cpu": "1"}},
    {"requests": {"cpu": "2", "memory": "1Gi"}, "labels": {"app": "x"}},
    {"requests": {"memory": "64Ti"}},
    {"requests": {"example.com/gpu": "1"}},
    {"ports": [8080]},
)
steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("nominate"),
            st.sampled_from("pqrs"),
            st.sampled_from((*NODES, "nowhere", "")),
            st.integers(0, 2),
            st.sampled_from(FIELDS),
        ),
        st.tuples(st.just("node"), st.sampled_from(NODES), st.booleans()),
        st.tuples(st.just("ask"), st.integers(0, 2), st.sampled_from("pqrs-")),
    ),
    max_size=25,
)


def pod(name: str, priority: int = 0, **fields: Any) -> PodInfo:
    ports = [{"containerPort": port, "hostPort": port} for port in fields.pop("ports", ())]
    made = make_pod(name, priority=priority, **fields)
    if ports:
        made = make_pod(name, priority=priority, containers=[{"name": "c", "ports": ports}], **fields)
    return PodInfo(made)


def naive(cache: Cache, querying: PodInfo) -> dict[int, list[str]]:
    """Rows with whom the pod must leave room for, in the order of their nominations."""
    found: dict[int, list[str]] = {}
    for uid in cache.nominator.nominated():
        node_name, nominated = cache.nominator.nomination(uid) or ("", querying)
        row = cache.nodes.row_of(node_name)
        if row >= 0 and nominated.priority >= querying.priority and uid != querying.uid:
            found.setdefault(row, []).append(uid)
    return found


def everywhere(cache: Cache, querying: PodInfo) -> Arrivals | None:
    expected = cache.nominated.before(querying)
    return None if expected is None else expected.among(cache.nodes.rows())


def check(cache: Cache, querying: PodInfo) -> None:
    wanted, arrivals = naive(cache, querying), everywhere(cache, querying)
    if arrivals is None:
        assert not wanted
        return
    rows = arrivals.rows.tolist()
    for row in cache.nodes.rows():
        expected = cache.nominated.before(querying)
        here = None if expected is None else expected.among(np.array([row]))
        assert ([] if here is None else [arrival.uid for arrival in here.on(0)]) == wanted.get(int(row), [])
    assert rows == sorted(wanted)
    assert {row: [arrival.uid for arrival in arrivals.on(place)] for place, row in enumerate(rows)} == wanted
    slow = cache.nodes.with_pods({row: arrivals.on(place) for place, row in enumerate(rows)})
    fast = arrivals.upon(cache.nodes)
    live = cache.nodes.rows()
    for name in ("requested", "nonzero_requested", "pod_count"):
        assert np.array_equal(getattr(slow, name)[..., live], getattr(fast, name)[..., live]), name
    for row in live.tolist():
        assert list(slow.info(row).pods) == list(fast.info(row).pods)
        assert slow.info(row).requested == fast.info(row).requested
    ports = [("TCP", 8080, "0.0.0.0")]
    assert slow.ports.conflicting_rows(ports) == fast.ports.conflicting_rows(ports)
    moved = arrivals.moving()
    assert sorted(moved.rows.tolist()) == sorted(row for row, uids in wanted.items() for _ in uids)


@given(steps)
def test_equals_a_walk_over_all_nominations(history: list[tuple[Any, ...]]) -> None:
    cache = Cache()
    cache.add_node(make_node("a"))
    for what, *details in history:
        if what == "nominate":
            name, node, priority, fields = details
            cache.nominator.nominate(pod(name, priority, **fields), node)
        elif what == "node":
            name, is_there = details
            if is_there:
                cache.add_node(make_node(name))
            else:
                cache.remove_node(name)
        else:
            priority, name = details
            check(cache, pod(name, priority))
    check(cache, pod("last"))


def test_a_pod_yields_to_equal_and_higher_priority_and_never_to_itself() -> None:
    cache = Cache()
    for name in ("a", "b"):
        cache.add_node(make_node(name))
    low, high = pod("low", 1), pod("high", 9)
    cache.nominator.nominate(low, "a")
    cache.nominator.nominate(high, "b")
    a, b = (cache.nodes.row_of(name) for name in ("a", "b"))
    for querying, rows in ((pod("new", 1), {a, b}), (pod("new", 2), {b}), (pod("new", 10), set()), (high, set())):
        found = everywhere(cache, querying)
        assert (set() if found is None else set(found.rows.tolist())) == rows


def test_more_nominations_than_are_noted_one_by_one_are_learnt_anew() -> None:
    nominator = NominatedPods()
    assert nominator.take_touched() is None, "at first, any nomination may be new to the reader"
    nominator.nominate(pod("one"), "a")
    assert list(nominator.take_touched() or ()) == [pod("one").uid]
    for number in range(5000):
        nominator.nominate(pod(f"pod-{number}"), "a")
    assert nominator.take_touched() is None


def test_only_the_rows_that_are_asked_about_are_reported() -> None:
    cache = Cache()
    for name in NODES:
        cache.add_node(make_node(name))
        cache.nominator.nominate(pod(f"to-{name}"), name)
    arrivals = everywhere(cache, pod("new"))
    assert arrivals is not None
    row = np.array([cache.nodes.row_of("b")], dtype=np.intp)
    here = arrivals.among(row)
    assert here is not None
    assert here.rows.tolist() == row.tolist()
    assert [arrival.name for arrival in here.on(0)] == ["to-b"]
    assert here.moving().rows.tolist() == row.tolist()
    assert arrivals.among(cache.nodes.rows()) is arrivals
    assert arrivals.among(row[:0]) is None


def test_a_nomination_for_resources_that_came_with_a_new_node() -> None:
    """More of them than there are sums beyond the resources: the row of the last was past the end."""
    cache = Cache()
    cache.add_node(make_node("a"))
    cache.nominator.nominate(pod("p", 1), "a")
    check(cache, pod("-"))
    kinds = {f"example.com/{number}": "1" for number in range(5)}
    cache.add_node(make_node("b", **kinds))
    cache.nominator.nominate(pod("q", 1, requests={"example.com/4": "1"}), "b")
    cache.nominator.nominate(pod("r", 1), "a")
    check(cache, pod("-"))


def test_there_is_room_for_any_number_of_nominations() -> None:
    cache = Cache()
    for name in NODES:
        cache.add_node(make_node(name))
    for number in range(150):
        fields = FIELDS[number % len(FIELDS)]
        cache.nominator.nominate(pod(f"pod-{number}", number % 3, **fields), NODES[number % 2])
        if number in (0, 63, 64, 65, 128, 149):
            check(cache, pod("asking", 1))
