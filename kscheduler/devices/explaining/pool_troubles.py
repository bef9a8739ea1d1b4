"""Pools whose devices may not be allocated: the driver has not published all slices yet, or they contradict each other.

What is wrong is read from the slices: the allocator knows no more than that the pool is unusable.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kscheduler.api.devices import Device, ResourceSlice
from kscheduler.devices.pools import Pool


@dataclass(frozen=True, slots=True)
class PoolTrouble:
    """A pool that a node reaches and that is of no use now."""

    driver: str
    pool: str
    generation: int
    slices: int
    """Of this generation that are published."""
    slice_count: int
    """Of this generation that there should be."""
    problem: str = ""
    """What contradicts itself; empty: slices are missing."""

    @property
    def is_being_updated(self) -> bool:
        """Whether slices are missing."""
        return not self.problem


def trouble_of(pool: Pool, slices: Sequence[ResourceSlice]) -> PoolTrouble:
    """What is wrong with an unusable pool. `slices`: all that are published."""
    own = [each for each in slices if (each.spec.driver, each.spec.pool.name) == pool.id]
    generation = max((each.spec.pool.generation for each in own), default=0)
    newest = [each for each in own if each.spec.pool.generation == generation]
    wanted = max((each.spec.pool.resource_slice_count for each in newest), default=0)
    problem = "" if pool.is_incomplete else _contradiction(newest)
    return PoolTrouble(*pool.id, generation, len(newest), wanted, problem)


def _contradiction(slices: Sequence[ResourceSlice]) -> str:
    sets = Counter(each.name for piece in slices for each in piece.spec.shared_counters)
    if twice := _twice(sets):
        return f"counter set {twice} is there twice"
    devices = [device for piece in slices for device in piece.spec.devices]
    if twice := _twice(Counter(device.name for device in devices)):
        return f"device {twice} is there twice"
    counters = {each.name: each.counters.keys() for piece in slices for each in piece.spec.shared_counters}
    return next((problem for device in devices if (problem := _unknown_counter(device, counters))), "its slices differ")


def _unknown_counter(device: Device, counters: Mapping[str, AbstractSet[str]]) -> str:
    for used in device.consumes_counters:
        known = counters.get(used.counter_set)
        if known is None:
            return f"device {device.name} uses counter set {used.counter_set}, which does not exist"
        missing = sorted(used.counters.keys() - known)
        if missing:
            return f"device {device.name} uses counter {missing[0]} of set {used.counter_set}, which does not exist"
    return ""


def _twice(counts: Counter[str]) -> str:
    return next((name for name, count in sorted(counts.items()) if count > 1), "")
