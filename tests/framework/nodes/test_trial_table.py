"""A table without some pods equals one whose nodes have lost them; pods come back, and its origin stays as it was."""

import weakref
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.nodes.pod_columns import PodColumns, Removable, ordered
from kscheduler.framework.nodes.trial_table import TrialTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_weight import COSTLY
from tests.builders import make_node, pod_info
from tests.framework.nodes.cluster_objects import node_fields, pod_fields
from tests.framework.nodes.naive_columns import Place, check
from tests.framework.nodes.test_node_table_with_pods import NAMES

on_some_node = st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 2), pod_fields), max_size=7)


def table_of(
    nodes: list[dict[str, Any]], pods: list[tuple[str, int, dict[str, Any]]]
) -> tuple[NodeTable, dict[str, Place]]:
    """Nodes and pods with priorities; no two pods of a node have a host port in common."""
    table, places = NodeTable(), {}
    for name, fields in zip(NAMES, nodes, strict=True):
        places[name] = Place(make_node(name, **fields))
        table.add(NodeInfo(places[name].node))
    for number, (name, priority, fields) in enumerate(pods):
        pod = pod_info(f"there-{number}", priority=priority, **fields)
        if any(pod.host_ports & other.host_ports for other in places[name].pods.values()):
            continue
        places[name].pods[pod.uid] = pod
        row = table.row_of(name)
        table.info(row).add_pod(pod)
        table.add_pod(row, pod)
    return table, places


def left_over(places: dict[str, Place], pods: Removable, trial: TrialTable) -> dict[str, Place]:
    gone = {pods.pod(item).uid for item in np.flatnonzero(trial.is_out).tolist()}
    return {
        name: Place(place.node, {uid: pod for uid, pod in place.pods.items() if uid not in gone})
        for name, place in places.items()
    }


@given(st.lists(node_fields, min_size=3, max_size=3), on_some_node, st.data())
def test_pods_go_and_come_back_and_the_origin_does_not_notice(
    nodes: list[dict[str, Any]], there: list[tuple[str, int, dict[str, Any]]], data: st.DataObject
) -> None:
    table, places = table_of(nodes, there)
    pods = PodColumns().below(table, table.rows(), 2)
    trial = TrialTable(table, pods)
    assert trial.is_out.all()
    check(trial, left_over(places, pods, trial))
    for step in range(int(pods.counts.max(initial=0))):
        items = pods.starts[pods.counts > step] + step
        before = trial.put_back(items)
        check(trial, left_over(places, pods, trial))
        regretted = np.array([data.draw(st.booleans()) for _ in items], dtype=np.bool_)
        trial.undo(before, regretted)
        assert trial.is_out[items].tolist() == regretted.tolist()
        check(trial, left_over(places, pods, trial))
    name = data.draw(st.sampled_from(NAMES))
    newcomer = pod_info("newcomer", **data.draw(pod_fields))
    crowded = left_over(places, pods, trial)
    crowded[name].pods[newcomer.uid] = newcomer
    check(trial.with_pods({table.row_of(name): [newcomer]}), crowded)
    check(trial, left_over(places, pods, trial))
    check(table, places)


@given(st.lists(node_fields, min_size=3, max_size=3), on_some_node, st.integers(0, 3))
def test_the_pods_that_may_go_are_those_of_lower_priority_the_most_important_first(
    nodes: list[dict[str, Any]], there: list[tuple[str, int, dict[str, Any]]], priority: int
) -> None:
    table, places = table_of(nodes, there)
    columns = PodColumns()
    for _ in range(2):  # worked out, and as they were kept
        pods = columns.below(table, table.rows(), priority)
        found = [(int(pods.row_of[item]), pods.pod(item).name) for item in range(len(pods))]
        assert found == [
            (table.row_of(name), pod.name)
            for name in sorted(places, key=table.row_of)
            for pod in ordered(places[name].pods.values())
            if pod.priority < priority
        ]
        assert pods.rows.tolist() == sorted({row for row, _ in found})
        assert [pods.all_kinds[kind].labels for kind in pods.kinds.tolist()] == [
            pods.pod(item).labels for item in range(len(pods))
        ]


def test_importance_is_priority_then_age_and_who_has_not_started_is_the_youngest() -> None:
    old = pod_info("old", status={"startTime": "2026-01-01T00:00:00Z"})
    same_time = pod_info("elsewhere", status={"startTime": "2026-01-01T01:00:00+01:00"})
    young = pod_info("young", status={"startTime": "2026-01-01T00:00:01Z"})
    unborn = pod_info("a-not-started")
    urgent = pod_info("urgent", priority=1)
    assert ordered([unborn, young, old, urgent, same_time]) == [urgent, same_time, old, young, unborn]


def test_a_new_version_of_a_pod_is_seen_though_no_sum_moves() -> None:
    table, _ = table_of([{}, {}, {}], [("a", 0, {})])
    columns, row = PodColumns(), table.row_of("a")
    before = columns.below(table, table.rows(), 1)
    (pod,) = table.info(row).pods.values()
    table.info(row).pods[pod.uid] = pod_info(pod.name, labels={"app": "web"})
    table.replace_pod(row)
    after = columns.below(table, table.rows(), 1)
    assert (before.pod(0).labels, after.pod(0).labels) == ({}, {"app": "web"})


def test_costly_pods_that_are_gone_are_not_held_until_a_thousand_others_are() -> None:
    table, _ = table_of([{}, {}, {}], [])
    columns, row, alive = PodColumns(), table.row_of("a"), list[weakref.ref[PodInfo]]()
    for number in range(100):
        pod = pod_info(f"giant-{number}", labels={f"k{number}-{label}": "x" for label in range(COSTLY + 1)})
        alive.append(weakref.ref(pod))
        table.info(row).add_pod(pod)
        table.add_pod(row, pod)
        assert len(columns.below(table, table.rows(), 1)) == 1
        table.info(row).remove_pod(pod)
        table.remove_pod(row, pod)
        del pod
        assert len([one for one in alive if one() is not None]) < 25
