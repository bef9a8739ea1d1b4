"""The devices of each class on each node, as columns: how many there are, how many are taken, how many are free.

The problem: which devices are of a class is for selectors to say, and to ask them about all devices of all nodes takes
a second where there are thousands. The idea: the answers are kept by node, and a node is counted again when its slices,
its claims or the node itself have changed, in batches between which others run (`follow`).

Devices stand in groups: by class, driver, and pool where several nodes reach it (each node's own pools are one group).
There is a bound for groups, as drivers name pools freely: devices of further ones are of the group `OTHERS`. A group
without devices stays, so that a series of metrics goes to zero; when others need its place, it goes, and the nodes that
have devices of `OTHERS` are counted again.
"""

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.devices import ResourceSlice
from kscheduler.devices.counting import PoolCount
from kscheduler.devices.ids import PoolID
from kscheduler.fragments.fragmentation import OTHERS
from kscheduler.framework.cluster.devices import DeviceCounter
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.state.cache import Cache

MAX_GROUPS: Final = 64
# Nodes that are counted before others run: some hundred microseconds a node where nothing is known of its devices.
_BATCH: Final = 8
_THERE, _TAKEN, _FREE = range(3)


class DeviceGroup(NamedTuple):
    """Devices that are counted together."""

    device_class: str
    driver: str
    pool: str = ""
    """Empty: devices of nodes' own pools."""


class DeviceSums(msgspec.Struct, frozen=True):
    """The devices of a group."""

    there: int
    taken: int
    free: int
    """Neither taken nor tainted."""


NO_DEVICES: Final = DeviceSums(0, 0, 0)
_SHARED: Final = ""


