"""What is free on each device of DRA of each node, as a column, and what a pod's claims ask for.

The problem: a node whose GPUs a DRA driver publishes lists none of `nvidia.com/gpu`, and its pods request none: what it
has stands in ResourceSlices, what is taken in the claims. To a policy that reads amounts such a node is empty.
The idea: the devices of the class that stands for the resource, as `device_columns` has those of a device plugin. The
lists of a node are worked out again when its slices change, or a claim takes or gives back a device of its pools.

    free[row] = [0, 530, 1000, -1]      one device is allocated, one is shared, one is free

A device that several claims may share has left what its scarcest capacity has left, in thousandths. A pod asks for what
its claims without devices ask for, and for what it requests of an extended resource that the class stands for, where
the node lists none of it: each counts once.

Limits: devices that several nodes reach do not count, nor tainted ones; of alternatives the first counts; a request's
selectors count no further than those of its class. Where a device's counters are used up, nothing is free on it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.api.devices import (
    ALL,
    IMPLICIT_EXTENDED_RESOURCE,
    AllocationResult,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from kscheduler.api.kinds import DEVICE_CLASSES, DEVICE_TAINT_RULES, RESOURCE_CLAIMS, RESOURCE_SLICES
from kscheduler.api.meta import KubeObject
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError
from kscheduler.devices.ids import PoolID
from kscheduler.devices.limits.counters import FreeCounters
from kscheduler.devices.pools import PoolDevice
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.taints import is_tainted
from kscheduler.devices.wanted import AllocatorFeatures
from kscheduler.framework.cluster.device_amounts import DeviceAmounts
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import is_extended
from kscheduler.plugins.packing.claimed_requests import claimed_requests
from kscheduler.plugins.packing.device_columns import (
    ABSENT,
    MAX_DEVICES,
    NO_DEMAND,
    WHOLE,
    DeviceDemand,
    Free,
    side_by_side,
)
from kscheduler.plugins.packing.device_shapes import (
    WHOLE_DEVICE,
    DeviceShape,
    WantedDevices,
    as_demand,
    demand_on,
    left_of,
    shape_of,
)

if TYPE_CHECKING:  # imported for the first selector
    from kscheduler.api.device_selectors import Release

# Of shared devices that are told apart; those of further ones count as whole devices.
MAX_SHAPES: Final = 256
_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_SHAPE: Final = -1


def claimable_devices(resource: str, handle: Handle) -> "ClaimableDevices | None":
    """For a plugin that counts this resource; `None` if devices never stand for it."""
    is_class = resource.startswith(IMPLICIT_EXTENDED_RESOURCE)
    if handle.devices is None or not (is_class or ("DRAExtendedResource" in handle.features and is_extended(resource))):
        return None
    return ClaimableDevices(resource, handle, handle.devices)


class ClaimableDevices:
    """The devices of one class on all nodes of one table, brought up to date when they are read."""

    def __init__(self, resource: str, handle: Handle, devices: Devices) -> None:
        """`resource`: an extended resource, or `deviceclass.resource.kubernetes.io/` and the name of a class."""
        self._resource, self._handle, self._devices = resource, handle, devices
        self._features = AllocatorFeatures.of(handle.features, handle.behaviours)
        self._has_extended = "DRAExtendedResource" in handle.features
        self._judge: DeviceAmounts | None = None
        """Evaluates the selectors of the class."""
        self._of_driver: dict[str, bool] = {}
        """The answers of selectors that read nothing but the driver."""
        self._class: DeviceClass | None = None
        self._index = SliceIndex((), self._features)
        self._slices: Sequence[ResourceSlice] = ()
        self._claims_seen = self._nodes_seen = -1
        self._members: dict[str, list[PoolDevice]] = {}
        """By node the devices of the class; no entry without any."""
        self._lists: dict[str, list[int]] = {}
        """By node what is free on each of them."""
        self._shape_of: dict[str, int] = {}
        self._usual: DeviceShape | None = None
        """The most frequent one; `None`: to be counted."""
        self._changed: dict[str, None] = {}
        """Nodes whose devices are still to be looked for."""
        self._stale: dict[str, None] = {}
        """Nodes of which it is still to be worked out what is free."""
        self._shapes: dict[DeviceShape, int] = {WHOLE_DEVICE: 0}
        self._free: Free = np.zeros((0, 1), dtype=np.int64)
        self._shape: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.changes = ChangeLog()
        """Rows on which something else is free now."""
        self._follow_changes()

    @property
    def class_name(self) -> str:
        """Of the class that stands for the resource now; empty without one."""
        found = self._found_class()
        return "" if found is None else found.metadata.name

    def free(self, nodes: NodeTable, rows: Rows) -> Free | None:
        """The free thousandths at the rows: int64 [row, device], -1 where there is no device; `None`: nowhere is any.

        Where a row lists the resource, its device plugin counts, and there is no device here.
        """
        if not self._refresh():
            return None
        if nodes is not self._handle.view.nodes:
            found = side_by_side([self._lists.get(nodes.name_of(row), []) for row in rows.tolist()])
        else:
            self._follow_rows(nodes)
            found = self._free[rows]
        is_listed = nodes.amounts(nodes.allocatable, self._resource, rows) > 0
        if is_listed.any():
            found[is_listed] = ABSENT
        return found

    def demand(self, pod: PodInfo, nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
        """How many thousandths of devices the pod takes at each of the rows, as `free` was read: int64 [row]."""
        requested = np.zeros(len(rows), dtype=np.int64)
        for name in self._names():
            amount = pod.requests.get(name, 0)
            if amount:
                milli = min(amount, MAX_DEVICES + 1) * WHOLE
                requested += np.where(nodes.amounts(nodes.allocatable, name, rows) > 0, 0, milli)
        by_shape = self.demand_by_shape(pod)
        return requested + np.array([*by_shape, 0], dtype=np.int64)[self._shapes_at(nodes, rows)]

    def demand_by_shape(self, pod: PodInfo) -> tuple[int, ...]:
        """What its claims ask for on devices of each shape: pods for which this is equal, and that request the same,
        have an equal `demand`.
        """
        wanted = list(self._wanted(pod.pod))
        return tuple([demand_on(shape, wanted, self._features) for shape in self._shapes])

    def usual_demand(self, pod: PodInfo) -> DeviceDemand:
        """What a pod that waits or runs asks for, on devices of the most frequent shape."""
        wanted = list(self._wanted(pod.pod, with_devices=True))
        milli = sum(min(pod.accounted.get(name, 0), MAX_DEVICES + 1) for name in self._names()) * WHOLE
        if not (milli or wanted) or not self._refresh():
            return NO_DEMAND
        return as_demand(milli + demand_on(self._usual_shape(), wanted, self._features))

    def _usual_shape(self) -> DeviceShape:
        """The most frequent one; where some node has a device."""
        if self._usual is None:  # it is the same for thousands of pods
            counts = np.bincount(list(self._shape_of.values()))
            self._usual = [*self._shapes][int(counts.argmax())]
        return self._usual

    # --- the class ----------------------------------------------------------------------------------------------------

    def _found_class(self) -> DeviceClass | None:
        if self._resource.startswith(IMPLICIT_EXTENDED_RESOURCE):
            return self._devices.device_class(self._resource.removeprefix(IMPLICIT_EXTENDED_RESOURCE))
        return self._devices.class_of_resource(self._resource)

    def _names(self) -> Iterator[str]:
        """The extended resources by which a pod may ask for devices of the class, each once."""
        found = self._class
        if found is None or not self._has_extended:
            return
        for name in (f"{IMPLICIT_EXTENDED_RESOURCE}{found.metadata.name}", found.spec.extended_resource_name):
            stands = self._devices.class_of_resource(name) if name else None
            if name and stands is not None and stands.metadata.name == found.metadata.name:
                yield name

    def _has(self, device_class: DeviceClass, found: PoolDevice) -> bool:
        """Whether the device is of the class; not where a selector fails."""
        if self._judge is None:
            has_lists = "DRAListTypeAttributes" in self._handle.features
            version = cast("Release", self._handle.behaviours.version)
            self._judge = DeviceAmounts(self._devices, self._handle.view.nodes, version, has_lists=has_lists)
        driver, judge = found.id.driver, self._judge
        is_by_driver = judge.passes_by_driver(device_class)
        known = self._of_driver.get(driver) if is_by_driver else None
        if known is None:
            try:
                known = judge.passes(device_class, driver, found.device)
            except (SelectorCompileError, SelectorRuntimeError):
                known = False
            if is_by_driver:
                self._of_driver[driver] = known
        return known

    # --- what changes -------------------------------------------------------------------------------------------------

    def _refresh(self) -> bool:
        """Take over what has changed since the last call. Whether any node has a device.

        Where a decision is ended half-way, the next call goes on with the nodes that are left.
        """
        slices, device_class = self._devices.slices(), self._found_class()
        if device_class is None or not slices:
            if self._class is not None:
                self._begin_again(None)
            return False
        if self._class is None or self._class.spec.selectors != device_class.spec.selectors:
            self._begin_again(device_class)
        self._class = device_class
        if slices is not self._slices:
            self._follow_slices(slices)
        if self._devices.claims.revision != self._claims_seen:
            self._follow_claims()
        if self._changed or self._stale:
            self._work_out(device_class)
        return bool(self._members)

    def _begin_again(self, device_class: DeviceClass | None) -> None:
        self._class = self._judge = None
        self._index, self._slices = SliceIndex((), self._features), ()
        self._claims_seen = self._nodes_seen = -1
        self._shapes, self._usual = {WHOLE_DEVICE: 0}, None
        for known in (self._of_driver, self._members, self._lists, self._shape_of, self._changed, self._stale):
            known.clear()
        self._class = device_class

    def _follow_slices(self, slices: Sequence[ResourceSlice]) -> None:
        index = SliceIndex(slices, self._features, self._index)
        changed = index.changed
        if changed is None:
            changed = frozenset({piece.spec.node_name or "" for piece in slices} | self._members.keys())
        self._changed |= dict.fromkeys(sorted(changed))
        self._index, self._slices = index, slices

    def _follow_claims(self) -> None:
        claims = self._devices.claims
        pools = claims.pools_changed_since(self._claims_seen) if self._claims_seen >= 0 else None
        self._stale |= dict.fromkeys(self._members if pools is None else sorted(self._nodes_of(pools)))
        self._claims_seen = claims.revision

    def _nodes_of(self, pools: Iterable[PoolID]) -> set[str]:
        owners = {self._index.owner_of_pool(pool) for pool in pools}
        if None in owners:
            return set(self._members)
        return {name for name in owners if name}

    def _work_out(self, device_class: DeviceClass) -> None:
        while self._changed:
            name = next(iter(self._changed))
            self._find_members(name, device_class)
            self._stale[name] = None
            del self._changed[name]
        allocated, nodes = self._devices.claims.allocated_state(), self._handle.view.nodes
        counters = FreeCounters(self._features, allocated)
        while self._stale:
            name = next(iter(self._stale))
            members = self._members.get(name)
            if members is None:
                self._lists.pop(name, None)
            else:
                self._lists[name] = [left_of(found, allocated, counters, self._features) for found in members]
            row = nodes.row_of(name)
            if row >= 0 and self._nodes_seen >= 0 and len(self._free) == nodes.capacity:
                self._write_row(row, nodes)
            del self._stale[name]

    def _find_members(self, name: str, device_class: DeviceClass) -> None:
        members = [
            found
            for pool in self._index.pools(name, _NO_LABELS)
            for found in pool.devices
            if found.slice.spec.node_name == name
            and not is_tainted(found.device, self._features)
            and self._has(device_class, found)
        ][:MAX_DEVICES]
        self._usual = None
        if members:
            self._members[name] = members
            self._shape_of[name] = self._number_of(shape_of(members[0], self._features))
        else:
            self._members.pop(name, None)
            self._shape_of.pop(name, None)

    def _follow_rows(self, nodes: NodeTable) -> None:
        changes = nodes.node_changes
        if self._nodes_seen == changes.position and len(self._free) == nodes.capacity:
            return
        is_known = self._nodes_seen >= 0 and len(self._free) == nodes.capacity
        stale = changes.since(self._nodes_seen) if is_known else None
        self._nodes_seen = -1  # if a decision is ended half-way, all rows are written by the next call
        if stale is None:
            stale = nodes.rows()
            self._free = np.full((nodes.capacity, self._free.shape[1]), ABSENT, dtype=np.int64)
            self._shape = np.full(nodes.capacity, _NO_SHAPE, dtype=np.int64)
        for row in stale.tolist():
            self._write_row(row, nodes)
        self._nodes_seen = changes.position

    def _write_row(self, row: int, nodes: NodeTable) -> None:
        name = nodes.name_of(row)
        free = self._lists.get(name, ())
        if len(free) > self._free.shape[1]:
            more = len(free) - self._free.shape[1]
            self._free = np.pad(self._free, ((0, 0), (0, more)), constant_values=ABSENT)
        self._free[row] = ABSENT
        self._free[row, : len(free)] = free
        self._shape[row] = self._shape_of.get(name, _NO_SHAPE)
        self.changes.append(row)

    def _shapes_at(self, nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
        if nodes is self._handle.view.nodes:
            return self._shape[rows]
        return np.array([self._shape_of.get(nodes.name_of(row), _NO_SHAPE) for row in rows.tolist()], dtype=np.int64)

    # --- devices ------------------------------------------------------------------------------------------------------

    def _number_of(self, shape: DeviceShape) -> int:
        if shape not in self._shapes and len(self._shapes) < MAX_SHAPES:
            self._shapes[shape] = len(self._shapes)
        return self._shapes.get(shape, 0)

    # --- claims -------------------------------------------------------------------------------------------------------

    def _wanted(self, pod: Pod, *, with_devices: bool = False) -> Iterator[WantedDevices]:
        """What the pod's claims ask for of the class. `with_devices`: also those that have devices, of the pod for
        which they were reserved first; else these are counted already.
        """
        device_class = self._found_class()
        if device_class is None or not pod.spec.resource_claims:
            return
        for wanted in claimed_requests(pod, self._devices.claims, with_devices=with_devices):
            if wanted.class_name == device_class.metadata.name:
                count = MAX_DEVICES if wanted.mode == ALL else min(wanted.count, MAX_DEVICES)
                yield WantedDevices(count, wanted.capacity)

    # --- points that were kept ----------------------------------------------------------------------------------------

    def _follow_changes(self) -> None:
        """Have points of nodes worked out again when their devices change without the node's doing.

        What the scheduler takes for a pod needs none of this: the pod counts on the node from the same moment.
        """
        self._is_begun = False
        lister = self._handle.lister
        lister(RESOURCE_CLAIMS).on_change(self.claim_changed)
        lister(RESOURCE_SLICES).on_change(self.slice_changed)
        lister(DEVICE_CLASSES).on_change(self.class_changed)
        if "DRADeviceTaintRules" in self._handle.features:
            lister(DEVICE_TAINT_RULES).on_change(self.class_changed)
        self._is_begun = True

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim has other devices, or none any more."""
        before, now = _allocation(old), _allocation(new)
        if self._is_begun and self._members and before is not now and before != now:
            pools = {
                PoolID(result.driver, result.pool)
                for each in (before, now)
                if each is not None
                for result in each.devices.results
            }
            self._handle.nodes_changed(sorted(self._nodes_of(pools)))

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Devices have come, changed or gone."""
        if self._is_begun and self._found_class() is not None:
            names = {piece.spec.node_name for piece in (old, new) if piece is not None and piece.spec.node_name}
            self._handle.nodes_changed(sorted(names))

    def class_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """A class selects other devices, or stands for another resource; or a rule taints devices."""
        del old, new
        if self._is_begun and self._devices.slices():
            nodes = self._handle.view.nodes
            self._handle.nodes_changed(nodes.names(nodes.rows()))


def _allocation(claim: ResourceClaim | None) -> AllocationResult | None:
    return None if claim is None else claim.status.allocation
