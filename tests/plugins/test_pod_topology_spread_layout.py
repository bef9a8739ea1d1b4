"""What the constraints of like pods have in common is worked out once, and again when a node changes."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from kscheduler.framework.node_table import NodeTable
from kscheduler.framework.pod_info import PodInfo
from kscheduler.plugins.pod_topology_spread.key_columns import Feasible
from kscheduler.plugins.pod_topology_spread.layout import Layout, Layouts
from kscheduler.state.cache import Cache
from tests.builders import make_node, pod_info

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


@pytest.fixture
def cache() -> Cache:
    cache = Cache()
    for number, zone in enumerate("aab"):
        cache.add_node(make_node(f"node-{number}", labels={"zone": zone}))
    return cache


def like(other: PodInfo, **fields: Any) -> PodInfo:
    pod = pod_info("another", topologySpreadConstraints=[SPREAD], **fields)
    pod.take(other)
    return pod


@pytest.fixture
def first() -> PodInfo:
    pod = pod_info("first", topologySpreadConstraints=[SPREAD])
    _ = pod.spread_by_action
    return pod


def layout_of(layouts: Layouts, pod: PodInfo, nodes: NodeTable) -> Layout:
    constraints = pod.spread_by_action["DoNotSchedule"]
    return layouts.of(constraints, pod, nodes, needs_all_keys=True, is_shared=pod.is_like_another)


def test_like_pods_share_a_layout_while_pods_and_heartbeats_come(cache: Cache, first: PodInfo) -> None:
    layouts = Layouts()
    kept = layout_of(layouts, like(first), cache.nodes)
    cache.assume_pod(first, "node-0")
    cache.add_node(make_node("node-0", labels={"zone": "a"}, status={"conditions": [{"type": "Ready"}]}))
    assert layout_of(layouts, like(first), cache.nodes) is kept


def test_a_changed_node_makes_another_layout(cache: Cache, first: PodInfo) -> None:
    layouts = Layouts()
    layout_of(layouts, like(first), cache.nodes)
    cache.add_node(make_node("node-0", labels={"zone": "c"}))
    (domains,) = layout_of(layouts, like(first), cache.nodes).domains
    zones = cache.nodes.label_values("zone", cache.nodes.rows())[1]
    assert [zones[number] for number in domains.of_row[cache.nodes.rows()]] == ["c", "a", "b"]


def test_nothing_is_kept_for_a_pod_like_no_other(cache: Cache, first: PodInfo) -> None:
    layouts = Layouts()
    assert layout_of(layouts, first, cache.nodes) is not layout_of(layouts, first, cache.nodes)


def test_layouts_of_another_table_are_not_taken(cache: Cache, first: PodInfo) -> None:
    layouts, other = Layouts(), Cache()
    for number in range(3):
        other.add_node(make_node(f"node-{number}", labels={"zone": "z"}))
    assert cache.nodes.node_columns_version == other.nodes.node_columns_version
    layout_of(layouts, like(first), cache.nodes)
    assert layout_of(layouts, like(first), other.nodes).nodes is other.nodes


def test_pods_that_go_to_other_nodes_have_layouts_of_their_own_for_one_list(cache: Cache, first: PodInfo) -> None:
    layouts, constraints = Layouts(), first.spread_by_action["DoNotSchedule"]
    cache.add_node(make_node("node-0", labels={"zone": "a", "disk": "ssd"}))
    of = partial(layouts.of, constraints, nodes=cache.nodes, needs_all_keys=True, is_shared=True)
    choosy = pod_info("choosy", nodeSelector={"disk": "ssd"})
    assert [len(of(pod=pod).domains[0].counting) for pod in (first, choosy, pod_info("second"))] == [3, 1, 3]


def test_all_lists_share_what_hangs_on_a_key_alone_until_a_node_changes(cache: Cache, first: PodInfo) -> None:
    layouts = Layouts()
    other = pod_info("other", topologySpreadConstraints=[SPREAD | {"maxSkew": 2}])
    (ours,), (theirs,) = (layout_of(layouts, pod, cache.nodes).domains for pod in (first, other))
    assert ours.column is theirs.column
    cache.add_node(make_node("node-0", labels={"zone": "c"}))
    (now,) = layout_of(layouts, first, cache.nodes).domains
    assert now.column is not ours.column


def test_what_is_known_of_feasible_rows_is_known_of_the_very_same_ones_only() -> None:
    feasible = Feasible()
    feasible.keep(np.array([0, 2, 4]), "even")
    assert feasible.find(np.array([0, 2, 4])) == "even"
    assert feasible.find(np.array([0, 3, 4])) is None
    assert feasible.find(np.array([0, 2])) is None
    assert feasible.find(np.array([], dtype=np.intp)) is None


def test_only_a_few_sets_of_feasible_rows_are_kept() -> None:
    feasible = Feasible()
    for number in range(100):
        feasible.keep(np.array([number]), number)
    kept = [number for number in range(100) if feasible.find(np.array([number])) is not None]
    assert kept == list(range(68, 100))


def test_layouts_of_nodes_of_before_hold_nothing_of_feasible_rows(cache: Cache, first: PodInfo) -> None:
    """Layouts of Deployments that never come back stay for long; what is filed under them must not."""
    layouts = Layouts()
    before = layout_of(layouts, first, cache.nodes).feasible
    rows = np.array([0, 1])
    before.keep(rows, "known")
    cache.add_node(make_node("node-0", labels={"zone": "c"}))
    now = layout_of(layouts, like(first), cache.nodes).feasible
    assert before.find(rows) is None
    assert now is not before


def test_layouts_of_nodes_of_before_are_forgotten_and_those_of_now_are_bounded(cache: Cache) -> None:
    layouts = Layouts()
    pods = []
    for number in range(1100):
        one = pod_info("first", topologySpreadConstraints=[{**SPREAD, "maxSkew": number + 1}])
        _ = one.spread_by_action
        pods.append(like(one))
        layout_of(layouts, pods[-1], cache.nodes)
    assert len(layouts._layouts) == 1024
    cache.add_node(make_node("node-9", labels={"zone": "c"}))
    layout_of(layouts, pods[-1], cache.nodes)
    assert len(layouts._layouts) == 1
