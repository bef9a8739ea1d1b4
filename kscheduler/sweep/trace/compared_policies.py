"""DotProd and GpuPacking of the FGD paper, and any device for Random: only here to be compared with.

Like all of a profile's policies here they are given the devices by `device_columns`; DeviceShares filters, and chooses
the tightest device, but for AnyDevice.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from kscheduler import SKIPPED, CycleState, NodeTable, Plugin, PodInfo, PreFilterResult, Source
from kscheduler.config.plugin_args import SharedDevices
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import CPU_INDEX, Rows, Scores, stable_hash
from kscheduler.plugins.packing.device_columns import WHOLE, DeviceColumns, DeviceDemand, Free, demand_of
from kscheduler.plugins.packing.device_shares import DeviceChoice

_DEVICES = SharedDevices()
_LARGEST_CPU, _LARGEST_DEVICES = 128_000, 8_000


class _OnDevices(Plugin):
    """What both share: points by a pod's CPU and devices, and what a node has free of them."""

    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, handle: Handle) -> None:
        self._columns = DeviceColumns(_DEVICES, handle.view)

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.requests.get("cpu", 0), demand_of(pod.requests, _DEVICES)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        del cycle
        cpu = nodes.allocatable[CPU_INDEX][rows] - nodes.requested[CPU_INDEX][rows]
        free = self._columns.free(nodes, rows)
        return self._points(pod.requests.get("cpu", 0), demand_of(pod.requests, _DEVICES), cpu, free)

    def _points(self, asked: int, demand: DeviceDemand, cpu: NDArray[np.int64], free: Free) -> Scores:
        """`asked`: of CPU; `cpu`: free [row]; `free`: [row, device]."""
        raise NotImplementedError


class AnyDevice(Plugin):
    """A share goes to any device with room, by a hash of the pod's UID."""

    name = "AnyDevice"

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        del pod, nodes
        cycle.write(DeviceChoice(self._any))
        return SKIPPED

    @staticmethod
    def _any(free: list[int], info: NodeInfo, pod: PodInfo, demand: DeviceDemand) -> int:
        fitting = [device for device, left in enumerate(free) if left >= demand.milli]
        return fitting[stable_hash(f"{pod.uid} {info.name}") % len(fitting)]


class DotProd(_OnDevices):
    """The less of what is free and what is asked point the same way, the more points."""

    name = "DotProd"

    def _points(self, asked: int, demand: DeviceDemand, cpu: NDArray[np.int64], free: Free) -> Scores:
        devices = free.clip(0).sum(axis=1) * (demand.devices * demand.milli)
        product = cpu * asked / _LARGEST_CPU**2 + devices / _LARGEST_DEVICES**2
        points: Scores = np.floor(100 * (1 - 0.5 * product)).clip(0, 100).astype(np.int64)
        return points


class GpuPacking(_OnDevices):
    """First on devices that are shared already, then on nodes that are in use."""

    name = "GpuPacking"

    def _points(self, asked: int, demand: DeviceDemand, cpu: NDArray[np.int64], free: Free) -> Scores:
        del asked, cpu
        if not demand.devices:
            return np.zeros(len(free), dtype=np.int64)
        count = (free >= 0).sum(axis=1)
        whole = (free == WHOLE).sum(axis=1)
        of_used, of_idle = max(50 - demand.devices, 33), np.maximum(33 - count, count)
        points: Scores = np.where(whole == count, of_idle, of_used)
        if demand.is_share:
            is_shared = (free >= demand.milli) & (free < WHOLE)
            tightest = np.where(is_shared, free, WHOLE).min(axis=1)
            points = np.where(is_shared.any(axis=1), 100 - tightest // 100, points)
        return points
