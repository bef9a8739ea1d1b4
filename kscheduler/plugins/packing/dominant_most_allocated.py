"""DominantMostAllocated: the fuller a node would be in the resource of which least is left, the more points.

MostAllocated takes the mean over the resources: a node with its memory full and its CPU idle looks half full. The
dominant share (as in dominant resource fairness) is the largest of the used fractions: what decides that nothing more
fits. The points are that share in percent.
"""

from collections.abc import Hashable

import numpy as np

from kscheduler.config.plugin_args import DEFAULT_RESOURCES, DominantMostAllocatedArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import percent, usage


class DominantMostAllocated(Plugin):
    """0 to 100 points by the dominant share."""

    name = "DominantMostAllocated"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True

    def __init__(self, args: DominantMostAllocatedArgs | None, handle: Handle) -> None:
        del handle
        self._resources = (args.resources if args is not None else ()) or tuple(
            resource.name for resource in DEFAULT_RESOURCES
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests of the resources that count."""
        return tuple(pod.requests.get(name, 0) for name in self._resources)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The largest used fraction with the pod, in percent: int64 [rows]. A resource that a row lacks counts as 0."""
        del cycle
        demands = [(name, pod.requests.get(name, 0), 1) for name in self._resources]
        used = usage(nodes, rows, demands, nonzero=False)
        if not len(used):
            return np.zeros(len(rows), dtype=np.int64)
        points: Scores = percent(used.taken, used.allocatable).max(axis=0)
        return points
