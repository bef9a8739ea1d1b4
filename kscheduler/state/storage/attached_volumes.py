"""The number of attached CSI volumes per node, in columns by driver.

A volume counts as attached if a pod on the node uses it or a VolumeAttachment names it. The volume of a pod's claim
depends on claim, volume, class and the node's CSINode, so there is no incremental counting: a node that any change may
affect is marked, and recounted on the next query, or before it between decisions.

Most changes are a new pod, or a claim that is bound, and most nodes are far from their limit. For those an upper bound
of the additional volumes is enough: the node's room is lowered by that bound, and the node is recounted only for a
query that needs the exact number.

    mark           anything may have changed, the limit and whether it can be counted included
    may_have_more  the limit is as it was, and so is whether it can be counted
    recounting     between decisions: after a start all nodes are marked, and the first query would count them at once
"""

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.volumes import UNLIMITED_ROOM, CountColumn
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.state.storage.attachable import NO_LIMITS

NO_LIMIT: Final = -1
# The number of pending marks, besides two per node, at which all marked nodes are recounted.
_MAX_UNASKED: Final = 256
# At most so many drivers get columns before a pod asks for them,
_MOST_AHEAD: Final = 8
# and only while no more nodes than this have been counted: columns are made of all counted nodes in one step.
_FEW_NODES: Final = 256
NO_VOLUMES: Final[Mapping[str, str]] = MappingProxyType({})


class NodeAttachments(NamedTuple):
    """The volumes attached to a node. A tuple for speed, because every change on a node creates one."""

    by_pods: Mapping[str, str] = NO_VOLUMES
    """Unique name to driver, of the volumes that pods use."""
    unused: Mapping[str, str] = NO_VOLUMES
    """Unique name to driver, of attached volumes that no pod uses."""
    limits: Mapping[str, int] = NO_LIMITS
    """By driver; a driver without an entry has no limit."""
    problem: str = ""
    """Why the volumes cannot be counted."""

    def of(self, driver: str) -> int:
        """The number of a driver's volumes."""
        if not self.by_pods and not self.unused:
            return 0
        drivers = *self.by_pods.values(), *self.unused.values()
        return drivers.count(driver)


_NOTHING: Final = NodeAttachments()


class _DriverColumns:
    """A driver's numbers, by row."""

    def __init__(self, driver: str, capacity: int) -> None:
        self.driver = driver
        self.attached: NDArray[np.int64] = np.zeros(capacity, dtype=np.int64)
        self.limits: NDArray[np.int64] = np.full(capacity, NO_LIMIT, dtype=np.int64)
        self.room: NDArray[np.int64] = np.full(capacity, UNLIMITED_ROOM, dtype=np.int64)
        """The limit less the upper bound of attached volumes."""
        self.least_room = UNLIMITED_ROOM
        """A lower bound of `room` over all rows."""

    def grow(self, capacity: int) -> None:
        """Make capacity for more rows."""
        more = capacity - len(self.attached)
        self.attached = np.pad(self.attached, (0, more))
        self.limits = np.pad(self.limits, (0, more), constant_values=NO_LIMIT)
        self.room = np.pad(self.room, (0, more), constant_values=UNLIMITED_ROOM)

    def show(self, row: int, found: NodeAttachments) -> None:
        """Set the row from the node's exact attachments."""
        attached, limit = found.of(self.driver), found.limits.get(self.driver, NO_LIMIT)
        self.attached[row] = attached
        self.limits[row] = limit
        self._set_room(row, limit - attached if limit >= 0 else UNLIMITED_ROOM)

    def lower(self, row: int, volumes: int) -> None:
        """Lower the row's room by volumes that may have been attached."""
        self._set_room(row, self.room.item(row) - volumes)

    def _set_room(self, row: int, room: int) -> None:
        self.room[row] = room
        self.least_room = min(self.least_room, room)


