"""Pods that are expected on rows because they are nominated there.

A thousand preemptors may be nominated at a time, and a cycle must count them on their rows. So their requests are given
as a sum per row, and a NodeInfo with them is built only when it is needed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.pod_columns import Items
from kscheduler.framework.nodes.trial_table import SELDOM_READ, saturating
from kscheduler.framework.pods.pod_info import PodInfo

# Columns that no in-tree filter reads: filters read `requested`, not the amounts that scoring presumes.
_MADE_WHEN_READ: Final = ("nonzero_requested", *SELDOM_READ)


class Arrivals(msgspec.Struct, frozen=True, eq=False):
    """Pods by row; there is at least one row, with at least one pod on each."""

    rows: Rows
    """Ascending."""
    starts: Items
    """Per row the index of its first pod."""
    counts: Items
    """Per row the number of its pods."""
    sums: NDArray[np.int64]
    """[resource, row]: the pods' requests, by the indices of `NodeTable.resources`, then cpu and memory as scoring
    presumes."""
    kinds: Items
    """Per pod the index of its kind in `all_kinds`."""
    all_kinds: Sequence[PodInfo]
    """Per kind a pod that stands for all that no selector and no count of pods can tell apart."""
    slots: Items
    """Per pod its index in `pods`; those of a row are in the order of their nominations."""
    pods: Sequence[PodInfo]
    is_exact: bool
    """Whether the sums are exact; false if an amount is huge, or of a resource that no node has."""
    any_ports: bool
    """Whether any of the pods uses host ports."""

    def on(self, place: int) -> tuple[PodInfo, ...]:
        """The pods of the row at this index of `rows`."""
        start = int(self.starts[place])
        return tuple([self.pods[slot] for slot in self.slots[start : start + int(self.counts[place])].tolist()])

    def among(self, rows: Rows) -> "Arrivals | None":
        """The arrivals on the given rows (ascending); `None` if there are none."""
        if not len(rows):
            return None
        # Search with the shorter array in the longer; `kept` are indices into `self.rows` in both cases.
        if len(rows) < len(self.rows):
            places = np.searchsorted(self.rows, rows)
            kept = places[self.rows.take(places, mode="clip") == rows]
        else:
            places = np.searchsorted(rows, self.rows)
            kept = (rows.take(places, mode="clip") == self.rows).nonzero()[0]
        if len(kept) == len(self.rows):
            return self
        return self._only(kept) if len(kept) else None

    def _only(self, kept: Items) -> "Arrivals":
        return Arrivals(
            self.rows.take(kept),
            self.starts.take(kept),
            self.counts.take(kept),
            self.sums.take(kept, axis=1),
            self.kinds,
            self.all_kinds,
            self.slots,
            self.pods,
            self.is_exact,
            self.any_ports,
        )

    def moving(self) -> MovedPods:
        """The same pods in the form that plugins which count pods take."""
        # rows with counts (2, 3): the pods' indices are starts[0]+0, starts[0]+1, starts[1]+0, starts[1]+1, starts[1]+2
        first = np.cumsum(self.counts) - self.counts
        places = np.repeat(self.starts - first, self.counts) + np.arange(int(self.counts.sum()))
        kinds, kind_of = np.unique(self.kinds[places], return_inverse=True)
        pods = tuple(self.all_kinds[kind] for kind in kinds.tolist())
        return MovedPods(np.repeat(self.rows, self.counts), pods, kind_of, 1)

    def upon(self, nodes: NodeTable) -> NodeTable:
        """The table with the pods on their rows: a fork for reading. The table itself does not change."""
        if self.is_exact and len(self.sums) == len(nodes.requested) + 2:
            return TableWithNominated(nodes, self)
        return nodes.with_pods({row: self.on(place) for place, row in enumerate(self.rows.tolist())})


class TableWithNominated(NodeTable):
    """A table with more pods on some rows. Rows keep their numbers, and the columns of nodes are shared."""

    def __init__(self, nodes: NodeTable, arrivals: Arrivals) -> None:
        self.__dict__.update(vars(nodes))
        self._beneath = nodes
        self._arrivals = arrivals
        for name in _MADE_WHEN_READ:
            self.__dict__.pop(name, None)
        rows = arrivals.rows
        self.requested = nodes.requested.copy()
        self.requested[:, rows] = saturating(nodes.requested.take(rows, axis=1) + arrivals.sums[:-2])
        self.pod_count = nodes.pod_count.copy()
        self.pod_count[rows] += arrivals.counts
        self.last_generation += 1
        self._open_ports()

    def __getattr__(self, name: str) -> NDArray[np.int64]:
        """Make a column when it is first read."""
        if name not in _MADE_WHEN_READ:
            raise AttributeError(name)
        column: NDArray[np.int64] = getattr(self._beneath, name).copy()
        rows = self._arrivals.rows
        if name == "nonzero_requested":
            column[:, rows] = saturating(column.take(rows, axis=1) + self._arrivals.sums[-2:])
        else:
            column[rows] = self.last_generation if name == "generation" else column[rows] + 1
        self.__dict__[name] = column
        return column

    def info(self, row: int) -> NodeInfo:
        """The node with the arriving pods; if there are any, a new copy at each call."""
        info = self._beneath.info(row)
        place = int(np.searchsorted(self._arrivals.rows, row))
        if place == len(self._arrivals.rows) or self._arrivals.rows[place] != row:
            return info
        info = info.fork()
        for pod in self._arrivals.on(place):
            info.add_pod(pod)
        return info

    def name_of(self, row: int) -> str:
        """The name of a live row's node."""
        return self._beneath.name_of(row)

    def with_pods(self, added: Mapping[int, Sequence[PodInfo]]) -> NodeTable:
        """The table as it is now, with more pods on some rows."""
        coming = {row: self._arrivals.on(place) for place, row in enumerate(self._arrivals.rows.tolist())}
        return self._beneath.with_pods(
            {row: (*coming.get(row, ()), *added.get(row, ())) for row in coming.keys() | added.keys()}
        )

    def _open_ports(self) -> None:
        """Add the host ports of the pods."""
        arrivals = self._arrivals
        if not arrivals.any_ports:
            return
        by_row = {row: arrivals.on(place) for place, row in enumerate(arrivals.rows.tolist())}
        self.ports = self.ports.fork(port for pods in by_row.values() for pod in pods for port in pod.host_ports)
        for row, pods in by_row.items():
            for pod in pods:
                self.ports.add(row, pod.host_ports)
