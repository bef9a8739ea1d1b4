"""Which pods are where, counted ahead of time: what spread and inter-pod affinity ask.

A walk over all pods in a cycle would cost milliseconds. So the state keeps, for every question that some pod asks, a
column with the number of matching pods per row, and for the terms that pods on nodes hold against (or for) others, a
column with the number of holders per row. A plugin sums a column over topology domains with one `bincount`.

All arrays have one entry per row of the `NodeTable` (its capacity), are kept up to date in place and must not be
written or kept beyond the cycle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.pod_match import PodMatch

CountColumn = NDArray[np.int64]
"""One number per row of the table."""


@dataclass(frozen=True, slots=True)
class HeldTerm:
    """A term that pods on nodes hold and that selects the pod asked about."""

    topology_key: str
    weight: int
    """1 for required terms; the preferred terms' own weight, negative for anti-affinity."""
    holders: CountColumn
    """How many pods on each row hold it."""
    match: PodMatch
    """Whom it selects; with key and weight it tells terms apart."""


@dataclass(frozen=True, slots=True)
class DomainSums:
    """A column summed over the values of a label, and kept so while pods come and go. Not to be written by readers."""

    numbers: NDArray[np.int32]
    """Per row the number of its domain; 0 is "no such label". A view of the table's own."""
    sums: NDArray[np.int64]
    """Per domain, no label included."""

    def count(self, row: int, change: int) -> None:
        """The owner's: so many more on the row."""
        number = self.numbers.item(row)
        if number < len(self.sums):  # if not, a node has got another label, and the sums will be made anew
            self.sums[number] += change


class TopologyCounters(Protocol):
    """The counts. A question that is asked for the first time is answered by a walk, and from then on kept."""

    def matching(self, match: PodMatch) -> CountColumn:
        """How many pods on each row match."""
        ...

    def by_domain(self, column: CountColumn, key: str, nodes: NodeTable) -> DomainSums | None:
        """One of the counters' columns summed over a label of the nodes; `None` where they do not know the column."""
        ...

    def selects(self, match: PodMatch, pod: Pod, *, held: bool = False) -> bool:
        """Whether this pod is one of the set, wherever it is; asks nothing of the counts.

        `held`: the set is that of a term that a pod on a node holds. Towards those, a pod of a namespace that nobody
        knows (yet) is one of a namespace without labels, as upstream.
        """
        ...

    def required_anti_affinity(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Required anti-affinity terms of pods on nodes that select this pod (its namespace and labels)."""
        ...

    def required_affinity(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Required affinity terms of pods on nodes that select this pod: for `hardPodAffinityWeight`."""
        ...

    def preferred(self, pod: PodInfo) -> Sequence[HeldTerm]:
        """Preferred terms of pods on nodes, affinity and anti-affinity, that select this pod."""
        ...


__all__ = ["CountColumn", "DomainSums", "HeldTerm", "PodMatch", "TopologyCounters"]
