"""Layouts: the devices of a node and which of them are taken, without the names of the node and of its pools.

Most nodes come from a few node pools and publish the same devices. What a claim gets on one of them it gets on every
other one of the same layout, from the pool at the same place: no selector sees a name, and of slices and pools nothing
else is read. So a claim template is searched for once per layout, not once per node.

Only plain nodes have one: each pool is a single slice for this node alone, whose devices share no counters and are
taken as a whole.

Devices may have attributes that no two of them have in common, such as serial numbers. A layout is made of only the
attributes that selectors and constraints of the claims read, where that is known (`attributes_read`): then devices are
compared by a digest of the rest. Else they are compared by identity: informers give equal ones as one object.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from kscheduler.api.devices import (
    AllocationResult,
    Device,
    DeviceClass,
    ResourceClaimSpec,
    ResourceSlice,
)
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.selection import Selections

# Of a pool: its driver, what stands for its devices, whether nodes skip their preparation, and which devices are taken.
_PoolKey = tuple[str, int | bytes, bool, tuple[bool, ...]]
LayoutKey = tuple[_PoolKey, ...]

# No two different devices get the same one, by chance or by a driver's will.
_DIGEST_BYTES: Final = 16
_MAX_DIGESTS: Final = 8


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
    digests: dict[frozenset[str], bytes]
    """By the attributes that are read, for the last few sets of them."""

    def digest(self, read: frozenset[str]) -> bytes:
        """Equal for devices that differ in no more than attributes which are not read; it is kept in `digests`."""
        if len(self.digests) >= _MAX_DIGESTS:
            self.digests.clear()
        digest = self.digests[read] = _digest(self.devices, read)
        return digest

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
            digests={},
        )


def attributes_read(
    specs: Sequence[ResourceClaimSpec], class_of: Callable[[str], DeviceClass | None], selections: Selections
) -> frozenset[str] | None:
    """The attributes that a search for these claims may read, by their names without domains; `None`: perhaps all.

    Raises what the compiler of selectors raises.
    """
    read: set[str] = set()
    for spec in specs:
        for constraint in spec.devices.constraints:
            names = [name for name in (constraint.match_attribute, constraint.distinct_attribute) if name is not None]
            read.update(map(_without_domain, names))
        for request in spec.devices.requests:
            for wanted in (*request.first_available, *([request.exactly] if request.exactly is not None else ())):
                device_class = class_of(wanted.device_class_name)
                if device_class is None or wanted.derived_attributes:
                    return None
                for selectors in (device_class.spec.selectors, wanted.selectors):
                    of_selectors = selections.attributes_read(selectors)
                    if of_selectors is None:
                        return None
                    read |= of_selectors
    return frozenset(read)


class _IsRead(dict[str, bool]):
    """By full name of an attribute, whether it is read: few names, on very many devices."""

    def __init__(self, read: frozenset[str]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, attribute: str) -> bool:
        is_read = self[attribute] = _without_domain(attribute) in self._read
        return is_read


def _digest(devices: tuple[Device, ...], read: frozenset[str]) -> bytes:
    """Of the devices without attributes that are not read. Kept are those, too, that a selector might not be able to
    read: up to 1.37 it fails then, whatever it is about.
    """
    is_read = _IsRead(read)
    reduced = [
        replace(
            device,
            attributes={
                name: value
                for name, value in device.attributes.items()
                if is_read[name]
                or (value.string_value is None and value.int_value is None and value.bool_value is None)
                or value.version_value is not None
                or value.string_values is not None
                or value.int_values is not None
                or value.bool_values is not None
                or value.version_values is not None
            },
        )
        for device in devices
    ]
    return blake2b(msgspec.json.encode((sorted(read), reduced)), digest_size=_DIGEST_BYTES).digest()


def _without_domain(attribute: str) -> str:
    domain, slash, name = attribute.partition("/")
    return name if slash else domain


def layout_of(
    slices: Sequence[tuple[ResourceSlice, PublishedDevices]],
    allocated: AllocatedState,
    read: frozenset[str] | None = None,
) -> DeviceLayout | None:
    """The layout of a node that reaches these slices and no others, each a pool of its own; `None`: it has none.

    `read`: the attributes that are part of it (`attributes_read`).
    """
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
        like = id(published.devices) if read is None else published.digests.get(read) or published.digest(read)
        key.append((driver, like, bool(spec.skip_node_operations), held))
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
