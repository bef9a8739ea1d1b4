"""Counters that the devices of a pool share: what is left of them, and what the search takes."""

from collections.abc import Hashable

from kscheduler.api.quantity import nano_value
from kscheduler.devices.features import AllocatorFeatures
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.pools import Pool, PoolDevice

Counted = dict[tuple[str, str], int]
"""Counter set and counter to an amount, in billionths."""


class FreeCounters:
    """What allocated devices have left of each pool's counters; worked out once per pool and state.

    Upstream keeps them by the name of the pool alone in 1.36, where pools of two drivers with one name share them.
    """

    def __init__(self, features: AllocatorFeatures, allocated: AllocatedState) -> None:
        self._features = features
        self._allocated = allocated
        self._left: dict[Hashable, Counted] = {}

    def name_of(self, pool: Pool) -> Hashable:
        """Under which name a pool's counters are kept."""
        return pool.id if self._features.counts_by_pool_and_driver else pool.id.pool

    def of(self, pool: Pool) -> Counted:
        """What is left; below 0 where more is allocated than there is."""
        name = self.name_of(pool)
        left = self._left.get(name)
        if left is None:
            left = self._left[name] = self._worked_out(pool)
        return left

    def _worked_out(self, pool: Pool) -> Counted:
        left = {
            (each.name, counter): nano_value(amount.value)
            for each in pool.counter_sets.values()
            for counter, amount in each.counters.items()
        }
        for found in (*pool.devices, *pool.elsewhere):
            if found.device.consumes_counters and self._allocated.has(found.id):
                for key, amount in consumed_by(found).items():
                    if key in left:
                        left[key] -= amount
        return left


class PoolCounters:
    """What one search takes of the counters."""

    def __init__(self, free: FreeCounters) -> None:
        self._free = free
        self._taken: dict[Hashable, Counted] = {}

    def take(self, found: PoolDevice) -> bool:
        """Count a device; if any counter of its pool is not enough, nothing is counted. Whether it was enough."""
        taken = self._taken.setdefault(self._free.name_of(found.pool), {})
        _add(taken, consumed_by(found), 1)
        if any(left < taken.get(key, 0) for key, left in self._free.of(found.pool).items()):
            _add(taken, consumed_by(found), -1)
            return False
        return True

    def give_back(self, found: PoolDevice) -> None:
        """Undo `take`."""
        _add(self._taken[self._free.name_of(found.pool)], consumed_by(found), -1)


def consumed_by(found: PoolDevice) -> Counted:
    """What the device takes while it is allocated."""
    counted: Counted = {}
    for used in found.device.consumes_counters:
        for counter, amount in used.counters.items():
            key = used.counter_set, counter
            counted[key] = counted.get(key, 0) + nano_value(amount.value)
    return counted


def _add(to: Counted, amounts: Counted, sign: int) -> None:
    for key, amount in amounts.items():
        to[key] = to.get(key, 0) + sign * amount
