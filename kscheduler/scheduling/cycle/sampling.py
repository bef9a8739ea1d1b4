"""Sampling: stopping the search early if the setting `percentageOfNodesToScore` says so.

By default (unset or 0) kscheduler scores every node: columns make that cheap, and a sample may miss the best node. If
it is set, a search stops once that share of the nodes has been found feasible, but at least 100. The next search
starts where this one stopped, so that every node gets its turn. As in kube-scheduler, nodes of different zones are
visited in turn, so that a sample does not lie in one zone.

Limits: kube-scheduler visits nodes in parallel, so which nodes it finds last is random; here the order is exact.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import REGION, ZONE
from kscheduler.framework.nodes.node_table import NodeTable, Rows

FEWEST_TO_FIND: Final = 100


def nodes_to_find(percentage: int, count: int) -> int:
    """How many feasible nodes are enough, out of `count` candidates. 0 per cent means all."""
    if percentage == 0:
        return count
    return min(count, max(FEWEST_TO_FIND, count * percentage // 100))


class NodeSampler:
    """Remembers where the next search of a profile starts. The cycle moves it on; at first it is the first node."""

    has_order = False
    """Whether it has a rule for those with equal points (`among_equals`)."""

    def __init__(self) -> None:
        self.next_start = 0
        """How many nodes in visiting order to skip before the first that is visited."""
        self._rows: Rows | None = None
        self._order: Rows | None = None

    def visiting_order(self, nodes: NodeTable, rows: Rows) -> Rows:
        """All of `rows` (intp), from where the last search stopped, round to where it started."""
        order = self._of_all(nodes) if rows is nodes.rows() else in_turn_by_zone(nodes, rows)
        return np.roll(order, -(self.next_start % max(1, len(order))))

    def move_on(self, visited: int, count: int) -> None:
        """Start the next search behind the `visited` nodes, out of `count` nodes in the cluster."""
        self.next_start = (self.next_start + visited) % max(1, count)

    def among_equals(self, nodes: NodeTable, searched: Rows, feasible: Rows, tied: Rows) -> int:
        """The row to take of those with equal points; -1: the sampler has no rule, and hashes decide."""
        del nodes, searched, feasible, tied
        return -1

    def _of_all(self, nodes: NodeTable) -> Rows:
        """The order of all rows, kept until a node comes or goes; until then a node that changes its zone stays."""
        rows = nodes.rows()
        if self._order is None or rows is not self._rows:
            self._rows, self._order = rows, in_turn_by_zone(nodes, rows)
        return self._order


def in_turn_by_zone(nodes: NodeTable, rows: Rows) -> Rows:
    """All of `rows` (intp): one row of each zone, then the next of each, and so on."""
    regions, _ = nodes.label_values(REGION, rows)
    zones, values = nodes.label_values(ZONE, rows)
    zone = regions.astype(np.int64) * len(values) + zones
    return rows[np.lexsort((zone, _rank_within(zone)))]


def _rank_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry, how many entries of its group come before it: [7, 7, 3, 7] gives [0, 1, 0, 2]."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.searchsorted(ordered, ordered, side="left")
    rank = np.empty(len(groups), dtype=np.int64)
    rank[order] = np.arange(len(groups)) - begins
    return rank
