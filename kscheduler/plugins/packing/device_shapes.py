"""One device of DRA in thousandths: what is left of it, and what a claim's request takes.

A device that several claims may share has left what its scarcest capacity has left, and a request takes as much of it
as it takes of the capacity of which it takes most. All other devices are whole or not there.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kscheduler.api.devices import Device, DeviceCapacity
from kscheduler.api.quantity import Quantity, nano_value
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.limits.capacity import CapacityError, capacities_of, consumption
from kscheduler.devices.limits.counters import FreeCounters, consumed_by
from kscheduler.devices.pools import PoolDevice
from kscheduler.devices.wanted import AllocatorFeatures
from kscheduler.plugins.packing.device_columns import NO_DEMAND, WHOLE, DeviceDemand


class DeviceShape(NamedTuple):
    """What the amount of a claim depends on: devices of one model have one shape."""

    driver: str
    is_shared: bool
    capacities: tuple[tuple[str, DeviceCapacity], ...]


WHOLE_DEVICE: Final = DeviceShape("", is_shared=False, capacities=())


class WantedDevices(NamedTuple):
    """What a claim asks for of the class."""

    devices: int
    """`MAX_DEVICES`: all that there are."""
    capacity: Mapping[str, Quantity] | None


def shape_of(found: PoolDevice, features: AllocatorFeatures) -> DeviceShape:
    """The shape of a device."""
    if not _is_shared(found.device, features):
        return WHOLE_DEVICE
    capacities = capacities_of(found.device, found.id.driver, features)
    return DeviceShape(found.id.driver, is_shared=True, capacities=tuple(sorted(capacities.items())))


def left_of(found: PoolDevice, allocated: AllocatedState, counters: FreeCounters, features: AllocatorFeatures) -> int:
    """What is left of a device. `counters`: of what is allocated."""
    if found.id in allocated.devices:
        return 0
    if not _is_shared(found.device, features):
        if allocated.has(found.id):
            return 0
        left = counters.of(found.pool) if found.device.consumes_counters else {}
        return WHOLE if all(left.get(key, 0) >= taken for key, taken in consumed_by(found).items()) else 0
    consumed = allocated.consumed.get(found.id)
    if not consumed:
        return WHOLE
    capacities = capacities_of(found.device, found.id.driver, features)
    used = max((_share(consumed.get(name, 0), each) for name, each in capacities.items()), default=0)
    return WHOLE - min(WHOLE, max(0, used))


def demand_on(shape: DeviceShape, wanted: Iterable[WantedDevices], features: AllocatorFeatures) -> int:
    """What requests take of devices of the shape."""
    return sum(each.devices * _milli(shape, each.capacity, features) for each in wanted)


def as_demand(milli: int) -> DeviceDemand:
    """So many thousandths as whole devices, or as a share of one."""
    if milli <= 0:
        return NO_DEMAND
    return DeviceDemand(1, milli) if milli < WHOLE else DeviceDemand(-(-milli // WHOLE), WHOLE)


def _is_shared(device: Device, features: AllocatorFeatures) -> bool:
    return bool(device.allow_multiple_allocations) and features.consumable_capacity


def _milli(shape: DeviceShape, requests: Mapping[str, Quantity] | None, features: AllocatorFeatures) -> int:
    """What a request takes of one device: of the capacity of which it takes most."""
    if not shape.is_shared:
        return WHOLE
    capacities = dict(shape.capacities)
    try:
        taken = consumption(requests, capacities, features, shape.driver)
    except CapacityError:
        taken = None
    if taken is None:  # it gets none of these devices
        return WHOLE
    most = max((_share(amount.nano, capacities[name]) for name, amount in taken.items()), default=0)
    return min(WHOLE, max(0, most))


def _share(amount: int, capacity: DeviceCapacity) -> int:
    """In thousandths, rounded up. `amount`: in billionths."""
    whole = nano_value(capacity.value)
    return -(-amount * WHOLE // whole) if whole > 0 else 0
