"""The published slices, by node and by pool, and the pools that each node reaches."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Optional, TypeVar

import msgspec

from kscheduler.api.devices import Device, ResourceSlice
from kscheduler.devices.ids import AllocatedState, PoolID
from kscheduler.devices.layouts import DeviceLayout, PublishedDevices, layout_of
from kscheduler.devices.pools import NodeIdentity, Pool, in_order, is_relevant, newest_of, pool_of
from kscheduler.devices.wanted import AllocatorFeatures

K = TypeVar("K", bound=Hashable)
# Whose pools are kept; then they are worked out again.
_MAX_NODES: Final = 1 << 14


class _Reached(msgspec.Struct, frozen=True):
    """The pools of a node with these labels."""

    labels: Mapping[str, str]
    pools: list[Pool]


class SliceIndex:
    """Slices as they are at one time. A later index takes over what is still true of the one before.

    Slices come and go one by one, between decisions, so an index costs what has changed, and copies of dicts. What has
    changed is found by identity, by operations on sets that take some ten nanoseconds for each slice.
    """

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        features: AllocatorFeatures,
        before: Optional["SliceIndex"] = None,
    ) -> None:
        self.slices = tuple(slices)
        self._features = features
        self._places = dict(zip(map(id, self.slices), range(len(self.slices)), strict=True))
        """By `id` of a slice its place in `slices`."""
        # Lists in these are replaced and never changed: an index before this one may have them, too.
        self._local: dict[str, list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        self._by_pool: dict[PoolID, list[ResourceSlice]] = {}
        self._publishers: Counter[int] = Counter()
        """By `id` of their devices the number of slices."""
        self._published: dict[int, PublishedDevices] = {}
        """By `id`, what devices are like, as far as that was asked for."""
        self._reached: dict[str, _Reached] = {}
        """By node; an entry for each node that was asked about."""
        self._built: dict[PoolID, dict[tuple[int, ...], Pool | None]] = {}
        """By the slices that a node reaches, by their `id`: nodes that reach the same ones share a pool."""
        self.changed: frozenset[str] | None = None
        """The nodes that reach other devices than in the index before; `None`: perhaps all."""
        if before is None or before._features != features or not before.slices:
            self._file(self.slices)
        else:
            self._take_over(before)

    def _file(self, slices: Iterable[ResourceSlice]) -> None:
        for piece in slices:
            self._by_pool.setdefault(_pool_id(piece), []).append(piece)
            node = self._owner(piece)
            if node:
                self._local.setdefault(node, []).append(piece)
            else:
                self._shared.append(piece)
            self._publishers[id(piece.spec.devices)] += 1

    def pools(self, name: str, labels: Mapping[str, str]) -> list[Pool]:
        """The pools that the node reaches, in the order in which they are searched."""
        known = self._reached.get(name)
        if known is not None and (known.labels is labels or known.labels == labels):
            return known.pools
        node = NodeIdentity(name, labels)
        mine = (*self._local.get(name, ()), *self._shared)
        newest = newest_of(piece for piece in mine if is_relevant(piece, node, self._features))
        found = (self._pool(pool, pieces) for pool, pieces in newest.items())
        pools = in_order(pool for pool in found if pool is not None)
        if len(self._reached) >= _MAX_NODES:
            self._reached.clear()
        self._reached[name] = _Reached(labels, pools)
        return pools

    def layout(
        self,
        name: str,
        labels: Mapping[str, str],
        allocated: AllocatedState,
        read: frozenset[str] | None = None,
    ) -> DeviceLayout | None:
        """The node's layout; `None` if it is not plain, or no other node can have it.

        `read`: the attributes that are part of it; `None`: all.
        """
        if self._shared:
            node, features = NodeIdentity(name, labels), self._features
            for piece in self._shared:
                if is_relevant(piece, node, features):
                    return None
        local = []
        for piece in self._local.get(name, ()):
            spec = piece.spec
            published = self._like_others(spec.devices, read)
            if published is None or len(self._by_pool[PoolID(spec.driver, spec.pool.name)]) != 1:
                return None
            local.append((piece, published))
        return layout_of(local, allocated, read)

    def _like_others(self, devices: tuple[Device, ...], read: frozenset[str] | None) -> PublishedDevices | None:
        """What the devices of a slice are like; `None` if no other slice can have like ones."""
        identity = id(devices)
        if read is None and self._publishers[identity] < 2:
            return None
        published = self._published.get(identity)
        if published is None:
            published = self._published[identity] = PublishedDevices.of(devices)
        return published

    def _pool(self, name: PoolID, pieces: Sequence[ResourceSlice]) -> Pool | None:
        built = self._built.setdefault(name, {})
        key = tuple(map(id, pieces))
        if key not in built:
            built[key] = pool_of(name, pieces, self._by_pool[name], self._features)
        return built[key]

    @cached_property
    def pool_states(self) -> Mapping[tuple[str, str], int]:
        """How many pools there are by (driver, state): `incomplete` while not all slices of the newest generation are
        published, otherwise `complete`.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for pool, pieces in self._by_pool.items():
            newest = max(piece.spec.pool.generation for piece in pieces)
            published = [piece.spec.pool for piece in pieces if piece.spec.pool.generation == newest]
            is_whole = len(published) == published[0].resource_slice_count
            counts[pool.driver, "complete" if is_whole else "incomplete"] += 1
        return counts

    def owner_of_pool(self, pool: PoolID) -> str | None:
        """The one node that reaches the pool; empty if nobody does, `None` if it may be several."""
        owners = {self._owner(piece) for piece in self._by_pool.get(pool, ())}
        if not owners:
            return ""
        return owners.pop() or None if len(owners) == 1 else None

    def _owner(self, piece: ResourceSlice) -> str:
        """The only node that may find the slice relevant; empty if it may be any."""
        if piece.spec.shared_counters and not self._features.counter_sets_choose_nodes:
            return ""
        return piece.spec.node_name or ""

    def _take_over(self, before: "SliceIndex") -> None:
        """What is still true of slices, pools and nodes."""
        gone = [before.slices[before._places[key]] for key in before._places.keys() - self._places]
        new = [
            self.slices[place] for place in sorted([self._places[key] for key in self._places.keys() - before._places])
        ]
        gone_ids = set(map(id, gone))

        def without_gone(pieces: Iterable[ResourceSlice]) -> list[ResourceSlice]:
            return [piece for piece in pieces if id(piece) not in gone_ids]

        pools = {_pool_id(piece) for piece in (*gone, *new)}
        owners = {self._owner(piece) for piece in (*gone, *new)}
        self._by_pool, self._local, self._shared = dict(before._by_pool), dict(before._local), before._shared
        self._by_pool.update((pool, without_gone(before._by_pool.get(pool, ()))) for pool in pools)
        self._local.update((owner, without_gone(before._local.get(owner, ()))) for owner in owners if owner)
        if "" in owners:
            self._shared = without_gone(before._shared)
        self._publishers = before._publishers.copy()
        self._file(new)

        # Of what has changed, the slices are in the order in which they are in `slices`, as if all had been filed anew.
        def in_place(piece: ResourceSlice) -> int:
            return self._places[id(piece)]

        for pool in pools:
            _settle(self._by_pool, pool, in_place)
        for owner in owners - {""}:
            _settle(self._local, owner, in_place)
        if "" in owners:
            self._shared.sort(key=in_place)
        self._publishers.subtract([id(piece.spec.devices) for piece in gone])
        self._published = dict(before._published)
        for identity in {id(piece.spec.devices) for piece in gone}:
            if self._publishers[identity] <= 0:
                del self._publishers[identity]
                self._published.pop(identity, None)

        self._built = dict(before._built)
        for pool in pools:
            self._built.pop(pool, None)
        nodes = {
            self._owner(piece)
            for pool in pools
            for piece in (*self._by_pool.get(pool, ()), *before._by_pool.get(pool, ()))
        }
        if "" not in nodes:
            self.changed = frozenset(nodes)
            self._reached = dict(before._reached)
            for node in nodes:
                self._reached.pop(node, None)


def _pool_id(piece: ResourceSlice) -> PoolID:
    return PoolID(piece.spec.driver, piece.spec.pool.name)


def _settle(slices: dict[K, list[ResourceSlice]], key: K, in_place: Callable[[ResourceSlice], int]) -> None:
    """Order the slices under a key; without any, forget it."""
    if slices[key]:
        slices[key].sort(key=in_place)
    else:
        del slices[key]
