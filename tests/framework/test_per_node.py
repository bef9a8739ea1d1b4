"""`@plugin`: a policy in a few lines, which cannot break a cycle."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.node_table import NodeTable
from kscheduler.framework.per_node import PerNodeFilter, PerNodeScore, plugin
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import Code
from tests.builders import make_node, pod_info


def table(*names: str) -> NodeTable:
    """Nodes without anything on them."""
    nodes = NodeTable()
    for name in names:
        nodes.add(NodeInfo(make_node(name)))
    return nodes


def test_a_filter_gives_its_reason_as_the_status() -> None:
    def judge(pod: PodInfo, node: NodeInfo) -> str | None:
        return None if node.name == "a" else f"{node.name} is not for {pod.name}"

    nodes, cycle = table("a", "b", "c"), CycleState()
    one = PerNodeFilter("Mine", judge)
    codes = one.filter(cycle, pod_info("p"), nodes, nodes.rows())
    assert (codes != 0).tolist() == [False, True, True]
    assert [one.status(cycle, int(code)).message for code in codes[1:]] == ["b is not for p", "c is not for p"]
    assert one.status(cycle, int(codes[1])).code is Code.UNSCHEDULABLE
    assert one.status(cycle, int(codes[1])).plugin == "Mine"


def test_two_filters_of_one_profile_keep_their_reasons_apart() -> None:
    nodes, cycle, rows = table("a"), CycleState(), np.array([0], dtype=np.intp)
    first, second = PerNodeFilter("First", lambda *_: "one"), PerNodeFilter("Second", lambda *_: "two")
    code_one = int(first.filter(cycle, pod_info(), nodes, rows)[0])
    code_two = int(second.filter(cycle, pod_info(), nodes, rows)[0])
    assert (first.status(cycle, code_one).message, second.status(cycle, code_two).message) == ("one", "two")


@given(st.one_of(st.integers(-(10**40), 10**40), st.floats(allow_nan=False)))
def test_points_are_cut_to_the_range_however_far_they_overshoot(points: float) -> None:
    nodes = table("a")
    scores = PerNodeScore("Mine", lambda *_: points).score(CycleState(), pod_info(), nodes, nodes.rows())  # type: ignore[arg-type]  # users return floats
    assert scores.tolist() == [math.trunc(max(0, min(points, 100)))]
    assert scores.dtype == np.int64


def test_the_function_decides_what_the_plugin_is() -> None:
    @plugin("PreferFirst")
    def score(pod: PodInfo, node: NodeInfo) -> int:
        return 100 if node.name == "a" else 0

    @plugin("OnlyFirst")
    def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001  # the name is the contract
        return None

    assert (score.name, filter.name) == ("PreferFirst", "OnlyFirst")


def test_a_function_of_another_name_is_refused_with_advice() -> None:
    with pytest.raises(ValueError, match="name the function `filter` or `score`, not `judge`"):

        @plugin("Mine")
        def judge(pod: PodInfo, node: NodeInfo) -> int:
            return 1
