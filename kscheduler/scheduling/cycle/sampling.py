"""Not looking at every node, for those who ask for it with `percentageOfNodesToScore`.

kscheduler scores every node as long as the setting is left alone (or 0): columns make it cheap, and a sample misses the
best node. Where it is set, a search stops once that share of the nodes has been found to fit, never fewer than 100, and
the next one goes on where this one stopped, so that every node gets its turn. Nodes are visited zone by zone in turn,
as kube-scheduler does, lest a sample lie in one zone.

Limits: kube-scheduler looks at nodes in parallel, so which nodes it finds last is chance; here the order is exact.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import REGION, ZONE
from kscheduler.framework.nodes.node_table import NodeTable, Rows

FEWEST_TO_FIND: Final = 100


def nodes_to_find(percentage: int, count: int) -> int:
    """How many feasible nodes are enough, of `count` that could be. 0 per cent asks for all."""
    if percentage == 0:
        return count
    return min(count, max(FEWEST_TO_FIND, count * percentage // 100))


class NodeSampler:
    """Where the search of one profile goes on. The cycle reads and moves it; a new one begins at the first node."""

    def __init__(self) -> None:
        self.next_start = 0
        """How many nodes to pass over before the first that is looked at."""
        self._rows: Rows | None = None
        self._order: Rows | None = None

    def visiting_order(self, nodes: NodeTable, rows: Rows) -> Rows:
        """The rows from where the last search stopped, round to where it began."""
        order = self._of_all(nodes) if rows is nodes.rows() else in_turn_by_zone(nodes, rows)
        return np.roll(order, -(self.next_start % max(1, len(order))))

    def move_on(self, looked_at: int, count: int) -> None:
        """`looked_at` of the cluster's `count` nodes have had their turn."""
        self.next_start = (self.next_start + looked_at) % max(1, count)

    def _of_all(self, nodes: NodeTable) -> Rows:
        """Kept until a node comes or goes; a node that moves to another zone keeps its turn until then."""
        rows = nodes.rows()
        if self._order is None or rows is not self._rows:
            self._rows, self._order = rows, in_turn_by_zone(nodes, rows)
        return self._order


def in_turn_by_zone(nodes: NodeTable, rows: Rows) -> Rows:
    """One row of each zone, then the next of each, until none is left."""
    regions, _ = nodes.label_values(REGION, rows)
    zones, values = nodes.label_values(ZONE, rows)
    zone = regions.astype(np.int64) * len(values) + zones
    return rows[np.lexsort((zone, _place_within(zone)))]


def _place_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each entry, how many of its group come before it."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.searchsorted(ordered, ordered, side="left")
    place = np.empty(len(groups), dtype=np.int64)
    place[order] = np.arange(len(groups)) - begins
    return place
