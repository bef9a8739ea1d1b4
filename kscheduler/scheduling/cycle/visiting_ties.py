"""The choice among equal nodes as kube-scheduler makes it: by the order in which it visits them.

kube-scheduler puts the points of all feasible nodes, in visiting order, into a binary heap, and takes the top.
Nothing is drawn at random, unless extenders give points (`Randomizer` in `schedule_one.go`): the heap's shape decides
among equals. The top of a heap made from an array prefers, at each place, the entry itself, then its left half, then
its right half:

          0             places of five nodes in visiting order; the first of the tied ones in the order
        1   2           0, 1, 3, 4, 2 (a walk from the top, left before right) is chosen
       3 4

Pod groups need this: where one member goes decides where the next ones fit, and so whether kscheduler and
kube-scheduler place the same gang in the same way. A pod by itself may go to any of the equal nodes (`ties`).

Limits: kube-scheduler visits nodes in parallel, so two neighbours in its order may change places; from 100 nodes on
it looks at a part of the nodes only. There the hashes decide.
"""

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import REGION, ZONE
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.scheduling.cycle.sampling import FEWEST_TO_FIND, NodeSampler


class TieBreakingSampler(NodeSampler):
    """A sampler that also says which of equal nodes is taken."""

    has_order = True

    # Kept for one state of the nodes: by row its place in the order of all of them. A placement of few nodes in a large
    # cluster would cost a walk over all of them for each member.
    _turns: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
    _nodes: NodeTable | None = None
    _version = -1

    def among_equals(self, nodes: NodeTable, searched: Rows, feasible: Rows, tied: Rows) -> int:
        """The row to take of the `tied` ones (intp, at least one), which are among the `feasible`; -1: no rule.

        `searched`: the rows of the placement, or all. A placement keeps the order that all nodes have.
        """
        if len(searched) >= FEWEST_TO_FIND:
            return -1
        if nodes is not self._nodes or nodes.node_columns_version != self._version:
            self._nodes, self._version = nodes, nodes.node_columns_version
            self._turns = np.zeros(nodes.capacity, dtype=np.intp)
            self._turns[_in_turn(nodes)] = np.arange(len(nodes))
        order: list[int] = searched[np.argsort(self._turns[searched])].tolist()
        start = self.next_start % max(1, len(order))
        is_feasible = set(feasible.tolist())
        visited = [row for row in (*order[start:], *order[:start]) if row in is_feasible]
        place_of = {row: place for place, row in enumerate(visited)}
        rows: list[int] = tied.tolist()
        return min(rows, key=lambda row: _walk(place_of[row]))


def _in_turn(nodes: NodeTable) -> list[int]:
    """All rows: the first of each zone, then the second of each; zones in the order of their first nodes."""
    zones: dict[tuple[str, str], list[int]] = {}
    for row in nodes.rows().tolist():
        node = nodes.info(row).node
        labels = node.metadata.labels if node is not None else {}
        zones.setdefault((labels.get(REGION, ""), labels.get(ZONE, "")), []).append(row)
    longest = max(map(len, zones.values()), default=0)
    return [rows[turn] for turn in range(longest) for rows in zones.values() if turn < len(rows)]


def _walk(place: int) -> str:
    """Sorts as the walk from the heap's top: the path to a place, a digit per level. 0 is "", 1 is "0", 4 is "01"."""
    return bin(place + 1)[3:]
