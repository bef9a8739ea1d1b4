"""BestFit: the node on which the least is left over, measured on one scale for all nodes.

    points = floor(100 * (1 - mean over the resources of (free - requested) / largest))

MostAllocated looks at fractions of each node, and prefers a small node that is half full to a big one with the same
room. Here a core counts the same everywhere: `largest` is the size of the largest machine, and only the ratio between
resources matters (as in the FGD paper's BestFit). A node with more left over than that gets 0 points. Where a class of
devices of DRA stands for a resource, its devices count on nodes that list none of the resource.
"""

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import milli_value, value
from kscheduler.config.plugin_args import BestFitArgs, BestFitResource
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.plugin import UNSIGNABLE, Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU
from kscheduler.plugins.packing.claimable_devices import ClaimableDevices, claimable_devices
from kscheduler.plugins.packing.device_columns import WHOLE, DeviceColumns, demand_of


class BestFit(Plugin):
    """0 to 100 points by what is left over."""

    name = "BestFit"
    depends_on = (Source.ROW,)
    reads_spec_only = True
    is_live_unsigned = True

    def __init__(self, args: BestFitArgs | None, handle: Handle) -> None:
        args = args or BestFitArgs()
        self._devices = args.devices
        self._columns = None if args.devices is None else DeviceColumns(args.devices, handle.view)
        self._resources = tuple(
            (resource.name, self._largest(resource), resource.weight or 1) for resource in args.resources
        )
        self._weights = sum(weight for _, _, weight in self._resources)
        found = {resource.name: claimable_devices(resource.name, handle) for resource in args.resources}
        self._claimable = {name: devices for name, devices in found.items() if devices is not None}

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's requests of the resources that count; what claims ask for is theirs to say."""
        if self._claimable and pod.pod.spec.resource_claims:
            return UNSIGNABLE
        return tuple(self._requested(pod))

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """0..100, int64 [rows]."""
        del cycle
        left: NDArray[np.float64] = np.zeros(len(rows))
        seen: set[str] = set()
        for (name, largest, weight), requested in zip(self._resources, self._requested(pod), strict=True):
            here = self._free(name, nodes, rows) - requested
            claimable = self._claimable.get(name)
            if claimable is not None:
                here = self._with_claimable(here, name, claimable, seen, pod, nodes, rows)
            left += here / largest * weight
        points = np.floor(100 * (1 - left / self._weights))
        return np.clip(points, 0, 100).astype(np.int64)

    def _largest(self, resource: BestFitResource) -> int:
        """In the units of amounts; devices that are shared are counted in thousandths."""
        if self._devices is not None and resource.name == self._devices.resource:
            return value(resource.largest) * WHOLE
        return milli_value(resource.largest) if resource.name == CPU else value(resource.largest)

    def _free(self, name: str, nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
        if self._devices is not None and self._columns is not None and name == self._devices.resource:
            free: NDArray[np.int64] = self._columns.free(nodes, rows).clip(0).sum(axis=1)
            return free
        return nodes.amounts(nodes.allocatable, name, rows) - nodes.amounts(nodes.requested, name, rows)

    def _with_claimable(
        self,
        left: NDArray[Any],
        name: str,
        claimable: ClaimableDevices,
        seen: set[str],
        pod: PodInfo,
        nodes: NodeTable,
        rows: Rows,
    ) -> NDArray[Any]:
        """What is left over of the resource, with devices in place of what a row does not list: like `left`.

        `seen`: the classes that have counted as a resource before this one.
        """
        free = claimable.free(nodes, rows)
        if free is None:
            return left
        of_devices = np.zeros(len(rows), dtype=np.int64)
        if claimable.class_name not in seen:
            of_devices = (free.clip(0).sum(axis=1) - claimable.demand(pod, nodes, rows)).clip(0)
        seen.add(claimable.class_name)
        is_in_thousandths = self._devices is not None and name == self._devices.resource
        has_none = nodes.amounts(nodes.allocatable, name, rows) == 0
        return np.where(has_none, of_devices if is_in_thousandths else of_devices / WHOLE, left)

    def _requested(self, pod: PodInfo) -> Iterator[int]:
        for name, _, _ in self._resources:
            if self._devices is not None and name == self._devices.resource:
                demand = demand_of(pod.requests, self._devices)
                yield demand.devices * demand.milli
            else:
                yield pod.requests.get(name, 0)
