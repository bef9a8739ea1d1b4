"""Counters that the devices of a pool share: what is left of them, what the search takes, and who may share a set.

With the gate DRADeviceCompatibilityGroups, devices that take of one counter set must have a compatibility group in
common; devices without groups go with their like only.
"""

from collections.abc import Hashable
from typing import Final

from kscheduler.api.quantity import nano_value
from kscheduler.devices.ids import AllocatedState
from kscheduler.devices.pools import Pool, PoolDevice
from kscheduler.devices.wanted import AllocatorFeatures

# Counter set and counter to an amount, in billionths.
Counted = dict[tuple[str, str], int]
# The groups that the devices of a counter set have in common; `None` if they have no groups at all.
Company = frozenset[str] | None
# Of a counter set of which nobody takes anything: a name that no group has.
_NO_GROUP: Final = frozenset({""})


class FreeCounters:
    """What allocated devices have left of each pool's counters; worked out once per pool and state.

    Upstream keeps them by the name of the pool alone in 1.36, where pools of two drivers with one name share them.
    """

    def __init__(self, features: AllocatorFeatures, allocated: AllocatedState) -> None:
        self._features = features
        self._allocated = allocated
        self._left: dict[Hashable, Counted] = {}
        self._companies: dict[Hashable, dict[str, Company]] = {}

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

    def companies(self, pool: Pool) -> dict[str, Company]:
        """By counter set, for allocated devices; no entry where nobody takes anything. Is not to be changed."""
        name = self.name_of(pool)
        known = self._companies.get(name)
        if known is None:
            known = self._companies[name] = {}
            for found in (*pool.devices, *pool.elsewhere):
                if self._allocated.has(found.id):
                    for used in found.device.consumes_counters:
                        known[used.counter_set] = _joined(
                            known.get(used.counter_set, _NO_GROUP), frozenset(used.compatibility_groups)
                        )
        return known

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

    def __init__(self, free: FreeCounters, features: AllocatorFeatures) -> None:
        self._free = free
        self._has_groups = features.compatibility_groups
        self._taken: dict[Hashable, Counted] = {}
        self._companies: dict[tuple[Hashable, str], list[Company]] = {}
        """By pool and counter set: the company after each device that was taken."""

    def take(self, found: PoolDevice) -> bool:
        """Count a device; nothing is counted if a counter of its pool is not enough, or if its company is wrong.

        Whether it was counted.
        """
        if self._has_groups and not self._join(found):
            return False
        taken = self._taken.setdefault(self._free.name_of(found.pool), {})
        _add(taken, consumed_by(found), 1)
        if any(left < taken.get(key, 0) for key, left in self._free.of(found.pool).items()):
            self.give_back(found)
            return False
        return True

    def give_back(self, found: PoolDevice) -> None:
        """Undo the last `take` that succeeded, which was of this device."""
        _add(self._taken[self._free.name_of(found.pool)], consumed_by(found), -1)
        if self._has_groups:
            for used in found.device.consumes_counters:
                self._companies[self._free.name_of(found.pool), used.counter_set].pop()

    def _join(self, found: PoolDevice) -> bool:
        pool = self._free.name_of(found.pool)
        joined: list[list[Company]] = []
        for used in found.device.consumes_counters:
            before = self._companies.setdefault((pool, used.counter_set), [])
            company = before[-1] if before else self._free.companies(found.pool).get(used.counter_set, _NO_GROUP)
            groups = frozenset(used.compatibility_groups)
            if not _goes_with(company, groups):
                for others in joined:
                    others.pop()
                return False
            before.append(_joined(company, groups))
            joined.append(before)
        return True


def _goes_with(company: Company, groups: frozenset[str]) -> bool:
    if company is _NO_GROUP:
        return True
    return not groups if company is None else bool(company & groups)


def _joined(company: Company, groups: frozenset[str]) -> Company:
    """Devices that should not share a set but do all the same leave what the first of them have in common."""
    if company is _NO_GROUP:
        return groups or None
    return company & groups if company is not None and groups else company


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
