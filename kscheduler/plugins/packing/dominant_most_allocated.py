"""DominantMostAllocated: the fuller a node would be in the resource of which least is left, the more points.

MostAllocated takes the mean over the resources: a node with its memory full and its CPU idle looks half full. The
dominant share (as in dominant resource fairness) is the largest of the used fractions: what decides that nothing more
fits. The points are that share in percent. Where a class of devices of DRA stands for a resource, the pods that ask for
some count its devices on nodes that list none of the resource.
"""

from collections.abc import Hashable

import numpy as np

from kscheduler.config.plugin_args import DEFAULT_RESOURCES, DominantMostAllocatedArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import UNSIGNABLE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import percent, usage
from kscheduler.plugins.packing.claimable_devices import claimable_devices
from kscheduler.plugins.packing.device_columns import WHOLE


class DominantMostAllocated(Plugin):
    """0 to 100 points by the dominant share."""

    name = "DominantMostAllocated"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True
    is_live_unsigned = True

    def __init__(self, args: DominantMostAllocatedArgs | None, handle: Handle) -> None:
        self._resources = (args.resources if args is not None else ()) or tuple(
            resource.name for resource in DEFAULT_RESOURCES
        )
        found = [claimable_devices(name, handle) for name in self._resources]
        self._claimable = [devices for devices in found if devices is not None]

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests of the resources that count; what claims ask for is theirs to say."""
        if self._claimable and pod.pod.spec.resource_claims:
            return UNSIGNABLE
        return tuple(pod.requests.get(name, 0) for name in self._resources)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The largest used fraction with the pod, in percent: int64 [rows]. A resource that a row lacks counts as 0."""
        del cycle
        demands = [(name, pod.requests.get(name, 0), 1) for name in self._resources]
        used = usage(nodes, rows, demands, nonzero=False)
        points: Scores = np.zeros(len(rows), dtype=np.int64)
        if len(used):
            points = percent(used.taken, used.allocatable).max(axis=0)
        for claimable in self._claimable:
            free = claimable.free(nodes, rows)
            if free is None:
                continue
            demand = claimable.demand(pod, nodes, rows)
            total = (free >= 0).sum(axis=1) * WHOLE
            taken = np.minimum(total - free.clip(0).sum(axis=1) + demand, total)
            points = np.maximum(points, np.where(demand > 0, percent(taken, total), 0))
        return points
