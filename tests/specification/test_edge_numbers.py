"""Numbers at the edge, each with the answer written out: what kube-scheduler's int64 and float64 arithmetic gives.

The random tests meet these by chance; here they are by name. Sums past 2^63 - 1 stay there and do not wrap around.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.core import Node
from kscheduler.config.plugin_args import InterPodAffinityArgs, NodeResourcesFitArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import points_by_utilization
from kscheduler.plugins.inter_pod_affinity import InterPodAffinity
from kscheduler.plugins.node_resources_balanced_allocation import evenness
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.pod_topology_spread.scoring import rounded
from tests.builders import make_pod
from tests.specification import rules, scores
from tests.specification.clusters import Cluster

MOST = 2**63 - 1
HANDLE: Any = Handle(None, None, None)  # type: ignore[arg-type]  # these plugins reach for nothing outside the table


def memory_cluster(capacity: int, taken: Sequence[int]) -> Cluster:
    """One node with this memory, and pods that request so much."""
    cluster = Cluster()
    allocatable = {"cpu": "4", "memory": str(capacity), "pods": "110"}
    cluster.put_node(convert({"metadata": {"name": "node"}, "status": {"allocatable": allocatable}}, Node))
    for number, amount in enumerate(taken):
        cluster.put_pod(make_pod(f"pod-{number}", node="node", requests={"memory": str(amount)}))
    return cluster


def fit_args(kind: str) -> NodeResourcesFitArgs:
    strategy: dict[str, Any] = {"type": kind, "resources": [{"name": "memory", "weight": 1}]}
    if kind == "RequestedToCapacityRatio":
        shape = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    return convert({"scoringStrategy": strategy}, NodeResourcesFitArgs)


@pytest.mark.parametrize(
    ("capacity", "taken", "queried", "fits"),
    [
        (MOST, [], MOST, True),
        (MOST, [1], MOST, False),
        (MOST, [MOST], 1, False),
        (MOST, [MOST, MOST], 1, False),
        (MOST - 1, [], MOST, False),
        (2**63, [], MOST, True),
        (2**64 + 5, [], 2**63, True),
        (2**64 + 5, [1], 2**63, False),
        (2**62, [2**62 - 1], 1, True),
        (2**62, [2**62 - 1], 2, False),
    ],
    ids=str,
)
def test_a_askedfits_or_not_up_to_the_largest_int64_and_beyond(
    capacity: int, taken: list[int], queried: int, fits: bool
) -> None:
    cluster, pod = memory_cluster(capacity, taken), make_pod("judged", requests={"memory": str(queried)})
    plugin, state, table = NodeResourcesFit(None, HANDLE), CycleState(), cluster.cache.nodes
    plugin.pre_filter(state, PodInfo(pod), table)
    codes = plugin.filter(state, PodInfo(pod), table, table.rows())
    assert (codes is None or not codes.any()) is fits
    assert (rules.node_resources_fit(NodeResourcesFitArgs())(pod, cluster.place("node")) is None) is fits


@pytest.mark.parametrize(
    ("kind", "capacity", "taken", "points"),
    [
        ("LeastAllocated", MOST, 0, 99),
        ("LeastAllocated", MOST, MOST - 1, 0),
        ("LeastAllocated", MOST, 2**62, 49),
        ("LeastAllocated", 2**63, MOST, 0),
        ("MostAllocated", MOST, 0, 0),
        ("MostAllocated", MOST, 2**62, 50),
        ("MostAllocated", MOST, MOST - 1, 100),
        ("MostAllocated", 2**64, MOST, 100),
        ("RequestedToCapacityRatio", MOST, 0, 100),
        ("RequestedToCapacityRatio", MOST, 2**62, 50),
        ("RequestedToCapacityRatio", MOST, MOST - 1, 0),
    ],
    ids=str,
)
def test_scores_of_the_largest_numbers_are_exact(kind: str, capacity: int, taken: int, points: int) -> None:
    """The pod asks for one byte; no product wraps around and none is rounded to a float."""
    cluster, pod, args = memory_cluster(capacity, [taken]), make_pod("judged", requests={"memory": "1"}), fit_args(kind)
    plugin, state, table = NodeResourcesFit(args, HANDLE), CycleState(), cluster.cache.nodes
    assert plugin.score(state, PodInfo(pod), table, table.rows()).tolist() == [points]
    assert scores.node_resources_fit(args)(pod, cluster.place("node")) == points


@pytest.mark.parametrize(
    ("shape", "at", "points"),
    [
        ([(0, 10), (100, 0)], 0, 100),
        ([(0, 10), (100, 0)], 33, 67),
        ([(0, 10), (100, 0)], 100, 0),
        ([(0, 10), (3, 0)], 1, 67),
        ([(0, 10), (3, 0)], 2, 34),
        ([(0, 10), (7, 3)], 3, 70),
        ([(0, 1), (9, 0), (100, 10)], 1, 9),
        ([(0, 1), (9, 0), (100, 10)], 4, 6),
        ([(40, 10), (60, 0)], 39, 100),
        ([(40, 10), (60, 0)], 61, 0),
    ],
    ids=str,
)
def test_a_falling_shape_divides_negative_numbers_towards_zero(
    shape: list[tuple[int, int]], at: int, points: int
) -> None:
    """100 - 100/3 is 67 in Go; a division that rounds down would give 66."""
    assert points_by_utilization(shape)[at] == points
    assert scores.line_through([(x, y * 10) for x, y in shape], at) == points


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([-5, 0, 7], [0, 41, 100]),
        ([-7, -7], [0, 0]),
        ([-3, -2, -1], [0, 50, 100]),
        ([-100, 0, 200], [0, 33, 100]),
        ([-(2**53) - 1, 0, 2**53 + 1], [0, 50, 100]),
    ],
    ids=str,
)
def test_negative_points_of_pod_affinity_are_spread_in_float64(raw: list[int], expected: list[int]) -> None:
    plugin = InterPodAffinity(InterPodAffinityArgs(), HANDLE)
    rows = np.arange(len(raw))
    found = plugin.normalize(CycleState(), PodInfo(make_pod()), rows, np.array(raw, dtype=np.int64))
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("tenths", "in_order"),
    [((0, 1, 4, 9), 65), ((1, 1, 8, 8), 65), ((8, 8, 1, 1), 64), ((1, 8, 8, 1), 64)],
    ids=str,
)
def test_float64_sums_run_from_the_first_resource_to_the_last(tenths: tuple[int, ...], in_order: int) -> None:
    """An exact sum, or one in another order, has another last bit, and here that is a whole point."""
    used = np.array([[one] for one in tenths])
    assert evenness(np.full_like(used, 10), used).tolist() == [in_order]
    assert scores.evenness([one / 10 for one in tenths]) == in_order


def test_the_order_of_sums_is_seen_at_all() -> None:
    """Else the test before would prove nothing."""

    def exact(tenths: Sequence[int]) -> int:
        fractions = [one / 10 for one in tenths]
        mean = math.fsum(fractions) / len(fractions)
        variance = math.fsum((one - mean) ** 2 for one in fractions) / len(fractions)
        return int((1 - math.sqrt(variance)) * 100.0)

    assert exact((0, 1, 4, 9)) != scores.evenness([0.0, 0.1, 0.4, 0.9])
    assert scores.evenness([0.1, 0.1, 0.8, 0.8]) != scores.evenness([0.8, 0.8, 0.1, 0.1])


@pytest.mark.parametrize(
    ("points", "whole"),
    [(0.5, 1), (-0.5, -1), (2.5, 3), (-2.5, -3), (0.49999999999999994, 0), (4503599627370497.5, 4503599627370498)],
    ids=str,
)
def test_points_of_spreading_are_rounded_as_go_rounds(points: float, whole: int) -> None:
    """Halves away from zero, where Python and NumPy round them to even, and nothing is added that could carry."""
    assert rounded(np.array([points])).tolist() == [whole]
