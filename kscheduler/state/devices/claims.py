"""The claim tracker: claims as decided, and the devices that they hold.

    informer shows v1 ---> pending ---------> written: v2 assumed ---> informer shows v2
                           devices taken      pod's other claims       v2 is confirmed
                                              are still being written

What readers see is the newest version that is known. Versions are compared by order: the API server's answer to a
write is newer than what the watch shows, until the watch has caught up. What a claim holds is counted once, under its
UID: its allocation as readers see it, else the pending one. Implements `framework.cluster.devices.Claims`.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.api.devices import (
    EXTENDED_RESOURCE_CLAIM,
    AllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from kscheduler.api.quantity import nano_value
from kscheduler.cel.kubernetes import wide_quantities
from kscheduler.devices.ids import AllocatedState, DeviceID, PoolID, held_by
from kscheduler.framework.cluster.devices import ClaimListener

# The devices that claims hold, added up.
#
# A device that is not shared is held or not; should two claims hold it all the same (other schedulers make mistakes),
# it is free when both have given it back. Of a shared device each share has an identity, and an amount of each
# capacity. Devices with admin access are left out: they take nothing away from others.


class AllocatedDevices:
    """Devices, shares and amounts."""

    def __init__(self) -> None:
        self.joins_names_of_devices = False
        """Whether capacities with and without the driver's domain are the same; changed only while nothing is held."""
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
        held = held_by(allocation, joins_names_of_devices=self.joins_names_of_devices)
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


_LONGEST_LOG: Final = 4096


@dataclass(slots=True)
class _Pending:
    """Devices that are chosen and not written."""

    claim: ResourceClaim
    sharers: int = 1