class ClassDevices:
    """The columns; they are as they were when `follow` last came to its end, and newer for some nodes."""

    def __init__(self, cache: Cache, counter: Callable[[], DeviceCounter | None]) -> None:
        """`counter`: who knows the devices of nodes now."""
        self._cache, self._counter = cache, counter
        self._columns: dict[DeviceGroup, NDArray[np.int64]] = {}
        """int64 [there, taken and free; row]."""
        self._owners: dict[PoolID, set[str]] = {}
        """By pool the nodes that its slices name; `_SHARED` for a slice that names none."""
        self._stale: dict[str, None] = {}
        self._slices: Sequence[ResourceSlice] = ()
        self._by: DeviceCounter | None = None
        self._classes_seen = self._claims_seen = self._nodes_seen = -1

    @property
    def groups(self) -> tuple[DeviceGroup, ...]:
        """All that were seen, also such as have no devices any more and whose place no other has needed."""
        return tuple(sorted(self._columns))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes of these groups."""
        return tuple(dict.fromkeys(group.device_class for group in self.groups))

    def follow(self) -> Generator[None, None, None]:
        """Bring the columns up to date; others may run at each pause."""
        self._find_stale()
        yield from self._count_stale()
        if self._find_places():
            yield from self._count_stale()

    def _count_stale(self) -> Generator[None, None, None]:
        while self._stale and self._by is not None:
            batch, nodes = list(islice(self._stale, _BATCH)), self._cache.nodes
            rows = {name: row for name in batch if (row := nodes.row_of(name)) >= 0}
            found = self._by.devices_by_pool(nodes.info(row) for row in rows.values())
            for name, row in rows.items():
                self._write(row, found.get(name, ()), nodes.capacity)
            for name in batch:
                del self._stale[name]
            yield

    def reached(self, device_class: str, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """How many devices of a class each row reaches, and how many of them are taken and free: int64, like `rows`."""
        found = [self._columns[group] for group in self._columns if group.device_class == device_class]
        if not found:
            nothing = np.zeros(len(rows), dtype=np.int64)
            return nothing, nothing, nothing
        there, taken, free = np.sum([self._at(columns, rows) for columns in found], axis=0)
        return there, taken, free

    def of_group(self, group: DeviceGroup, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many devices of a group each row reaches, and how many of them are free."""
        there, _, free = self._at(self._columns[group], rows)
        return there, free

    def sums(self, group: DeviceGroup) -> DeviceSums:
        """Each device once: of a pool that several nodes reach, those of the node that reaches most."""
        rows = self._cache.nodes.rows()
        at = self._at(self._columns[group], rows)
        if group.pool and len(rows):
            at = at[:, at[_THERE].argmax(), np.newaxis]
        there, taken, free = at.sum(axis=1).tolist()
        return DeviceSums(there, taken, free)

    @staticmethod
    def _at(columns: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
        """Zeros at rows that are new since the columns were made."""
        if len(rows) and rows.max() >= columns.shape[1]:
            columns = np.pad(columns, ((0, 0), (0, int(rows.max()) + 1 - columns.shape[1])))
        return columns[:, rows]

    # --- what changes -------------------------------------------------------------------------------------------------

    def _find_stale(self) -> None:
        nodes, devices, counter = self._cache.nodes, self._cache.devices, self._counter()
        slices = devices.slices() if counter is not None else ()
        claims, changes = devices.claims, nodes.node_changes
        if not slices:
            self._forget()
            return
        is_new = counter is not self._by or devices.class_changes != self._classes_seen
        touched = {_SHARED} if is_new else set[str]()
        if slices is not self._slices:
            touched |= self._follow_slices(slices)
        pools = None if is_new else claims.pools_changed_since(self._claims_seen)
        touched |= {_SHARED} if pools is None else set[str]().union(*(self._owners.get(pool, ()) for pool in pools))
        rows = None if is_new else changes.since(self._nodes_seen)
        if rows is None or _SHARED in touched:
            self._stale |= dict.fromkeys(nodes.names(nodes.rows()))
        else:
            self._stale |= dict.fromkeys(sorted(touched))
            self._stale |= dict.fromkeys(nodes.name_of(row) for row in rows[nodes.is_live[rows]].tolist())
        self._by, self._slices, self._classes_seen = counter, slices, devices.class_changes
        self._claims_seen, self._nodes_seen = claims.revision, changes.position

    def _forget(self) -> None:
        self._by, self._slices = None, ()
        self._stale.clear()
        self._owners.clear()
        for columns in self._columns.values():
            columns.fill(0)

    def _follow_slices(self, slices: Sequence[ResourceSlice]) -> set[str]:
        """The nodes that may reach others now: those of all pools of which a slice has changed."""
        before, now = {id(each) for each in self._slices}, {id(each) for each in slices}
        changed = [each for each in slices if id(each) not in before]
        changed += [each for each in self._slices if id(each) not in now]
        pools = {_pool_of(each) for each in changed}
        touched = set[str]().union(*(self._owners.get(pool, ()) for pool in pools))
        owners: dict[PoolID, set[str]] = {}
        for each in slices:
            owners.setdefault(_pool_of(each), set()).add(each.spec.node_name or _SHARED)
        self._owners = owners
        return touched.union(*(owners.get(pool, ()) for pool in pools))

    def _find_places(self) -> bool:
        """Forget groups without devices if `OTHERS` have some; whether there is anything to count again."""
        rows = self._cache.nodes.rows()
        has_others = np.zeros(len(rows), dtype=np.bool_)
        for columns in [self._columns[group] for group in self._columns if _is_of_others(group)]:
            has_others |= self._at(columns, rows)[_THERE] > 0
        if not has_others.any():
            return False
        empty = [group for group, columns in self._columns.items() if not self._at(columns, rows)[_THERE].any()]
        if all(map(_is_of_others, empty)):
            return False
        for group in empty:
            del self._columns[group]
        self._stale |= dict.fromkeys(self._cache.nodes.names(rows[has_others]))
        return True

    def _write(self, row: int, counts: tuple[PoolCount, ...], capacity: int) -> None:
        for columns in self._columns.values():
            if row < columns.shape[1]:
                columns[:, row] = 0
        for each in counts:
            group = self._group_of(each)
            columns = self._columns[group]
            if row >= columns.shape[1]:
                columns = self._columns[group] = np.pad(columns, ((0, 0), (0, capacity - columns.shape[1])))
            columns[:, row] += (each.devices, each.taken, each.free)

    def _group_of(self, count: PoolCount) -> DeviceGroup:
        group = DeviceGroup(count.device_class, count.pool.driver, "" if count.is_of_node else count.pool.pool)
        if group not in self._columns:
            if sum(not _is_of_others(each) for each in self._columns) >= MAX_GROUPS:
                group = DeviceGroup(OTHERS, OTHERS, "" if count.is_of_node else OTHERS)
            self._columns.setdefault(group, np.zeros((3, self._cache.nodes.capacity), dtype=np.int64))
        return group


def _is_of_others(group: DeviceGroup) -> bool:
    return group.device_class == group.driver == OTHERS


def _pool_of(piece: ResourceSlice) -> PoolID:
    return PoolID(piece.spec.driver, piece.spec.pool.name)
