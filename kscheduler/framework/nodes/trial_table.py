"""A table from which pods are removed and put back row by row: the dry run of a preemption.

The problem: a preemptor may look at hundreds of nodes with dozens of pods each, and a copy of every node with its pods
costs milliseconds. The idea: only the columns that depend on pods are copied; removed pods are marked in a flat array
over all rows' pods, and a NodeInfo is built only when it is needed. Limits: pods come back in any order, but at most
one per row in each call.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows, clamped
from kscheduler.framework.nodes.pod_columns import Items, Removable
from kscheduler.framework.pods.pod_info import PodInfo

# Columns that record changes: no in-tree filter reads them, so a fork makes its own on first use.
SELDOM_READ: Final = ("generation", "pods_version")


class SavedRows(msgspec.Struct, frozen=True):
    """The state of rows before a pod was put back on each of them."""

    items: Items
    rows: Rows
    sums: NDArray[np.int64]


class TrialTable(NodeTable):
    """A fork of a table without the removable pods. The original table does not change."""

    def __init__(self, nodes: NodeTable, pods: Removable) -> None:
        self.__dict__.update(vars(nodes))
        for name in SELDOM_READ:
            self.__dict__.pop(name, None)
        self._beneath = nodes
        self.pod_count = nodes.pod_count.copy()
        self._sums = np.concatenate([nodes.requested, nodes.nonzero_requested])
        self.requested, self.nonzero_requested = self._sums[:-2], self._sums[-2:]
        self._pods = pods
        self.is_out: Mask = np.ones(len(pods), dtype=np.bool_)
        """Per removable pod whether it is removed."""
        self._shown: frozenset[int] = frozenset()
        """Rows whose infos already lack the removed pods."""
        if pods.with_ports:
            self.ports = nodes.ports.fork(port for item in pods.with_ports for port in pods.pod(item).host_ports)
        if len(pods.rows):
            self._take_all_out()

    # --- reading ------------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        """Make the columns of changes on first use: all rows that lack pods, or did, count as changed."""
        if name not in SELDOM_READ:
            raise AttributeError(name)
        self.__dict__.update({column: getattr(self._beneath, column).copy() for column in SELDOM_READ})
        self._changed(self._pods.rows)
        values: NDArray[np.int64] = self.__dict__[name]
        return values

    def info(self, row: int) -> NodeInfo:
        """The node without the pods that are removed now; if there are any, a new copy at each call."""
        info = super().info(row)
        removed = self._removed_from(row)
        if not removed:
            return info
        info = info.fork()
        for pod in removed:
            info.remove_pod(pod)
        return info

    def name_of(self, row: int) -> str:
        """The name of a live row's node."""
        return super().info(row).name

    def with_pods(self, added: Mapping[int, Sequence[PodInfo]]) -> NodeTable:
        """The table as it is now, with more pods on some rows."""
        fork = copy(self)
        fork.infos = list(self.infos)
        for row in added:
            fork.infos[row] = self.info(row)
        fork._shown = self._shown | added.keys()
        return NodeTable.with_pods(fork, added)

    # --- changing -----------------------------------------------------------------------------------------------------

    def put_back(self, items: Items) -> SavedRows:
        """Put pods back, at most one per row. Returns what `undo` needs."""
        pods, rows = self._pods, self._pods.row_of[items]
        before = SavedRows(items, rows, self._sums.take(rows, axis=1))
        self._sums[:, rows] = saturating(before.sums + pods.sums.take(items, axis=1))
        self.pod_count[rows] += 1
        self.is_out[items] = False
        for item in self._having_ports(items):
            self.ports.add(int(pods.row_of[item]), pods.pod(item).host_ports)
        self._changed(rows)
        return before

    def undo(self, before: SavedRows, where: Mask) -> None:
        """Remove the pods selected by `where` (bool, per item) again; no other pod may have been put back since."""
        items, rows = before.items[where], before.rows[where]
        self._sums[:, rows] = before.sums[:, where]
        self.pod_count[rows] -= 1
        self.is_out[items] = True
        for item in self._having_ports(items):
            self.ports.discard(int(self._pods.row_of[item]), self._pods.pod(item).host_ports)
        self._changed(rows)

    def _take_all_out(self) -> None:
        pods, rows = self._pods, self._pods.rows
        sums = self._sums.take(rows, axis=1)
        self._sums[:, rows] = sums - np.add.reduceat(pods.sums, pods.starts, axis=1)
        self.pod_count[rows] -= pods.counts
        if sums.max(initial=0) == MAX_INT64:  # nothing can be subtracted from a saturated sum
            for row in rows[(sums == MAX_INT64).any(axis=0)].tolist():
                self._recompute(row)
        for item in pods.with_ports:
            self.ports.discard(int(pods.row_of[item]), pods.pod(item).host_ports)
        self._changed(rows)

    def _recompute(self, row: int) -> None:
        """Set a row's sums from the node's exact sums."""
        info = self.info(row)
        self.requested[:, row] = 0
        for name, amount in info.requested.items():
            if name in self.resources:
                self.requested[self.resources[name], row] = clamped(amount)
        self.nonzero_requested[:, row] = clamped(info.nonzero_cpu), clamped(info.nonzero_memory)

    def _removed_from(self, row: int) -> list[PodInfo]:
        pods = self._pods
        at = int(np.searchsorted(pods.rows, row))
        if row in self._shown or at == len(pods.rows) or pods.rows[at] != row:
            return []
        start = int(pods.starts[at])
        stop = int(pods.starts[at + 1]) if at + 1 < len(pods.rows) else len(pods)
        return [pods.pod(item) for item in (self.is_out[start:stop].nonzero()[0] + start).tolist()]

    def _having_ports(self, items: Items) -> list[int]:
        if not self._pods.with_ports:
            return []
        return [item for item in items.tolist() if item in self._pods.with_ports]

    def _changed(self, rows: Rows) -> None:
        if "generation" not in self.__dict__:
            return
        self.last_generation += 1
        self.generation[rows] = self.last_generation
        self.pods_version[rows] += 1


def saturating(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums of two amounts in 0..2^63 - 1, same shape: sums that overflowed (negative) become 2^63 - 1."""
    return np.where(sums < 0, MAX_INT64, sums) if (sums < 0).any() else sums
