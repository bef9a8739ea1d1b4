"""Making allocators. Cycles share answers of selectors, the index of the slices, and what nodes gave to like claims."""

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Final, cast

from kscheduler.api.devices import ResourceClaim, ResourceSlice
from kscheduler.config.durations import Duration
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.explaining.obstacles import Obstacles
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.selection import Selections
from kscheduler.devices.selectors import COMPILED_KEPT, Release, SelectorCompiler
from kscheduler.devices.slices import SliceIndex
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.patience import Patience
from kscheduler.plugins.dynamic_resources.kept_answers import AnswersByTemplate, KeptAnswers
from kscheduler.plugins.dynamic_resources.long_evaluations import PatientCompiler
from kscheduler.plugins.dynamic_resources.search import DeviceSearch

FILTER_TIMEOUT_SECONDS: Final = 10.0
"""The default of `filterTimeout` in DynamicResourcesArgs."""
_NO_SLICES: Final[Sequence[ResourceSlice]] = ()


class Allocators:
    """Makes the allocator of each cycle."""

    def __init__(self, handle: Handle, filter_timeout: Duration | None) -> None:
        self._clock = handle.clock
        self._features = AllocatorFeatures.of(handle.features, handle.behaviours)
        self._has_lists = "DRAListTypeAttributes" in handle.features
        self._version = cast("Release", handle.behaviours.version)
        self._index = SliceIndex(_NO_SLICES, self._features)
        self._indexed = _NO_SLICES
        self._answers = AnswersByTemplate()
        self._timeout_seconds = 0.0
        if "DRASchedulerFilterTimeout" in handle.features:
            self._timeout_seconds = FILTER_TIMEOUT_SECONDS if filter_timeout is None else filter_timeout / 1e9

    @cached_property
    def _selections(self) -> Selections:
        """The answers of selectors. Made for the first claim: the environment of their language takes milliseconds."""
        compiler = PatientCompiler(SelectorCompiler(self._version, self._has_lists), COMPILED_KEPT)
        return Selections(compiler, self._features)

    def search_for(
        self, claims: Sequence[ResourceClaim], devices: Devices, patience: Patience | None = None
    ) -> DeviceSearch:
        """A search for devices of these claims."""
        kept = self._answers.of(claims)
        make, follow = partial(self._made, claims, devices), partial(self._follow, kept, devices)
        return DeviceSearch(claims, devices, follow, make, self._clock, self._timeout_seconds, kept, patience)

    def obstacles(self, devices: Devices) -> Obstacles:
        """Who explains why claims get nothing, as things are now."""
        index, allocated = self._index_of(devices), devices.claims.allocated_state()
        return Obstacles(
            self._features, allocated, devices.device_class, index, self._selections, devices.taint_rules()
        )

    def _made(self, claims: Sequence[ResourceClaim], devices: Devices, *, lasts: bool) -> Allocator:
        index, allocated = self._index_of(devices), devices.claims.allocated_state()
        if lasts:
            allocated = allocated.copy()
        return Allocator(self._features, claims, allocated, devices.device_class, index, self._selections)

    def _follow(self, kept: KeptAnswers, devices: Devices) -> None:
        self._answers.follow(kept, devices, self._index_of(devices))

    def _index_of(self, devices: Devices) -> SliceIndex:
        slices = devices.slices()
        if slices is not self._indexed:
            self._index, self._indexed = SliceIndex(slices, self._features, self._index), slices
            self._answers.slices_changed(self._index.changed)
        return self._index
