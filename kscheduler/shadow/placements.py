"""Where the judged pods are, beside where we would have put each: nodes used, and how even the zones are.

Each of our choices was made in the other's cluster, as no choice of ours is carried out. So the sums say how the
policies differ choice by choice; they are no forecast of a cluster in which we alone decide (`kscheduler simulate`).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kscheduler.api.well_known import ZONE
from kscheduler.framework.nodes.node_table import NodeTable

# Pods that are compared at a time; further ones are counted as left out.
MAX_PODS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Spread:
    """How the judged pods lie."""

    nodes_used: int
    by_zone: Mapping[str, int]
    """Pods by zone; nodes without a zone are in "" together."""

    @property
    def zone_skew(self) -> int:
        """Pods in the fullest zone less those in the emptiest."""
        return max(self.by_zone.values()) - min(self.by_zone.values()) if self.by_zone else 0


@dataclass(frozen=True, slots=True)
class PlacementSums:
    """Both sides."""

    pods: int
    left_out: int
    """Pods beyond the bound."""
    elsewhere: int
    """Of the pods, those that we would have put on another node."""
    unplaced: int
    """Of the pods, those for which we had no node."""
    theirs: Spread
    ours: Spread


class Placements:
    """The judged pods that are on a node."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, str]] = {}
        """By UID: the other's node, and ours."""
        self.left_out = 0

    def add(self, uid: str, theirs: str, ours: str) -> None:
        """A pod was bound."""
        if len(self._nodes) < MAX_PODS:
            self._nodes[uid] = theirs, ours
        else:
            self.left_out += 1

    def remove(self, uid: str) -> None:
        """A pod is gone; unknown ones are ignored."""
        self._nodes.pop(uid, None)

    def sums(self, nodes: NodeTable) -> PlacementSums:
        """Linear in pods and nodes."""
        zones = zones_of(nodes)
        theirs = Counter(theirs for theirs, _ in self._nodes.values())
        ours = Counter(ours for _, ours in self._nodes.values() if ours)
        return PlacementSums(
            pods=len(self._nodes),
            left_out=self.left_out,
            elsewhere=sum(1 for one, other in self._nodes.values() if other and one != other),
            unplaced=len(self._nodes) - ours.total(),
            theirs=_spread(theirs, zones),
            ours=_spread(ours, zones),
        )


def _spread(pods: Counter[str], zones: Mapping[str, str]) -> Spread:
    by_zone = Counter(dict.fromkeys(zones.values(), 0))
    for node, count in pods.items():
        by_zone[zones.get(node, "")] += count
    return Spread(len(pods), dict(sorted(by_zone.items())))


def zones_of(nodes: NodeTable) -> dict[str, str]:
    """The zone of each node by its name."""
    rows = nodes.rows()
    numbers, values = nodes.label_values(ZONE, rows)
    return {
        nodes.name_of(row): values[number] or "" for row, number in zip(rows.tolist(), numbers.tolist(), strict=True)
    }
