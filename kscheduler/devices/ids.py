"""Names of devices, and what is taken of them."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar

import msgspec

from kscheduler.api.devices import AllocationResult
from kscheduler.api.quantity import nano_value

T = TypeVar("T")


class PoolID(NamedTuple):
    """A driver's pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


class DeviceID(NamedTuple):
    """A device: names are unique within a pool only."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class SharedDeviceID(NamedTuple):
    """One share of a device that several claims may have."""

    device: DeviceID
    share: str


# Capacity to amount, in billionths.
Consumed = Mapping[str, int]


class AllocatedState(msgspec.Struct, frozen=True):
    """What claims have, as an allocator reads it."""

    devices: AbstractSet[DeviceID] = frozenset()
    """Devices that one claim has for itself."""
    shared: Mapping[DeviceID, Collection[str]] = {}
    """The shares of devices that several claims may have, by their IDs."""
    consumed: Mapping[DeviceID, Consumed] = {}
    """What all shares of a device take together."""

    def copy_of(self, devices: Collection[DeviceID]) -> "AllocatedState":
        """What it is now of these devices, whatever changes later. Costs as much as these are, not as all are."""
        taken, shared, consumed = self.devices, self.shared, self.consumed
        return AllocatedState(
            frozenset([device for device in devices if device in taken]),
            {device: tuple(shared[device]) for device in devices if device in shared},
            {device: dict(consumed[device]) for device in devices if device in consumed},
        )

    def has(self, device: DeviceID) -> bool:
        """Whether any claim has the device or a share of it."""
        return device in self.devices or device in self.shared or device in self.consumed


class Holding(msgspec.Struct, frozen=True):
    """What one claim has."""

    devices: tuple[DeviceID, ...] = ()
    shared: tuple[SharedDeviceID, ...] = ()
    consumed: tuple[tuple[DeviceID, Consumed], ...] = ()


NOTHING_HELD = Holding()


def joined_names(named: Mapping[str, T], driver: str) -> dict[str, T]:
    """By names without the driver's domain, of which those with it count where both are there."""
    prefix = f"{driver}/"
    plain = {name: value for name, value in named.items() if not name.startswith(prefix)}
    return plain | {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}


def held_by(
    allocation: AllocationResult | None, *, is_shareable: bool = True, joins_names_of_devices: bool = False
) -> Holding:
    """What an allocation takes. Devices for administrators do not count.

    `is_shareable`: whether several claims may have one device (gate DRAConsumableCapacity).
    `joins_names_of_devices`: capacities with and without the driver's domain are the same.
    """
    if allocation is None:
        return NOTHING_HELD
    devices, shared, consumed = [], [], []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = DeviceID(result.driver, result.pool, result.device)
        if not is_shareable or result.share_id is None:
            devices.append(device)
            continue
        shared.append(SharedDeviceID(device, result.share_id))
        if result.consumed_capacity:
            named = result.consumed_capacity
            if joins_names_of_devices:
                named = joined_names(named, result.driver)
            amounts = {name: nano_value(amount) for name, amount in named.items()}
            consumed.append((device, amounts))
    return Holding(tuple(devices), tuple(shared), tuple(consumed))
