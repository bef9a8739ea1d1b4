"""The published slices, by node and by pool, and the pools that each node reaches."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, Optional

import msgspec

from kscheduler.api.devices import Device, ResourceSlice
from kscheduler.devices.ids import AllocatedState, PoolID
from kscheduler.devices.layouts import DeviceLayout, PublishedDevices, layout_of
from kscheduler.devices.pools import NodeIdentity, Pool, in_order, is_relevant, newest_of, pool_of
from kscheduler.devices.wanted import AllocatorFeatures

# Whose pools are kept; then they are worked out again.
_MAX_NODES: Final = 1 << 14


class _Reached(msgspec.Struct, frozen=True):
    """The pools of a node with these labels."""

    labels: Mapping[str, str]
    pools: list[Pool]


class SliceIndex:
    """Slices as they are at one time. A later index takes over what is still true of the one before."""

    def __init__(
        self,
        slices: Iterable[ResourceSlice],
        features: AllocatorFeatures,
        before: Optional["SliceIndex"] = None,
    ) -> None:
        self.slices = tuple(slices)
        self._features = features
        self._local: dict[str, list[ResourceSlice]] = {}
        self._shared: list[ResourceSlice] = []
        self._by_pool: dict[PoolID, list[ResourceSlice]] = {}
        for piece in self.slices:
            self._by_pool.setdefault(PoolID(piece.spec.driver, piece.spec.pool.name), []).append(piece)
            node = self._owner(piece)
            if node:
                self._local.setdefault(node, []).append(piece)
            else:
                self._shared.append(piece)
        published = Counter([id(piece.spec.devices) for piece in self.slices])
        self._published: dict[int, PublishedDevices | None] = {
            identity: None for identity, count in published.items() if count > 1
        }
        """By `id`, the devices that several slices have; what they are like is worked out when it is asked for."""
        self._reached: dict[str, _Reached] = {}
        """By node; an entry for each node that was asked about."""
        self._built: dict[PoolID, dict[tuple[int, ...], Pool | None]] = {}
        """By the slices that a node reaches, by their `id`: nodes that reach the same ones share a pool."""
        self.changed: frozenset[str] | None = None
        """The nodes that reach other devices than in the index before; `None`: perhaps all."""
        if before is not None and before._features == features:
            self._take_over(before)

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

    def layout(self, name: str, labels: Mapping[str, str], allocated: AllocatedState) -> DeviceLayout | None:
        """The node's layout; `None` if it is not plain, or no other node can have it."""
        if self._shared:
            node, features = NodeIdentity(name, labels), self._features
            for piece in self._shared:
                if is_relevant(piece, node, features):
                    return None
        local = []
        for piece in self._local.get(name, ()):
            spec = piece.spec
            published = self._like_others(spec.devices)
            if published is None or len(self._by_pool[PoolID(spec.driver, spec.pool.name)]) != 1:
                return None
            local.append((piece, published))
        return layout_of(local, allocated)

    def _like_others(self, devices: tuple[Device, ...]) -> PublishedDevices | None:
        """What the devices of a slice are like; `None` if no other slice has them."""
        identity = id(devices)
        published = self._published.get(identity)
        if published is None and identity in self._published:
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
        """What is still true of pools and nodes."""
        changed = {
            pool
            for pool in self._by_pool.keys() | before._by_pool.keys()
            if not _are_same(self._by_pool.get(pool, []), before._by_pool.get(pool, []))
        }
        self._built = {pool: built for pool, built in before._built.items() if pool not in changed}
        nodes = {
            self._owner(piece)
            for pool in changed
            for piece in (*self._by_pool.get(pool, ()), *before._by_pool.get(pool, ()))
        }
        if "" not in nodes:
            self.changed = frozenset(nodes)
            self._reached = {name: kept for name, kept in before._reached.items() if name not in nodes}


def _are_same(now: Sequence[ResourceSlice], then: Sequence[ResourceSlice]) -> bool:
    return len(now) == len(then) and all(one is other for one, other in zip(now, then, strict=True))