class AttachedVolumes:
    """The columns, and the nodes where each volume is used."""

    def __init__(self, nodes: NodeTable, count: Callable[[str], NodeAttachments]) -> None:
        """`count` computes a node's attachments."""
        self._nodes = nodes
        self._count = count
        self._found: dict[str, NodeAttachments] = {}
        self._users: dict[str, set[str]] = {}
        self._uncountable: dict[str, str] = {}
        self._marked: set[str] = set()
        self._estimated: set[str] = set()
        """Nodes whose real room may be larger than in the columns."""
        self._columns: dict[str, _DriverColumns] = {}

    def mark(self, node_name: str) -> None:
        """Mark a node on which anything may have changed."""
        self._marked.add(node_name)
        self._make_room()

    def may_have_more(self, node_name: str, volumes: int) -> None:
        """Record that at most this number of volumes has been added on the node (volumes may also have gone)."""
        row = self._nodes.row_of(node_name)
        if row < 0:
            self.mark(node_name)
            return
        if node_name not in self._estimated:
            self._make_room()
            self._estimated.add(node_name)
        for columns in self._columns.values():
            if row < len(columns.room):  # a row beyond is new, and its node is marked
                columns.lower(row, volumes)

    def _make_room(self) -> None:
        """Recount if there are too many marks: node names come and go, and there may never be a query."""
        if len(self._marked) + len(self._estimated) > 2 * len(self._nodes) + _MAX_UNASKED:
            self._refresh()

    def recounting(self) -> Generator[None, None, None]:
        """Recount the nodes that are marked now, one between two pauses, and at first make columns of the drivers that
        limit volumes there. Everything may change in a pause. What a count raises is raised; its node stays marked.
        """
        for name in list(self._marked):
            if name not in self._marked:
                continue
            self._recount(name)
            self._marked.discard(name)
            self._estimated.discard(name)
            if len(self._found) <= _FEW_NODES:
                self._make_columns_ahead(name)
            yield

    def _make_columns_ahead(self, node_name: str) -> None:
        for driver in self._found.get(node_name, _NOTHING).limits:
            if driver not in self._columns and len(self._columns) < _MOST_AHEAD:
                self._columns_of(driver)

    def attached(self, driver: str) -> CountColumn:
        """Attached volumes of a driver: int64, an entry per row of the table."""
        return self._of(driver).attached

    def limits(self, driver: str) -> CountColumn:
        """The driver's limit: int64, an entry per row of the table; `NO_LIMIT` where there is none."""
        return self._of(driver).limits

    def room(self, driver: str) -> CountColumn:
        """Further volumes of a driver that each row takes: int64; `UNLIMITED_ROOM` where there is no limit."""
        return self._of(driver).room

    def surely_take(self, driver: str, volumes: int, rows: Rows) -> bool:
        """Whether each of the rows has room for this number of further volumes, without an exact recount."""
        columns = self._columns.get(driver)
        if columns is None or len(self._estimated) > 2 * len(self._nodes):  # deleted nodes are in it, too
            columns = self._of(driver)
        self._refresh_marked()
        if columns.least_room >= volumes:
            return True
        least = int(values_at(self._grown(columns).room, compact(rows)).min(initial=UNLIMITED_ROOM))
        if rows is self._nodes.rows():
            columns.least_room = least  # free rows do not count: a row is set again before it gets a node
        return least >= volumes

    def is_countable(self) -> bool:
        """Whether all nodes with limits can be counted; if in doubt, False."""
        self._refresh_marked()
        return not self._uncountable

    def users(self, unique_name: str) -> set[str]:
        """Nodes with a pod that uses the volume."""
        self._refresh()
        return self._users.get(unique_name, set())

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits that cannot be counted, and why."""
        self._refresh()
        return self._uncountable

    def _of(self, driver: str) -> _DriverColumns:
        self._refresh()
        return self._columns_of(driver)

    def _columns_of(self, driver: str) -> _DriverColumns:
        columns = self._columns.get(driver)
        if columns is None:
            self._marked |= self._estimated  # what is found of these nodes lacks volumes
            columns = self._columns[driver] = _DriverColumns(driver, self._nodes.capacity)
            for name, found in self._found.items():
                row = self._nodes.row_of(name)
                if row >= 0:
                    columns.show(row, found)
        return self._grown(columns)

    def _grown(self, columns: _DriverColumns) -> _DriverColumns:
        if len(columns.attached) < self._nodes.capacity:
            columns.grow(self._nodes.capacity)
        return columns

    def _refresh(self) -> None:
        if self._estimated:
            self._marked |= self._estimated
        self._refresh_marked()

    def _refresh_marked(self) -> None:
        if not self._marked:
            return
        for name in self._marked:
            self._recount(name)
        self._estimated -= self._marked
        self._marked.clear()

    def _recount(self, name: str) -> None:
        before, found = self._found.get(name, _NOTHING), self._count(name)
        if found.by_pods != before.by_pods:
            self._exchange_users(name, before.by_pods, found.by_pods)
        if found == _NOTHING:
            self._found.pop(name, None)
        else:
            self._found[name] = found
        if found.problem and found.limits:
            self._uncountable[name] = found.problem
        else:
            self._uncountable.pop(name, None)
        row = self._nodes.row_of(name)
        if row >= 0:
            for columns in self._columns.values():
                self._grown(columns).show(row, found)

    def _exchange_users(self, name: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for unique_name in before:
            if unique_name not in now:
                users = self._users[unique_name]
                users.discard(name)
                if not users:
                    del self._users[unique_name]
        for unique_name in now:
            self._users.setdefault(unique_name, set()).add(name)
