"""The devices that claims hold, added up.

A device that is not shared is held or not; should two claims hold it all the same (other schedulers make mistakes),
it is free when both have given it back. Of a shared device each share has an identity, and an amount of each capacity.
Devices with admin access are left out: whoever has that takes nothing away from others.
"""

from collections import Counter
from collections.abc import Iterable

from kscheduler.api.devices import AllocationResult, DeviceRequestAllocationResult
from kscheduler.devices.ids import AllocatedState, DeviceID


class AllocatedDevices:
    """Devices, shares and amounts."""

    def __init__(self) -> None:
        self._devices: Counter[DeviceID] = Counter()

    def add(self, allocation: AllocationResult) -> None:
        """Count what a claim holds."""
        for result in _counted(allocation):
            self._devices[DeviceID(result.driver, result.pool, result.device)] += 1

    def remove(self, allocation: AllocationResult) -> None:
        """Stop counting it."""
        for result in _counted(allocation):
            device = DeviceID(result.driver, result.pool, result.device)
            self._devices[device] -= 1
            if not self._devices[device]:
                del self._devices[device]

    def state(self) -> AllocatedState:
        """Views of what is counted: they follow each change."""
        return AllocatedState(self._devices.keys())


def _counted(allocation: AllocationResult) -> Iterable[DeviceRequestAllocationResult]:
    return (result for result in allocation.devices.results if not result.admin_access)
