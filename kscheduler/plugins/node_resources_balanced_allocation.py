"""NodeResourcesBalancedAllocation: prefer nodes where the pod evens out how much of each resource is used.

A node whose cpu is full and whose memory is idle wastes the memory. The spread of the used fractions is compared with
and without the pod: a pod that changes nothing earns 75 points, one that evens things out up to 100, one that makes
them worse down to 50 (noderesources/balanced_allocation.go). All floats are float64 in Go's order of operations.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from kscheduler.config.plugin_args import DEFAULT_RESOURCES, NodeResourcesBalancedAllocationArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, Plugin, Source
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.resource_scoring import Amounts, Usage, usage
from kscheduler.framework.status import SKIP, SUCCESS, Status

Fractions = NDArray[np.float64]

_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation(Plugin):
    """50 to 100 points by how even the node's use becomes."""

    name = "NodeResourcesBalancedAllocation"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        del handle
        resources = (args.resources if args is not None else ()) or DEFAULT_RESOURCES
        self._resources = tuple(resource.name for resource in resources)

    def sign(self, pod: PodInfo) -> Hashable:
        """What it requests of the resources that are compared."""
        return self._requests(pod)

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Leave pods that request nothing out: they would all go to the same node."""
        del cycle, nodes, rows
        return SUCCESS if any(self._requests(pod)) else SKIP

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """50 + (50 + evenness with the pod - evenness without it) / 2."""
        del cycle
        requests = zip(self._resources, self._requests(pod), strict=True)
        found = (usage(nodes, rows, name, request, nonzero=False) for name, request in requests)
        usages = [one for one in found if one is not None]
        with_pod, without_pod = evenness(usages, [one.requested_both_ways for one in usages], (2, len(rows)))
        points: Scores = _HALF + (_HALF + with_pod - without_pod) // 2
        return points

    def _requests(self, pod: PodInfo) -> tuple[int, ...]:
        """As a pod on a node would be counted: pod-level requests and resizes included."""
        return tuple(pod.accounted.get(name, 0) for name in self._resources)


def evenness(usages: Sequence[Usage], requested: Sequence[Amounts], shape: int | tuple[int, ...]) -> Scores:
    """(1 - standard deviation of the used fractions) * 100, cut to an integer: 50 (far apart) to 100 (even).

    `requested` has one array of this shape per resource, the last axis being rows; so has the answer.
    """
    fractions = [
        np.minimum(amount / np.maximum(one.allocatable, 1), 1.0) for one, amount in zip(usages, requested, strict=True)
    ]
    if len(fractions) < 2:
        return np.full(shape, MAX_NODE_SCORE, dtype=np.int64)
    if all(one.is_everywhere for one in usages):
        deviation = _deviation(fractions)
    else:
        deviation = _deviation_where_present(fractions, [one.allocatable > 0 for one in usages])
    return ((1.0 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)


def _deviation(fractions: Sequence[Fractions]) -> Fractions:
    if len(fractions) == 2:
        return np.abs((fractions[0] - fractions[1]) / 2.0)
    mean = sum(fractions[1:], fractions[0]) / float(len(fractions))
    squares = [(fraction - mean) * (fraction - mean) for fraction in fractions]
    return np.sqrt(sum(squares[1:], squares[0]) / float(len(fractions)))


def _deviation_where_present(fractions: Sequence[Fractions], present: Sequence[NDArray[np.bool_]]) -> Fractions:
    """The same over the resources that each row has; a row with fewer than two of them deviates by nothing.

    Adding an absent resource's 0.0 changes no sum, so the order of additions is that of the resources a row has.
    """
    counts = np.sum(present, axis=0)
    inside = [np.where(has, fraction, 0.0) for fraction, has in zip(fractions, present, strict=True)]
    mean = sum(inside[1:], inside[0]) / np.maximum(counts, 1).astype(np.float64)
    squares = [
        np.where(has, (fraction - mean) * (fraction - mean), 0.0) for fraction, has in zip(inside, present, strict=True)
    ]
    spread = np.sqrt(sum(squares[1:], squares[0]) / np.maximum(counts, 1).astype(np.float64))
    highest = np.max([np.where(has, fraction, 0.0) for fraction, has in zip(inside, present, strict=True)], axis=0)
    lowest = np.min([np.where(has, fraction, 1.0) for fraction, has in zip(inside, present, strict=True)], axis=0)
    deviation: Fractions = np.where(counts == 2, np.abs((highest - lowest) / 2.0), spread)
    return deviation
