"""Placements: the parts of the cluster that a pod group may be placed in as a whole.

With a topology constraint there is one for each value of a label (a rack, a zone), without one a single placement of
all nodes. A group is tried in each of them, and the placement with the most points is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo


@dataclass(frozen=True, slots=True, eq=False)
class GroupPlacement:
    """Nodes that a group may be placed on."""

    name: str
    """The value of the label; empty for all nodes."""
    rows: Rows
    """The nodes' rows: intp, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class ProposedPlacement:
    """A placement that the group fits into, with the nodes that its members would get there."""

    placement: GroupPlacement
    assignments: Sequence[tuple[PodInfo, str]]
    """Members with the names of their nodes; members that have a node already are not among them."""
