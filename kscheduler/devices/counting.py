"""How many devices a node reaches, by class and driver, and how many of them are taken or tainted: for people.

A device may be in several classes, and counts in each. One that several claims may share counts as taken as soon as one
has a share. Counters that devices of a pool share are not looked at: of devices that are free perhaps not all can be
had at once.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from kscheduler.devices.ids import AllocatedState, PoolID
from kscheduler.devices.limits.counters import FreeCounters, consumed_by
from kscheduler.devices.pools import Pool, PoolDevice
from kscheduler.devices.taints import is_tainted
from kscheduler.devices.wanted import AllocatorFeatures

# `is_in(class_name, device)`; `None`: that cannot be told, or not yet.
IsIn = Callable[[str, PoolDevice], bool | None]


class DeviceCount(msgspec.Struct, frozen=True):
    """The devices of one class and driver."""

    device_class: str
    """Empty: those that no class has."""
    driver: str
    devices: int
    taken: int
    tainted: int
    """With a taint that keeps claims away which do not tolerate it."""
    free: int
    """Neither taken nor tainted."""


class NodeDevices(msgspec.Struct, frozen=True):
    """What a node reaches, by class and driver; devices of unusable pools do not count."""

    counts: tuple[DeviceCount, ...] = ()
    incomplete: tuple[PoolID, ...] = ()
    """Pools of which not all slices are published yet: nothing can be had of them."""
    invalid: tuple[PoolID, ...] = ()
    """Pools that contradict themselves; likewise."""
    unclear: tuple[str, ...] = ()
    """Classes whose selectors fail, or take long, for some device here."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not (self.counts or self.incomplete or self.invalid)


class PoolCount(msgspec.Struct, frozen=True):
    """The devices of one class and pool that a node reaches. A pool that cannot be used has none."""

    pool: PoolID
    device_class: str
    is_of_node: bool
    """Whether no other node reaches them."""
    devices: int
    taken: int
    free: int
    """Neither taken nor tainted, and what they take of counters is left; each could be had, perhaps not all at once."""


def count_by_pool(
    pools: Iterable[Pool],
    class_names: Sequence[str],
    is_in: IsIn,
    allocated: AllocatedState,
    counters: FreeCounters,
    features: AllocatorFeatures,
) -> tuple[PoolCount, ...]:
    """The devices of the pools that a node reaches, by class. `counters`: of what is allocated."""
    counts: dict[tuple[PoolID, str, bool], list[int]] = {}
    for found in (device for pool in pools for device in pool.devices):
        taken = allocated.has(found.id)
        is_free = not (taken or is_tainted(found.device, features))
        if is_free and found.device.consumes_counters:
            left = counters.of(found.pool)
            is_free = all(left.get(key, 0) >= amount for key, amount in consumed_by(found).items())
        is_of_node = bool(found.slice.spec.node_name or found.device.node_name)
        for name in class_names:
            if is_in(name, found):
                sums = counts.setdefault((found.pool.id, name, is_of_node), [0, 0, 0])
                for place, counts_here in enumerate((True, taken, is_free)):
                    sums[place] += counts_here
    return tuple(PoolCount(pool, name, is_of_node, *sums) for (pool, name, is_of_node), sums in counts.items())


def count_devices(
    pools: Iterable[Pool],
    class_names: Sequence[str],
    is_in: IsIn,
    allocated: AllocatedState,
    features: AllocatorFeatures,
) -> NodeDevices:
    """The devices of the pools that a node reaches."""
    pools = sorted(pools, key=lambda pool: pool.id)
    counts: dict[tuple[str, str], list[int]] = {}
    unclear: dict[str, None] = {}
    for found in (device for pool in pools for device in pool.devices):
        answers = {name: is_in(name, found) for name in class_names}
        unclear |= dict.fromkeys(name for name, answer in answers.items() if answer is None)
        taken, tainted = allocated.has(found.id), is_tainted(found.device, features)
        for name in [name for name, answer in answers.items() if answer] or [""]:
            sums = counts.setdefault((name, found.id.driver), [0, 0, 0, 0])
            for place, counts_here in enumerate((True, taken, tainted, not (taken or tainted))):
                sums[place] += counts_here
    return NodeDevices(
        tuple(
            DeviceCount(name, driver, *sums) for (name, driver), sums in sorted(counts.items(), key=_with_class_first)
        ),
        tuple(pool.id for pool in pools if pool.is_incomplete),
        tuple(pool.id for pool in pools if pool.is_invalid),
        tuple(sorted(unclear)),
    )


def _with_class_first(entry: tuple[tuple[str, str], list[int]]) -> tuple[bool, str, str]:
    (name, driver), _ = entry
    return not name, name, driver