class ClaimTracker:
    """Claims by key, as confirmed and as assumed; pending allocations by UID."""

    def __init__(self) -> None:
        self._confirmed: dict[str, ResourceClaim] = {}
        self._assumed: dict[str, ResourceClaim] = {}
        self._pending: dict[str, _Pending] = {}
        self._allocated = AllocatedDevices()
        self._counted: dict[str, AllocationResult] = {}
        """What each claim holds, by UID."""
        self._negative: dict[str, str] = {}
        """By UID of a claim that takes less than nothing of a device, the first such amount."""
        self._seen: dict[str, ResourceClaim] = {}
        """The claims that readers see and that are allocated, by UID."""
        self._extended: dict[str, str] = {}
        """By UID of a pod, the key of the claim that was made for its extended resources."""
        self._listeners: list[ClaimListener] = []
        self.revision = 0
        """Grows with each change of what is allocated or pending."""
        self._log: deque[tuple[int, frozenset[PoolID]]] = deque(maxlen=_LONGEST_LOG)
        """The pools of each change, by its revision."""
        self.changes = 0
        """The number of changes of claims, assumed ones included."""
        self._changed_keys: deque[str] = deque(maxlen=_LONGEST_LOG)
        """The claims of the last changes."""

    def join_names(self, *, joins: bool) -> None:
        """Whether capacities with and without the driver's domain are the same from now on. By default they are not."""
        if joins == self._allocated.joins_names_of_devices:
            return
        for each in self._counted.values():
            self._allocated.remove(each)
        self._allocated.joins_names_of_devices = joins
        for each in self._counted.values():
            self._allocated.add(each)
        if self._counted:
            self.revision += 1
            self._log.append((self.revision, frozenset().union(*map(_pools, self._counted.values()))))

    # --- updated by the watch -----------------------------------------------------------------------------------------

    def add(self, claim: ResourceClaim) -> None:
        """Store a claim that the informer shows for the first time."""
        self.update(claim)

    def update(self, claim: ResourceClaim) -> None:
        """Store the informer's version. An assumption that is newer stays; one that is not newer ends."""
        key = claim.key
        before = self.get(key)
        self._confirmed[key] = claim
        assumed = self._assumed.get(key)
        if assumed is not None and (assumed.metadata.uid != claim.metadata.uid or not _is_newer(assumed, claim)):
            del self._assumed[key]
        self._changed(key, before, self.get(key))

    def delete(self, claim: ResourceClaim) -> None:
        """Remove a claim together with its assumption. What is pending stays: the pod that wants it will fail."""
        key = claim.key
        before = self.get(key)
        self._confirmed.pop(key, None)
        self._assumed.pop(key, None)
        self._changed(key, before, None)

    # --- reading ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._confirmed)

    def get(self, key: str) -> ResourceClaim | None:
        """The claim `namespace/name`: as assumed, else as the API server last showed it."""
        return self._assumed.get(key) or self._confirmed.get(key)

    def confirmed(self, key: str) -> ResourceClaim | None:
        """The claim `namespace/name` as the API server last showed it."""
        return self._confirmed.get(key)

    def for_extended_resources(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was written for the pod's extended resources, in this attempt or an earlier one."""
        key = self._extended.get(pod.metadata.uid)
        return None if key is None else self.get(key)

    def pending(self, uid: str) -> ResourceClaim | None:
        """The claim of this UID with the devices that were chosen for it and are not written yet."""
        entry = self._pending.get(uid)
        return None if entry is None else entry.claim

    def all_pending(self) -> list[tuple[str, ResourceClaim, int]]:
        """What is pending: UID, claim with its devices, and how many share them."""
        return [(uid, entry.claim, entry.sharers) for uid, entry in self._pending.items()]

    def assumed(self) -> list[ResourceClaim]:
        """The claims whose last write the watch has not shown."""
        return list(self._assumed.values())

    def pools_changed_since(self, revision: int) -> Collection[PoolID] | None:
        """The pools in which anything has been taken or given back since; `None`: too much to tell."""
        if self.revision - revision > len(self._log):
            return None
        pools: set[PoolID] = set()
        for number, changed in reversed(self._log):
            if number <= revision:
                break
            pools |= changed
        return pools

    def changed_since(self, changes: int) -> Collection[str] | None:
        """The keys of the claims that have changed since there were so many changes; `None`: too much to tell."""
        count = self.changes - changes
        return None if count > len(self._changed_keys) else dict.fromkeys(islice(reversed(self._changed_keys), count))

    def allocated(self) -> list[ResourceClaim]:
        """The claims that hold devices, by key."""
        return sorted(self._seen.values(), key=lambda claim: claim.key)

    def allocated_state(self) -> AllocatedState:
        """The devices that allocated and pending claims hold. It must not be kept across an `await`."""
        return self._allocated.state()

    def negative_amounts(self) -> str:
        """The first claim, in the order of the texts, that takes less than nothing of a device; empty without one."""
        if not self._negative:
            return ""
        others = len(self._negative) - 1
        more = f" (and {others} more claims with invalid consumed capacity)" if others else ""
        return f"{min(self._negative.values())}{more}"

    def on_change(self, listener: ClaimListener) -> Callable[[], None]:
        """Call `listener` after each change of what `get` returns; returns a function that ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    # --- deciding -----------------------------------------------------------------------------------------------------

    def assume(self, claim: ResourceClaim) -> None:
        """Let readers see this version, the API server's answer to a write.

        Raises `ValueError` if the claim is gone, or the watch has shown a newer version.
        """
        key = claim.key
        confirmed = self._confirmed.get(key)
        if confirmed is None:
            raise ValueError(f'"{key}" is gone and cannot be assumed')
        if confirmed.metadata.uid != claim.metadata.uid or _is_newer(confirmed, claim):
            stored, assumed = confirmed.metadata.resource_version, claim.metadata.resource_version
            raise ValueError(f'"{key}" is out of sync (stored: {stored}, assume: {assumed})')
        before = self.get(key)
        self._assumed[key] = claim
        self._changed(key, before, claim)

    def restore(self, key: str) -> None:
        """Let readers see what the API server last showed of the claim; nothing happens without an assumption."""
        assumed = self._assumed.pop(key, None)
        if assumed is not None:
            self._changed(key, assumed, self._confirmed.get(key))

    def signal_pending(self, uid: str, claim: ResourceClaim) -> None:
        """Count the devices of `claim.status.allocation` as taken; once more: one more sharer of the first ones.

        Nothing happens if the claim is allocated already.
        """
        entry = self._pending.get(uid)
        if entry is not None:
            entry.sharers += 1
        elif uid not in self._seen:
            self._pending[uid] = _Pending(claim)
            self._recount(uid)

    def put_pending_back(self, uid: str, claim: ResourceClaim, sharers: int) -> None:
        """As `all_pending` has told it: a claim may be written, and pending until its pod's other claims are."""
        self._pending[uid] = _Pending(claim, sharers)
        self._recount(uid)

    def remove_pending(self, uid: str, *, force: bool) -> bool:
        """Take one sharer away, or all (`force`). Returns whether the claim is no longer pending because of this."""
        entry = self._pending.get(uid)
        if entry is None:
            return False
        if not force and entry.sharers > 1:
            entry.sharers -= 1
            return False
        del self._pending[uid]
        self._recount(uid)
        return True

    # --- counting -----------------------------------------------------------------------------------------------------

    def _changed(self, key: str, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        if before is now:
            return
        self.changes += 1
        self._file(before, now)
        if before is not None and (now is None or now.metadata.uid != before.metadata.uid):
            self._see(before.metadata.uid, None)
        if now is not None:
            self._see(now.metadata.uid, now)
        self._changed_keys.append(key)
        for listener in tuple(self._listeners):
            listener(before, now)

    def _file(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        """Keep who owns the claims for extended resources."""
        if before is not None and (owner := _owner_of_extended(before)) and self._extended.get(owner) == before.key:
            del self._extended[owner]
        if now is not None and (owner := _owner_of_extended(now)):
            self._extended[owner] = now.key

    def _see(self, uid: str, now: ResourceClaim | None) -> None:
        if now is not None and now.status.allocation is not None:
            self._seen[uid] = now
        else:
            self._seen.pop(uid, None)
        self._recount(uid)

    def _recount(self, uid: str) -> None:
        """Count what the claim holds now, instead of what it held before.

        Nothing has changed for the devices where only the rest of the allocation differs: what was pending comes back
        from the API server with a timestamp.
        """
        claim = self._seen.get(uid) or self.pending(uid)
        before, now = self._counted.pop(uid, None), None if claim is None else claim.status.allocation
        if now is not None:
            self._counted[uid] = now
        self._negative.pop(uid, None)
        if claim is not None and (negative := _negative_amount(claim)):
            self._negative[uid] = negative
        if before is not now and _results(before) != _results(now):
            if before is not None:
                self._allocated.remove(before)
            if now is not None:
                self._allocated.add(now)
            self.revision += 1
            self._log.append((self.revision, _pools(before) | _pools(now)))


def _results(allocation: AllocationResult | None) -> Sequence[DeviceRequestAllocationResult]:
    """The devices of an allocation: nothing else of it is counted."""
    return () if allocation is None else allocation.devices.results


def _pools(allocation: AllocationResult | None) -> frozenset[PoolID]:
    return frozenset([PoolID(result.driver, result.pool) for result in _results(allocation)])


def _negative_amount(claim: ResourceClaim) -> str:
    """The first amount of a capacity that the claim takes and that is negative; empty without one."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        for name in sorted(result.consumed_capacity):
            text = str(result.consumed_capacity[name]).strip()
            if text.startswith("-") and nano_value(text) < 0:
                device, amount = DeviceID(result.driver, result.pool, result.device), wide_quantities.parse(text).text()
                where = f"claim {claim.key}, device {device}"
                return f'{where}: consumed capacity "{name}" must not be negative, got {amount}'
    return ""


def _owner_of_extended(claim: ResourceClaim) -> str:
    """The UID of the pod for whose extended resources the claim was made; empty for other claims."""
    meta = claim.metadata
    if not meta.annotations or meta.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    return next((owner.uid for owner in meta.owner_references if owner.controller), "")


def _is_newer(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether the API server stored `claim` after `other`. A version that is no number counts as the oldest."""
    return _number(claim) > _number(other)


def _number(claim: ResourceClaim) -> int:
    text = claim.metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() else 0
