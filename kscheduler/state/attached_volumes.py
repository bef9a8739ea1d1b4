"""How many CSI volumes each node has, in columns by driver.

A node has a volume attached when one of its pods uses it, or when a VolumeAttachment says so. What stands behind a
pod's claim changes with claim, volume, class and the node's CSINode, so nothing is counted up and down: a node that any
of these may touch is marked, and counted anew when somebody asks next. Most nodes are never marked twice between two
questions.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.node_table import NodeTable
from kscheduler.framework.volumes import CountColumn

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class NodeAttachments:
    """What one node has attached."""

    by_pods: Mapping[str, str] = field(default_factory=dict)
    """Unique name to driver, of the volumes that pods use."""
    besides: Mapping[str, str] = field(default_factory=dict)
    """The same, of volumes that are attached and that no pod uses."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By driver; a driver without one has no limit."""
    problem: str = ""
    """Why it cannot be counted."""


class AttachedVolumes:
    """The columns, and who uses which volume."""

    def __init__(self, nodes: NodeTable, count: Callable[[str], NodeAttachments]) -> None:
        """`count` works out what a node has attached now."""
        self._nodes = nodes
        self._count = count
        self._found: dict[str, NodeAttachments] = {}
        self._users: dict[str, set[str]] = {}
        self._uncountable: dict[str, str] = {}
        self._marked: set[str] = set()
        self._attached: dict[str, NDArray[np.int64]] = {}
        self._limits: dict[str, NDArray[np.int64]] = {}

    def mark(self, node_name: str) -> None:
        """Something may have changed on the node."""
        self._marked.add(node_name)

    def attached(self, driver: str) -> CountColumn:
        """Attached volumes of a driver per row."""
        self._refresh()
        return self._column(self._attached, driver, 0, lambda found: _attached(found, driver))

    def limits(self, driver: str) -> CountColumn:
        """The driver's limit per row, `NO_LIMIT` where there is none."""
        self._refresh()
        return self._column(self._limits, driver, NO_LIMIT, lambda found: found.limits.get(driver, NO_LIMIT))

    def has_limits(self, node_name: str) -> bool:
        """Whether some driver has a limit on the node."""
        self._refresh()
        found = self._found.get(node_name)
        return found is not None and bool(found.limits)

    def users(self, unique_name: str) -> set[str]:
        """Nodes with a pod that uses the volume."""
        self._refresh()
        return self._users.get(unique_name, set())

    def uncountable(self) -> Mapping[str, str]:
        """Nodes with limits that cannot be counted, and why."""
        self._refresh()
        return self._uncountable

    def _column(
        self, columns: dict[str, NDArray[np.int64]], driver: str, default: int, value: Callable[[NodeAttachments], int]
    ) -> CountColumn:
        column = columns.get(driver)
        if column is None:
            column = columns[driver] = np.full(self._nodes.capacity, default, dtype=np.int64)
            for name, found in self._found.items():
                row = self._nodes.row_of(name)
                if row >= 0:
                    column[row] = value(found)
        elif len(column) < self._nodes.capacity:
            more = self._nodes.capacity - len(column)
            column = columns[driver] = np.pad(column, (0, more), constant_values=default)
        return column

    def _refresh(self) -> None:
        if not self._marked:
            return
        for name in self._marked:
            self._recount(name)
        self._marked.clear()

    def _recount(self, name: str) -> None:
        before, found = self._found.get(name, NodeAttachments()), self._count(name)
        for unique_name in before.by_pods.keys() - found.by_pods.keys():
            users = self._users[unique_name]
            users.discard(name)
            if not users:
                del self._users[unique_name]
        for unique_name in found.by_pods:
            self._users.setdefault(unique_name, set()).add(name)
        self._found[name] = found
        self._uncountable.pop(name, None)
        if found.problem and found.limits:
            self._uncountable[name] = found.problem
        self._show(self._nodes.row_of(name), found)
        if found == NodeAttachments():
            del self._found[name]

    def _show(self, row: int, found: NodeAttachments) -> None:
        if row < 0:
            return
        for driver in self._attached:
            self._column(self._attached, driver, 0, lambda _: 0)[row] = _attached(found, driver)
        for driver in self._limits:
            self._column(self._limits, driver, NO_LIMIT, lambda _: 0)[row] = found.limits.get(driver, NO_LIMIT)


def _attached(found: NodeAttachments, driver: str) -> int:
    counts = Counter(found.by_pods.values())
    return counts[driver] + sum(one == driver for one in found.besides.values())
