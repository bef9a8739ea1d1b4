"""Pools: the devices of one driver and pool that a node reaches, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from kscheduler.api.core import NodeSelector
from kscheduler.api.devices import CounterSet, Device, ResourceSlice
from kscheduler.api.selectors import NodeTerm, parse_node_term
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.devices.ids import DeviceID, PoolID
from kscheduler.devices.wanted import AllocatorFeatures


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """A device in its place."""

    id: DeviceID
    device: Device
    slice: ResourceSlice
    pool: "Pool" = field(repr=False)


@dataclass(slots=True)
class Pool:
    """A pool as one node sees it."""

    id: PoolID
    is_incomplete: bool = False
    """Some slices are not published yet."""
    is_invalid: bool = False
    devices: Sequence[PoolDevice] = ()
    """Of the slices that are for the node, in the order of slices' names."""
    elsewhere: Sequence[PoolDevice] = ()
    """Devices of the pool that the node does not reach; they share its counters."""
    counter_sets: Mapping[str, CounterSet] = field(default_factory=dict)
    has_conditions: bool = False
    """Some device must be made ready after its allocation."""
    consumes_counters: bool | None = field(default=None, repr=False, compare=False)
    """Whether some device does; `None` until a search asks."""
    has_unreadable: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    """By attribute, as far as constraints have asked: whether some device has a value that they cannot read."""

    @property
    def is_usable(self) -> bool:
        """Whether its devices may be allocated."""
        return not (self.is_incomplete or self.is_invalid)


class NodeIdentity(msgspec.Struct, frozen=True):
    """What selectors read of a node."""

    name: str
    labels: Mapping[str, str]


def reaches(node: NodeIdentity, name: str | None, selector: NodeSelector | None, *, all_nodes: bool | None) -> bool:
    """Whether a slice or device with this choice of nodes is for the node."""
    if name:
        return name == node.name
    if all_nodes:
        return True
    if selector is None:
        return False
    return any(term.matches(node.labels, node.name) for term in _terms(selector))


def is_relevant(piece: ResourceSlice, node: NodeIdentity, features: AllocatorFeatures) -> bool:
    """Whether the slice is for the node, or has a device that is."""
    spec = piece.spec
    if not features.partitionable_devices and (spec.per_device_node_selection is not None or spec.shared_counters):
        return False
    if features.ignores_compatibility_groups and has_groups(piece):
        return False
    if spec.shared_counters and not features.counter_sets_choose_nodes:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return reaches(node, spec.node_name, spec.node_selector, all_nodes=spec.all_nodes)
    if not spec.per_device_node_selection:
        return False
    return any(reaches(node, each.node_name, each.node_selector, all_nodes=each.all_nodes) for each in spec.devices)


def has_groups(piece: ResourceSlice) -> bool:
    """Whether a device of the slice has compatibility groups."""
    return any(used.compatibility_groups for device in piece.spec.devices for used in device.consumes_counters)


def newest_of(relevant: Iterable[ResourceSlice]) -> dict[PoolID, list[ResourceSlice]]:
    """The slices of each pool, without those of older generations."""
    newest: dict[PoolID, list[ResourceSlice]] = {}
    for piece in relevant:
        pool = PoolID(piece.spec.driver, piece.spec.pool.name)
        known = newest.get(pool)
        if known is None or piece.spec.pool.generation > known[0].spec.pool.generation:
            newest[pool] = [piece]
        elif piece.spec.pool.generation == known[0].spec.pool.generation:
            known.append(piece)
    return newest


def in_order(pools: Iterable[Pool]) -> list[Pool]:
    """The pools in the order in which they are searched: those with devices to be made ready come last."""
    return sorted(pools, key=lambda pool: (pool.has_conditions, pool.id))


def pool_of(
    name: PoolID, pieces: Sequence[ResourceSlice], everywhere: Sequence[ResourceSlice], features: AllocatorFeatures
) -> Pool | None:
    """The pool of these slices, or `None` if another node has a newer generation.

    `everywhere`: all slices of the pool.
    """
    generation, wanted = pieces[0].spec.pool.generation, pieces[0].spec.pool.resource_slice_count
    whole: Sequence[ResourceSlice] = ()
    if len(pieces) != wanted:
        if any(piece.spec.pool.generation > generation for piece in everywhere):
            return None
        whole = [piece for piece in everywhere if piece.spec.pool.generation == generation]
        if features.ignores_compatibility_groups:
            whole = [piece for piece in whole if not has_groups(piece)]
        if len(whole) != wanted:
            return Pool(name, is_incomplete=True)
    return _built(name, pieces, whole, features)


def _built(
    name: PoolID, pieces: Sequence[ResourceSlice], whole: Sequence[ResourceSlice], features: AllocatorFeatures
) -> Pool:
    pieces = sorted(pieces, key=lambda piece: piece.metadata.name)
    here = {piece.metadata.name for piece in pieces}
    others = [piece for piece in whole if piece.metadata.name not in here]
    pool = Pool(name)
    if features.partitionable_devices:
        counting = [piece for piece in (*pieces, *others) if piece.spec.shared_counters]
        pieces = [piece for piece in pieces if not piece.spec.shared_counters]
        others = [piece for piece in others if not piece.spec.shared_counters]
        sets = [each for piece in counting for each in piece.spec.shared_counters]
        pool.counter_sets = {each.name: each for each in sets}
        pool.is_invalid = len(pool.counter_sets) < len(sets)
    pool.devices, pool.elsewhere = _devices(pieces, pool), _devices(others, pool)
    names = [each.id.device for each in pool.devices]
    pool.is_invalid = pool.is_invalid or len(set(names)) < len(names)
    if features.partitionable_devices and not pool.is_invalid:
        pool.is_invalid = not all(_has_its_counters(each.device, pool) for each in (*pool.devices, *pool.elsewhere))
    if pool.is_invalid:
        pool.devices = pool.elsewhere = ()
    pool.has_conditions = any(each.device.binding_conditions for each in pool.devices)
    return pool


def _devices(pieces: Iterable[ResourceSlice], pool: Pool) -> list[PoolDevice]:
    return [
        PoolDevice(DeviceID(*pool.id, device.name), device, piece, pool)
        for piece in pieces
        for device in piece.spec.devices
    ]


def _has_its_counters(device: Device, pool: Pool) -> bool:
    for used in device.consumes_counters:
        known = pool.counter_sets.get(used.counter_set)
        if known is None or not used.counters.keys() <= known.counters.keys():
            return False
    return True


_parsed: RecentlyUsed[NodeSelector, tuple[NodeTerm, ...]] = RecentlyUsedByWeight(
    1024, 2 * 2**20, lambda selector, _: weight_of(selector)
)


def _terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    terms = _parsed.use(selector)
    if terms is None:
        terms = _parsed[selector] = tuple(map(parse_node_term, selector.node_selector_terms))
    return terms
