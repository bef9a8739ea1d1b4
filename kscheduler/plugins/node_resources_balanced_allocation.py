"""NodeResourcesBalancedAllocation: prefer nodes where the pod evens out how much of each resource is used.

A node whose cpu is full and whose memory is idle wastes the memory. The spread of the used fractions is compared with
and without the pod: a pod that changes nothing earns 75 points, a pod that makes use more even up to 100, a pod that
makes it less even down to 50 (noderesources/balanced_allocation.go). Devices that stand for a resource count where a
node lists none of it. All floats are float64, in Go's order of
operations.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from kscheduler.config.plugin_args import DEFAULT_RESOURCES, NodeResourcesBalancedAllocationArgs
from kscheduler.framework.cluster.device_amounts import device_amounts
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import Amounts, usage
from kscheduler.framework.status import SKIP, SUCCESS, Status

Fractions = NDArray[np.float64]

_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    """50 to 100 points by how evenly the node's resources would be used."""

    name = "NodeResourcesBalancedAllocation"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        resources = (args.resources if args is not None else ()) or DEFAULT_RESOURCES
        self._resources = tuple(resource.name for resource in resources)
        self._device_amounts = device_amounts(
            self._resources, handle.devices, lambda: handle.view.nodes, handle.features, handle.behaviours.version
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests of the resources that are compared."""
        return self._requests(pod)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Skip pods that request none of the resources: they would all go to the same node."""
        del cycle, nodes, rows
        return SUCCESS if any(self._requests(pod)) else SKIP

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """50 + (50 + evenness with the pod - evenness without it) / 2: int64 [rows]."""
        del cycle
        demands = [(name, request, 1) for name, request in zip(self._resources, self._requests(pod), strict=True)]
        devices = None if self._device_amounts is None else self._device_amounts.of_all(demands, rows)
        used = usage(nodes, rows, demands, nonzero=False, devices=devices)
        with_pod, without_pod = evenness(used.allocatable[:, None], used.requested_both_ways)
        points: Scores = _HALF + (_HALF + with_pod - without_pod) // 2
        return points

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        """The requests as they count once the pod is on a node: with pod-level requests and resizes."""
        return tuple(pod.accounted.get(name, 0) for name in self._resources)


def evenness(allocatable: Amounts, requested: Amounts) -> Scores:
    """(1 - standard deviation of the used fractions) * 100, truncated: 50 (far apart) to 100 (even).

    The first axis of `requested` and `allocatable` is the resource; the other axes of `allocatable` broadcast to those
    of `requested`, which are the shape of the int64 answer.
    """
    if len(requested) < 2:
        return np.full(requested.shape[1:], MAX_NODE_SCORE, dtype=np.int64)
    fractions = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
    if np.count_nonzero(allocatable) == allocatable.size:
        deviation = _deviation(fractions)
    else:
        deviation = _deviation_where_present(fractions, allocatable > 0)
    return ((1.0 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)


def _deviation(fractions: Fractions) -> Fractions:
    if len(fractions) == 2:
        half: Fractions = np.abs((fractions[0] - fractions[1]) / 2.0)
        return half
    mean = _in_order(fractions) / float(len(fractions))
    return np.sqrt(_in_order((fractions - mean) * (fractions - mean)) / float(len(fractions)))


def _in_order(addends: Fractions) -> Fractions:
    """The sum over the resources, from first to last: another order of additions gives another last bit."""
    total: Fractions = sum(addends[1:], addends[0])
    return total


def _deviation_where_present(fractions: Fractions, present: Mask) -> Fractions:
    """As `_deviation`, over the resources that each row has; the deviation of fewer than two resources is 0.

    Adding 0.0 for an absent resource changes no sum, so additions happen in the order of the resources that a row has.
    """
    counts = np.broadcast_to(present, fractions.shape).sum(axis=0)
    inside = np.where(present, fractions, 0.0)
    divisor = np.maximum(counts, 1).astype(np.float64)
    mean = _in_order(inside) / divisor
    spread = np.sqrt(_in_order(np.where(present, (inside - mean) * (inside - mean), 0.0)) / divisor)
    highest, lowest = inside.max(axis=0), np.where(present, fractions, 1.0).min(axis=0)
    deviation: Fractions = np.where(counts == 2, np.abs((highest - lowest) / 2.0), spread)
    return deviation
