"""DeviceShares: devices that several pods share, each with so many thousandths of one.

A node fits where enough devices have enough left; NodeResourcesFit, which adds thousandths of several devices, is
necessary and not enough. The device is chosen in Reserve: the first free ones, or for a share the one on which least is
left, unless another plugin of the profile knows better (`DeviceChoice`). It is written with the Binding as an
annotation, which the node's device plugin must obey, and from which the columns are made again after a restart.

Limits: a node agent that gives out devices by itself makes these choices worthless. Then leave the plugin out, and use
a DRA driver with consumable capacity, which the scheduler allocates.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from kscheduler.config.plugin_args import DeviceSharesArgs
from kscheduler.framework.binding_annotations import BindingAnnotations
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import SKIPPED, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unschedulable
from kscheduler.plugins.packing.device_columns import (
    DeviceColumns,
    DeviceDemand,
    demand_of,
    usual_choice,
)

_NO_DEVICE: Final = 1
_TOO_FEW: Final = -1


class DevicesWanted(msgspec.Struct, frozen=True):
    """What the pod asks of devices, for a pod that does."""

    demand: DeviceDemand


class DeviceChoice(msgspec.Struct, frozen=True):
    """A plugin that knows which device a share should go to: (what is free on each, node, demand) to a device."""

    choose: Callable[[list[int], NodeInfo, PodInfo, DeviceDemand], int]


class DeviceShares(Plugin):
    """Rejects nodes without room on a device, and chooses the device."""

    name = "DeviceShares"
    depends_on = (Source.ROW,)
    reads_spec_only = True
    idle_without: ClassVar[tuple[type, ...]] = (DevicesWanted,)
    reasons: ClassVar[dict[int, str]] = {
        _NO_DEVICE: "node(s) had too little left on each device",
        _TOO_FEW: "node(s) had too few devices",
    }

    def __init__(self, args: DeviceSharesArgs | None, handle: Handle) -> None:
        self._settings = (args or DeviceSharesArgs()).devices
        self._view = handle.view
        self._columns = DeviceColumns(self._settings, handle.view)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Room appears when a pod goes, and with a node or its devices."""
        return (
            ClusterEventWithHint(ClusterEvent(Resource.ASSIGNED_POD, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod asks of devices."""
        return demand_of(pod.requests, self._settings)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip pods without devices."""
        del nodes
        demand = demand_of(pod.requests, self._settings)
        if not demand.devices:
            return SKIPPED
        cycle.write(DevicesWanted(demand))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        """0 where enough devices have enough left: int64 [rows]."""
        del pod
        demand = cycle.read(DevicesWanted).demand
        free = self._columns.free(nodes, rows)
        fits = np.count_nonzero(free >= demand.milli, axis=1) >= demand.devices
        exist = np.count_nonzero(free >= 0, axis=1) >= demand.devices
        codes: Codes = np.where(fits, 0, np.where(exist, _NO_DEVICE, _TOO_FEW))
        return codes

    def reserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Choose the devices; they are taken as soon as the pod that counts on the node has the annotation."""
        found = cycle.find(DevicesWanted)
        row = self._view.nodes.row_of(node_name)
        if found is None or row < 0:
            return SUCCESS
        info, demand = self._view.nodes.info(row), found.demand
        free = self._columns.free_of(info, without=pod.uid)
        devices = usual_choice(free, demand)
        if not devices:  # a nominated pod has been left out of account, or a device has just been taken
            return unschedulable(self.reasons[_NO_DEVICE], plugin=self.name)
        choice = cycle.find(DeviceChoice)
        if choice is not None and demand.is_share:
            devices = [choice.choose(free, info, pod, demand)]
        cycle.write(BindingAnnotations({self._settings.annotation: ",".join(map(str, devices))}))
        return SUCCESS

    def unreserve(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Nothing to give back: the pod is forgotten, and its annotation with it."""
