"""What the constraints of like pods have in common is worked out once, and again when a node changes."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.pod_topology_spread import layout
from kscheduler.plugins.pod_topology_spread.domains import Feasible
from kscheduler.plugins.pod_topology_spread.filtering import hard_spread
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


def lists(count: int) -> list[PodInfo]:
    """Pods with lists of their own, each like another pod."""
    pods = []
    for number in range(count):
        one = pod_info("first", topologySpreadConstraints=[{**SPREAD, "maxSkew": number + 1}])
        _ = one.spread_by_action
        pods.append(like(one))
    return pods


def test_layouts_have_a_budget_in_bytes_and_those_not_queried_for_longest_go(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c = lists(3)
    monkeypatch.setattr(layout, "_BUDGET_BYTES", 2 * layout_of(Layouts(), a, cache.nodes).bytes)
    layouts = Layouts()
    first = layout_of(layouts, a, cache.nodes)
    second = layout_of(layouts, b, cache.nodes)
    for _ in range(5):  # to be asked for again takes no more room
        assert layout_of(layouts, b, cache.nodes) is second
        assert layout_of(layouts, a, cache.nodes) is first
    layout_of(layouts, c, cache.nodes)
    assert layout_of(layouts, a, cache.nodes) is first
    assert layout_of(layouts, b, cache.nodes) is not second
    assert len(layouts._layouts) == 2


def test_a_layout_beyond_the_budget_is_kept_while_it_is_the_last(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = lists(2)
    monkeypatch.setattr(layout, "_BUDGET_BYTES", 1)
    layouts = Layouts()
    large = layout_of(layouts, a, cache.nodes)
    assert layout_of(layouts, a, cache.nodes) is large
    layout_of(layouts, b, cache.nodes)
    assert len(layouts._layouts) == 1


def test_nodes_of_before_take_no_room(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = lists(2)
    monkeypatch.setattr(layout, "_BUDGET_BYTES", 2 * layout_of(Layouts(), a, cache.nodes).bytes)
    layouts = Layouts()
    for _ in range(5):
        cache.add_node(make_node("node-0", labels={"zone": "b", "change": str(cache.generation)}))
        first, second = (layout_of(layouts, pod, cache.nodes) for pod in (a, b))
        assert [layout_of(layouts, pod, cache.nodes) for pod in (a, b)] == [first, second]


def test_a_layout_knows_about_what_its_arrays_take() -> None:
    cache = Cache()
    for number in range(200):
        cache.add_node(make_node(f"node-{number}", labels={"zone": str(number)}))
    known = layout_of(Layouts(), lists(1)[0], cache.nodes)
    (domains,) = known.domains
    arrays = sum(one.nbytes for one in (domains.counting, domains.of_counting, domains.exists, domains.existing))
    assert arrays <= known.bytes <= arrays + 3000


NEVER_TAINTS, ALWAYS_TAINTS = {"nodeTaintsPolicy": "Ignore"}, {"nodeTaintsPolicy": "Honor"}


def counting(cache: Cache, constraints: list[dict[str, Any]], *pods: dict[str, Any]) -> list[list[int]]:
    """Per pod, all with the very same list, on how many rows pods count, by constraint."""
    layouts = Layouts()
    first = pod_info("first", topologySpreadConstraints=constraints)
    shared = first.spread_by_action["DoNotSchedule"]
    found = []
    for fields in pods:
        known = layouts.of(shared, pod_info(**fields), cache.nodes, needs_all_keys=True, is_shared=True)
        found.append([len(one.counting) for one in known.domains])
    return found


def test_one_constraint_that_honours_affinity_is_enough_to_report_pods_apart(cache: Cache) -> None:
    cache.add_node(make_node("node-0", labels={"zone": "a", "disk": "ssd"}))
    constraints = [SPREAD, {**SPREAD, "maxSkew": 2, "nodeAffinityPolicy": "Ignore"}]
    choosy = {"name": "choosy", "nodeSelector": {"disk": "ssd"}}
    assert counting(cache, constraints, {"name": "plain"}, choosy, {"name": "plain"}) == [[3, 3], [1, 3], [3, 3]]


def test_one_constraint_that_honours_taints_is_enough_to_report_pods_apart(cache: Cache) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    cache.add_node(make_node("node-0", labels={"zone": "a"}, spec={"taints": [taint]}))
    constraints = [{**SPREAD, **ALWAYS_TAINTS}, {**SPREAD, **NEVER_TAINTS, "maxSkew": 2}]
    tolerant = {"name": "tolerant", "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert counting(cache, constraints, {"name": "plain"}, tolerant, {"name": "plain"}) == [[2, 3], [3, 3], [2, 3]]


@pytest.mark.parametrize("compares", [True, False], ids=["may", "may not"])
def test_where_tolerations_may_compare_numbers_pods_count_on_the_nodes_that_they_open(
    cache: Cache, compares: bool
) -> None:
    taint = {"key": "level", "value": "5", "effect": "NoSchedule"}
    cache.add_node(make_node("node-0", labels={"zone": "a"}, spec={"taints": [taint]}))
    toleration = {"key": "level", "operator": "Gt", "value": "3", "effect": "NoSchedule"}
    constraint = {**SPREAD, **ALWAYS_TAINTS}
    pod = pod_info("p", labels={"app": "web"}, topologySpreadConstraints=[constraint], tolerations=[toleration])
    known = layout_of(Layouts(compares=compares), pod, cache.nodes)
    assert len(known.domains[0].counting) == (3 if compares else 2)
    spread, other, row = hard_spread(known, pod, cache.counters), pod_info("other", labels={"app": "web"}), 0
    one = MovedPods(np.array([row]), (other,), np.array([0]), 1)
    for after in (spread.moved(pod, other, cache.nodes, row, 1), spread.moved_by_row(pod, one, cache.nodes)):
        codes = after.codes(np.array([row]))
        assert (codes is not None and bool(codes.any())) is compares, "one more in zone a is one too many, if it counts"
