"""Layouts: the devices of a node and which of them are taken, without the names of the node and of its pools.

Most nodes come from a few node pools and publish the same devices. What a claim gets on one of them it gets on every
other one of the same layout, from the pool at the same place: no selector sees a name, and of slices and pools nothing
else is read. So a claim template is searched for once per layout, not once per node.

Only plain nodes have one: each pool is a single slice for this node alone, whose devices share no counters and are
taken as a whole. Devices are compared by identity: informers give equal ones as one object.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kscheduler.api.devices import AllocationResult, Device, ResourceSlice
from kscheduler.devices.ids import AllocatedState

# Of a pool: its driver, the `id` of its devices, whether nodes skip their preparation, and which devices are taken.
_PoolKey = tuple[str, int, bool, tuple[bool, ...]]
LayoutKey = tuple[_PoolKey, ...]


class DeviceLayout(NamedTuple):
    """The layout of a node, and what stands at its places there."""

    key: LayoutKey
    """Equal for nodes of one layout, as long as `devices` are kept."""
    pools: tuple[str, ...]
    """Their names, in the order in which they are searched."""
    devices: tuple[tuple[Device, ...], ...]


class PublishedDevices(msgspec.Struct, frozen=True):
    """What layouts ask of the devices of a slice; worked out once for all slices that have them."""

    devices: tuple[Device, ...]
    names: tuple[str, ...]
    is_plain: bool
    has_conditions: bool

    @staticmethod
    def of(devices: tuple[Device, ...]) -> "PublishedDevices":
        """What these are like."""
        names = tuple([device.name for device in devices])
        return PublishedDevices(
            devices,
            names,
            is_plain=len(set(names)) == len(names)
            and not any(device.consumes_counters or device.allow_multiple_allocations for device in devices),
            has_conditions=any(device.binding_conditions for device in devices),
        )


def layout_of(
    slices: Sequence[tuple[ResourceSlice, PublishedDevices]], allocated: AllocatedState
) -> DeviceLayout | None:
    """The layout of a node that reaches these slices and no others, each a pool of its own; `None`: it has none."""
    if len(slices) > 1:  # in the order of pools, see `pools.in_order`
        slices = sorted(slices, key=lambda one: (one[1].has_conditions, one[0].spec.driver, one[0].spec.pool.name))
    taken = allocated.devices
    key: list[_PoolKey] = []
    for piece, published in slices:
        spec = piece.spec
        if (
            not published.is_plain
            or spec.shared_counters
            or spec.per_device_node_selection is not None
            or spec.pool.resource_slice_count != 1
        ):
            return None
        driver, pool = spec.driver, spec.pool.name
        held = tuple([(driver, pool, name) in taken for name in published.names])
        if allocated.shared or allocated.consumed:  # shares of a device that was shared once
            places = [(driver, pool, name) for name in published.names]
            if any(place in allocated.shared or place in allocated.consumed for place in places):
                return None
        key.append((driver, id(published.devices), bool(spec.skip_node_operations), held))
    return DeviceLayout(
        tuple(key),
        tuple([piece.spec.pool.name for piece, _ in slices]),
        tuple([published.devices for _, published in slices]),
    )


def on_node(node_name: str) -> NodeSelector:
    """The selector of an allocation that this node alone can use."""
    place = NodeSelectorRequirement("metadata.name", "In", (node_name,))
    return NodeSelector((NodeSelectorTerm(match_fields=(place,)),))


def moved(
    allocations: Sequence[AllocationResult], found_in: DeviceLayout, layout: DeviceLayout, node_name: str
) -> list[AllocationResult]:
    """What was found on another node of the same layout, as it is on this one."""
    pools = {
        (driver, before): now
        for (driver, *_), before, now in zip(layout.key, found_in.pools, layout.pools, strict=True)
    }
    return [_moved(each, pools, node_name) for each in allocations]


def _moved(allocation: AllocationResult, pools: Mapping[tuple[str, str], str], node_name: str) -> AllocationResult:
    devices = allocation.devices
    results = tuple([replace(result, pool=pools[result.driver, result.pool]) for result in devices.results])
    selector = None if allocation.node_selector is None else on_node(node_name)
    return AllocationResult(replace(devices, results=results), selector)
