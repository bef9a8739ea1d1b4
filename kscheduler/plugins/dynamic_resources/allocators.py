"""Making allocators. Cycles share answers of selectors, the index of the slices, and what nodes gave to like claims."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, cast

from kscheduler.api.core import Node
from kscheduler.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from kscheduler.api.selector_errors import SelectorCompileError
from kscheduler.config.durations import Duration
from kscheduler.devices.allocator import Allocator
from kscheduler.devices.counting import IsIn, NodeDevices, PoolCount, count_by_pool, count_devices
from kscheduler.devices.layouts import DeviceLayout, attributes_read
from kscheduler.devices.limits.counters import FreeCounters
from kscheduler.devices.obstacles import Obstacles
from kscheduler.devices.pools import Pool, PoolDevice
from kscheduler.devices.selection import Selections
from kscheduler.devices.slices import SliceIndex
from kscheduler.devices.wanted import AllocationError, AllocatorFeatures
from kscheduler.framework.cluster.devices import Devices
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.plugins.dynamic_resources.long_evaluations import PatientCompiler, StillEvaluatingError
from kscheduler.plugins.dynamic_resources.node_result_cache import NodeResultCache, ResultsByTemplate
from kscheduler.plugins.dynamic_resources.search import BadPools, DeviceSearch

if TYPE_CHECKING:  # imported for the first claim
    from kscheduler.api.device_selectors import Release

# The default of `filterTimeout` in DynamicResourcesArgs.
FILTER_TIMEOUT_SECONDS: Final = 10.0
# Of `device` in a selector, besides its driver.
_OTHER_FIELDS: Final = ("attributes", "capacity", "allowMultipleAllocations")
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
        self._answers = ResultsByTemplate()
        self.bad_pools = BadPools()
        self._timeout_seconds = 0.0
        if "DRASchedulerFilterTimeout" in handle.features:
            self._timeout_seconds = FILTER_TIMEOUT_SECONDS if filter_timeout is None else filter_timeout / 1e9

    @cached_property
    def _selections(self) -> Selections:
        """The answers of selectors. Made for the first claim: the environment of their language takes milliseconds."""
        from kscheduler.api.device_selectors import SelectorCompiler

        compiler = PatientCompiler(SelectorCompiler(self._version, self._has_lists))
        return Selections(compiler, self._features)

    def search_for(
        self, claims: Sequence[ResourceClaim], devices: Devices, search_budget: SearchTimeBudget | None = None
    ) -> DeviceSearch:
        """A search for devices of these claims."""
        kept = self._answers.of(claims)
        make, follow = partial(self._made, claims, devices), partial(self._follow, kept, devices)
        layout_of = partial(self._layout_of, kept, claims, devices)
        return DeviceSearch(
            claims,
            devices,
            follow,
            make,
            layout_of,
            self._clock,
            self._timeout_seconds,
            kept,
            self.bad_pools,
            search_budget,
        )

    def obstacles(self, devices: Devices) -> Obstacles:
        """Who explains why claims get nothing, as things are now."""
        index, allocated = self._index_of(devices), devices.claims.allocated_state()
        return Obstacles(
            self._features, allocated, devices.device_class, index, self._selections, devices.taint_rules()
        )

    def devices_on(self, nodes: Iterable[Node], devices: Devices) -> dict[str, NodeDevices]:
        """What each node reaches. A class is asked no more about a driver's devices once its selector fails for one,
        or takes long: people wait for the answer, and decisions must not.
        """
        if not devices.slices():
            return {}
        names, is_in = self._membership(devices)
        allocated = devices.claims.allocated_state()
        return {
            name: count_devices(pools, names, is_in, allocated, self._features)
            for name, pools in self._reached(nodes, devices)
            if pools
        }

    def devices_by_pool(self, nodes: Iterable[Node], devices: Devices) -> dict[str, tuple[PoolCount, ...]]:
        """The same by class and pool, without those that no class has."""
        if not devices.slices():
            return {}
        names, is_in = self._membership(devices)
        allocated = devices.claims.allocated_state()
        counters = FreeCounters(self._features, allocated)
        found = (
            (name, count_by_pool(pools, names, is_in, allocated, counters, self._features))
            for name, pools in self._reached(nodes, devices)
        )
        return {name: counts for name, counts in found if counts}

    def _reached(self, nodes: Iterable[Node], devices: Devices) -> Iterator[tuple[str, list[Pool]]]:
        index = self._index_of(devices)
        for node in nodes:
            yield node.metadata.name, index.pools(node.metadata.name, node.metadata.labels)

    def _membership(self, devices: Devices) -> tuple[tuple[str, ...], IsIn]:
        """The classes, and which devices each has."""
        names = devices.class_names()
        classes = {name: found for name in names if (found := devices.device_class(name)) is not None}
        selections = {name: self._selections.of(found, (), "", "") for name, found in classes.items()}

        by_driver = {name for name, found in classes.items() if _reads_driver_only(found)}
        known: dict[tuple[str, str], bool | None] = {}
        """By class and driver: the answer for all of its devices; `None` once the class is given up there."""

        def is_in(name: str, device: PoolDevice) -> bool | None:
            key = name, device.id.driver
            if key in known:
                return known[key]
            try:
                answer = selections[name].has(device)
            except (AllocationError, StillEvaluatingError):
                known[key] = None
                return None
            if name in by_driver:
                known[key] = answer
            return answer

        return tuple(classes), is_in

    def pool_states(self, devices: Devices) -> Mapping[tuple[str, str], int]:
        """By (driver, state) the number of pools."""
        return self._index_of(devices).pool_states if devices.slices() else {}

    def _made(self, claims: Sequence[ResourceClaim], devices: Devices, *, lasting_on: Node | None) -> Allocator:
        index, allocated = self._index_of(devices), devices.claims.allocated_state()
        if lasting_on is not None:
            pools = index.pools(lasting_on.metadata.name, lasting_on.metadata.labels)
            read = [found.id for pool in pools for found in (*pool.devices, *pool.elsewhere)]
            allocated = allocated.copy_of(read)
        return Allocator(self._features, claims, allocated, devices.device_class, index, self._selections)

    def _layout_of(
        self, kept: NodeResultCache, claims: Sequence[ResourceClaim], devices: Devices, node: Node
    ) -> DeviceLayout | None:
        if not kept.knows_attributes_read:
            kept.knows_attributes_read = True
            # One that cannot be compiled may read anything, and so may one that takes long: it is not waited for.
            with suppress(SelectorCompileError, StillEvaluatingError):
                specs = [claim.spec for claim in claims]
                kept.attributes_read = attributes_read(specs, devices.device_class, self._selections)
        read, allocated = kept.attributes_read, devices.claims.allocated_state()
        return self._index.layout(node.metadata.name, node.metadata.labels, allocated, read)

    def _follow(self, kept: NodeResultCache, devices: Devices) -> None:
        self._answers.follow(kept, devices, self._index_of(devices))

    def _index_of(self, devices: Devices) -> SliceIndex:
        slices = devices.slices()
        if slices is not self._indexed:
            self._index, self._indexed = SliceIndex(slices, self._features, self._index), slices
            self._answers.slices_changed(self._index.changed)
        return self._index


def _reads_driver_only(device_class: DeviceClass) -> bool:
    """Whether its selectors answer alike for all devices of a driver: they name no other field of `device`.

    That is what most classes do, and then thousands of nodes need one evaluation.
    """
    expressions = [selector.cel.expression for selector in device_class.spec.selectors if selector.cel is not None]
    return not any(field in expression for expression in expressions for field in _OTHER_FIELDS)
