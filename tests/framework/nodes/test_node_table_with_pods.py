"""A table with more pods on some rows equals a table whose nodes have those pods, and the first one stays as it was."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from tests.builders import make_node, pod_info
from tests.framework.nodes.cluster_objects import node_fields, pod_fields
from tests.framework.nodes.naive_columns import Place, check

NAMES = ("a", "b", "c")
on_some_node = st.lists(st.tuples(st.sampled_from(NAMES), pod_fields), max_size=4)


def table_of(nodes: list[dict[str, Any]], pods: list[tuple[str, dict[str, Any]]]) -> tuple[NodeTable, dict[str, Place]]:
    table, places = NodeTable(), {}
    for name, fields in zip(NAMES, nodes, strict=True):
        places[name] = Place(make_node(name, **fields))
        table.add(NodeInfo(places[name].node))
    for number, (name, fields) in enumerate(pods):
        pod = pod_info(f"there-{number}", **fields)
        places[name].pods[pod.uid] = pod
        row = table.row_of(name)
        table.info(row).add_pod(pod)
        table.add_pod(row, pod)
    return table, places


@given(st.lists(node_fields, min_size=3, max_size=3), on_some_node, on_some_node)
def test_a_fork_shows_the_added_pods_and_its_origin_does_not(
    nodes: list[dict[str, Any]], there: list[tuple[str, dict[str, Any]]], added: list[tuple[str, dict[str, Any]]]
) -> None:
    table, places = table_of(nodes, there)
    generations, versions = table.generation.copy(), table.pods_version.copy()
    more: dict[int, list[Any]] = {}
    crowded = {name: Place(place.node, dict(place.pods)) for name, place in places.items()}
    for number, (name, fields) in enumerate(added):
        pod = pod_info(f"added-{number}", **fields)
        more.setdefault(table.row_of(name), []).append(pod)
        crowded[name].pods[pod.uid] = pod
    fork = table.with_pods(more)
    check(fork, crowded)
    check(table, places)
    assert np.array_equal(table.generation, generations)
    assert np.array_equal(table.pods_version, versions), "what is kept of its rows would be worked out anew for nothing"


def test_a_resource_that_only_an_added_pod_asks_for_has_no_column_in_the_fork_either() -> None:
    table, _ = table_of([{}, {}, {}], [])
    fork = table.with_pods({0: [pod_info("new", requests={"example.com/new": "1"})]})
    assert fork.info(0).requested["example.com/new"] == 1
    for each in (fork, table):
        assert "example.com/new" not in each.resources
        assert len(each.requested) == len(each.resources)


def test_features_follow_the_node() -> None:
    table, _ = table_of([{"status": {"declaredFeatures": ["B", "A"]}}, {}, {"status": {"declaredFeatures": ["A"]}}], [])
    declared = [table.feature_sets[number] for number in table.feature_set[table.rows()].tolist()]
    assert declared == [{"A", "B"}, set(), {"A"}]
