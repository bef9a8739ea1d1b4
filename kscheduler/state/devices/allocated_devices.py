"""The devices that claims hold, added up.

A device that is not shared is held or not; should two claims hold it all the same (other schedulers make mistakes),
it is free when both have given it back. Of a shared device each share has an identity, and an amount of each capacity.
Devices with admin access are left out: whoever has that takes nothing away from others.
"""

from collections import Counter

from kscheduler.api.devices import AllocationResult
from kscheduler.devices.ids import AllocatedState, DeviceID, held_by


class AllocatedDevices:
    """Devices, shares and amounts."""

    def __init__(self) -> None:
        self._devices: Counter[DeviceID] = Counter()
        self._shares: dict[DeviceID, Counter[str]] = {}
        self._consumed: dict[DeviceID, Counter[str]] = {}
        self._state = AllocatedState(self._devices.keys(), self._shares, self._consumed)

    def add(self, allocation: AllocationResult) -> None:
        """Count what a claim holds."""
        self._count(allocation, 1)

    def remove(self, allocation: AllocationResult) -> None:
        """Stop counting it."""
        self._count(allocation, -1)

    def state(self) -> AllocatedState:
        """Views of what is counted: they follow each change."""
        return self._state

    def _count(self, allocation: AllocationResult, sign: int) -> None:
        held = held_by(allocation)
        for device in held.devices:
            self._devices[device] += sign
            if not self._devices[device]:
                del self._devices[device]
        for device, share in held.shared:
            _add(self._shares, device, {share: sign})
        for device, amounts in held.consumed:
            _add(self._consumed, device, {name: sign * amount for name, amount in amounts.items()})


def _add(counts: dict[DeviceID, Counter[str]], device: DeviceID, amounts: dict[str, int]) -> None:
    """Add the amounts; what has come to nothing is left out."""
    counted = counts.setdefault(device, Counter())
    counted.update(amounts)
    for name in amounts:
        if not counted[name]:
            del counted[name]
    if not counted:
        del counts[device]
