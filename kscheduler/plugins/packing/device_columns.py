"""What is free on each device of each node, as a column.

The problem: two extended resources may describe the same devices, whole ones and shares of one (`nvidia.com/gpu`,
`example.com/gpu-milli`). NodeResourcesFit sees two sums, and would put a share of 500 on two devices with 300 free
each.
The idea: the free thousandths of each device, worked out from the pods on the node, of which an annotation says on
which devices they run. A node's row is worked out again when its pods or the node have changed.

    free[row] = [0, 530, 1000, 1000, -1, -1, -1, -1]    four devices: one is full, one shared, two are free

A pod without a readable annotation (of a node agent that does not tell, or another scheduler) is counted on the devices
on which it would have been put.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.config.plugin_args import SharedDevices
from kscheduler.framework.handle import ClusterView
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import Requests

# Thousandths of a device [row, device]; -1 where the node has no such device.
Free = NDArray[np.int64]

# A whole device.
WHOLE: Final = 1000
# Of a node that are counted; the largest machines have 16. Each takes a column for all nodes.
MAX_DEVICES: Final = 64
ABSENT: Final = -1


class DeviceDemand(NamedTuple):
    """What a pod asks of devices; no devices: nothing."""

    devices: int = 0
    milli: int = 0
    """Of each of them, in thousandths; less than `WHOLE` with one device only."""

    @property
    def is_share(self) -> bool:
        """Whether it asks for a part of one device."""
        return 0 < self.milli < WHOLE


NO_DEMAND: Final = DeviceDemand()


def demand_of(requests: Requests, settings: SharedDevices) -> DeviceDemand:
    """What these requests ask of devices. What no node can give (both resources, a share of more than a device) counts
    as more devices than a node may have, and so does any larger number of devices.
    """
    whole, share = requests.get(settings.resource, 0), requests.get(settings.share_resource, 0)
    if not (whole or share):
        return NO_DEMAND
    if (whole and share) or share > WHOLE:
        return DeviceDemand(MAX_DEVICES + 1, WHOLE)
    return DeviceDemand(min(whole, MAX_DEVICES + 1), WHOLE) if whole else DeviceDemand(1, share)


class DeviceColumns:
    """The devices of all nodes of one table, brought up to date when they are read."""

    def __init__(self, settings: SharedDevices, view: ClusterView) -> None:
        """`view`: whose nodes the columns are of."""
        self._settings = settings
        self._view = view
        self._seen = -1
        self._free: Free = np.zeros((0, 1), dtype=np.int64)

    def free(self, nodes: NodeTable, rows: Rows) -> Free:
        """The free thousandths at the rows: int64 [row, device], -1 where there is no device.

        Of a fork of the table (`NodeTable.with_pods`) they are worked out for these rows alone.
        """
        if nodes is not self._view.nodes:
            return side_by_side([self.free_of(nodes.info(row)) for row in rows.tolist()])
        self._refresh(nodes)
        return self._free[rows]

    def free_of(self, info: NodeInfo, without: str = "") -> list[int]:
        """The free thousandths of each device of a node. `without`: the UID of a pod that does not count."""
        settings = self._settings
        count = min(info.allocatable.get(settings.resource, 0), MAX_DEVICES)
        free = [WHOLE] * count
        unknown: list[DeviceDemand] = []
        for uid, pod in info.pods.items():
            demand = demand_of(pod.accounted, settings)
            if not demand.devices or uid == without:
                continue
            taken = devices_in(pod, settings.annotation, demand, count)
            if taken is None:
                unknown.append(demand)
                continue
            for device in taken:
                free[device] = max(0, free[device] - demand.milli)
        for demand in unknown:
            for device in usual_choice(free, demand) or _emptiest(free, demand):
                free[device] = max(0, free[device] - demand.milli)
        return free

    def _refresh(self, nodes: NodeTable) -> None:
        changes = nodes.row_changes
        if self._seen == changes.position and len(self._free) == nodes.capacity:
            return
        stale = changes.since(self._seen) if self._seen >= 0 and len(self._free) == nodes.capacity else None
        self._seen = -1  # if a decision is ended half-way, all rows are worked out by the next call
        if stale is None:
            stale = nodes.rows()
            self._free = np.full((nodes.capacity, self._free.shape[1]), ABSENT, dtype=np.int64)
        for row in stale.tolist():
            info = nodes.infos[row]
            free = [] if info is None else self.free_of(info)
            if len(free) > self._free.shape[1]:
                more = len(free) - self._free.shape[1]
                self._free = np.pad(self._free, ((0, 0), (0, more)), constant_values=ABSENT)
            self._free[row] = ABSENT
            self._free[row, : len(free)] = free
        self._seen = changes.position


def side_by_side(found: list[list[int]]) -> Free:
    width = max(map(len, found), default=0) or 1
    padded = [[*free, *[ABSENT] * (width - len(free))] for free in found]
    return np.array(padded, dtype=np.int64).reshape(-1, width)


def devices_in(pod: PodInfo, annotation: str, demand: DeviceDemand, count: int) -> list[int] | None:
    """The devices on which the pod says that it runs; `None` if it does not say, or something that cannot be.

    `count`: how many the node has.
    """
    text = pod.annotations.get(annotation)
    if not text or len(text) > _MAX_TEXT:
        return None
    parts = text.split(",")
    if len(parts) != demand.devices or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    devices = [int(part) for part in parts]
    return devices if max(devices) < count and len(set(devices)) == len(devices) else None


# Of an annotation: more than `MAX_DEVICES` indices take.
_MAX_TEXT: Final = 256


def usual_choice(free: list[int], demand: DeviceDemand) -> list[int]:
    """The first free devices, or for a share the one on which the least is left; empty if it does not fit."""
    fitting = [device for device, left in enumerate(free) if left >= demand.milli]
    if len(fitting) < demand.devices:
        return []
    if demand.is_share:
        return [min(fitting, key=free.__getitem__)]
    return fitting[: demand.devices]


def _emptiest(free: list[int], demand: DeviceDemand) -> Iterable[int]:
    """For a pod that runs and does not fit by what is known."""
    return sorted(range(len(free)), key=lambda device: (-free[device], device))[: demand.devices]
