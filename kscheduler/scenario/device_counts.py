"""How many devices of each class there are, and how many of them claims have.

Asked of the newest generation of each pool. A class's selectors are asked once per device.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, cast

from kscheduler.api.device_selectors import Release, SelectorCompiler
from kscheduler.api.devices import Device, DeviceClass, ResourceSlice
from kscheduler.api.selector_errors import SelectorError
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.devices.ids import DeviceID
from kscheduler.devices.pools import newest_of
from kscheduler.state.devices.device_table import DeviceTable

# Devices times classes; with more, devices are not counted: it would take a second.
MAX_ANSWERS: Final = 50_000


class DeviceAmount(NamedTuple):
    """Of one class."""

    there: int
    in_use: int


class DevicesByClass:
    """Counts devices, as often as it is asked, in a table that changes meanwhile."""

    def __init__(self, gates: FeatureGates) -> None:
        self._compiler: SelectorCompiler | None = None
        self._gates = gates
        self._known: dict[tuple[int, str, int], tuple[DeviceClass, Device, bool]] = {}
        """By class, driver and device, which are kept so that no others get their ids."""

    def counts(self, devices: DeviceTable, nodes: Collection[str]) -> dict[str, DeviceAmount]:
        """By class. Devices that are in a node count if it is among these nodes; empty: there are too many."""
        classes = [known for name in devices.class_names() if (known := devices.device_class(name)) is not None]
        there = list(_devices(devices.slices(), nodes)) if classes else []
        if len(there) * len(classes) > MAX_ANSWERS:
            return {}
        taken = devices.claims.allocated_state()
        found: dict[str, DeviceAmount] = {}
        for device_class in classes:
            of_class = [identity for identity, device in there if self._is_in(device_class, identity.driver, device)]
            found[device_class.metadata.name] = DeviceAmount(len(of_class), sum(map(taken.has, of_class)))
        return found

    def _is_in(self, device_class: DeviceClass, driver: str, device: Device) -> bool:
        key = id(device_class), driver, id(device)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = device_class, device, self._queried(device_class, driver, device)
        return known[2]

    def _queried(self, device_class: DeviceClass, driver: str, device: Device) -> bool:
        if self._compiler is None:  # the environment of the language takes milliseconds
            version = cast("Release", self._gates.behaviours.version)
            self._compiler = SelectorCompiler(version, self._gates.enabled("DRAListTypeAttributes"))
        try:
            return all(
                self._compiler.compile(selector.cel.expression).matches(driver, device)
                for selector in device_class.spec.selectors
                if selector.cel is not None
            )
        except SelectorError:
            return False


def _devices(slices: Iterable[ResourceSlice], nodes: Collection[str]) -> Iterator[tuple[DeviceID, Device]]:
    for pool, pieces in newest_of(slices).items():
        for piece in pieces:
            for device in piece.spec.devices:
                node = device.node_name or piece.spec.node_name
                if not node or node in nodes:
                    yield DeviceID(*pool, device.name), device
