"""Making allocators: what they share between cycles is the answers of selectors and the index of the slices."""

from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.config.durations import Duration
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.selection import Selections
from kscheduler.devices.selectors import Release, SelectorCompiler
from kscheduler.devices.slices import SliceIndex
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.handle import Handle
from kscheduler.plugins.dynamic_resources.search import DeviceSearch

FILTER_TIMEOUT_SECONDS: Final = 10.0
"""The default of `filterTimeout` in DynamicResourcesArgs."""
_NO_SLICES: Final[Sequence[ResourceSlice]] = ()


class Allocators:
    """Makes the allocator of each cycle."""

    def __init__(self, handle: Handle, filter_timeout: Duration | None) -> None:
        self._clock = handle.clock
        self._features = AllocatorFeatures.of(handle.features, handle.behaviours)
        compiler = SelectorCompiler(cast("Release", handle.behaviours.version))
        self._selections = Selections(compiler, self._features)
        self._index = SliceIndex(_NO_SLICES, self._features)
        self._indexed = _NO_SLICES
        self._timeout_seconds = 0.0
        if "DRASchedulerFilterTimeout" in handle.features:
            self._timeout_seconds = FILTER_TIMEOUT_SECONDS if filter_timeout is None else filter_timeout / 1e9

    def search_for(self, claims: Sequence[ResourceClaim], devices: Devices) -> DeviceSearch:
        """A search for devices of these claims."""
        make = partial(self._made, claims, devices)
        return DeviceSearch(claims, make, lambda: devices.claims.revision, self._clock, self._timeout_seconds)

    def _made(self, claims: Sequence[ResourceClaim], devices: Devices) -> Allocator:
        slices = devices.slices()
        if slices is not self._indexed:
            self._index, self._indexed = SliceIndex(slices, self._features, self._index), slices
        allocated = devices.claims.allocated_state()
        return Allocator(self._features, claims, allocated, devices.device_class, self._index, self._selections)
