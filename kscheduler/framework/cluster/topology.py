"""Counts of pods per row, kept ready for spread and inter-pod affinity.

A walk over all pods in a cycle would cost milliseconds. So the state keeps, for every set of pods that a pod's
constraints refer to, a column with the number of matching pods per row, and for every affinity term that pods on nodes
have, a column with the number of these pods (the holders) per row. A plugin sums a column over topology domains with a
single `bincount`.

All arrays have an entry per row of the `NodeTable` (its capacity), are updated in place and must not be written or kept
beyond the cycle.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Pod
from kscheduler.change_count import ChangeCount
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo

# A number per row of the table.
CountColumn = NDArray[np.int64]


class HeldTerm(msgspec.Struct, frozen=True):
    """A term of pods on nodes (its holders) that selects the given pod."""

    topology_key: str
    weight: int
    """1 for required terms; the preferred terms' own weight, negative for anti-affinity."""
    holders: CountColumn
    """The number of holders on each row."""
    match: PodMatch
    """The pods that it selects; match, key and weight together identify the term."""
    times: int = 1
    """How many terms of these holders it stands for: where very many select a pod, those with the same key, weight and
    holders are one, and `match` is that of the first."""


class DomainSums(msgspec.Struct, frozen=True):
    """A column summed over the values of a label, and kept up to date. Readers must not write."""

    numbers: NDArray[np.int32]
    """Per row the number of its domain; 0 is "no such label". A view of the table's own column."""
    sums: NDArray[np.int64]
    """Per domain the sum, number 0 included."""

    def count(self, row: int, change: int) -> None:
        """For the owner only: add `change` pods on the row."""
        number = self.numbers.item(row)
        if number < len(self.sums):  # if not, a node has a new label value, and the sums will be recomputed
            self.sums[number] += change


class TopologyCounters(Protocol):
    """The counts. The first query for a set of pods walks over all pods; from then on the column is kept."""

    @property
    def term_changes(self) -> ChangeCount:
        """How often the set of the terms that pods on nodes have, or what they select, has changed."""
        ...

    def labels_of_terms(self, labels: Mapping[str, str]) -> frozenset[str]:
        """Those of the labels that a term of pods on nodes names, whatever the value."""
        ...

    def matching(self, match: PodMatch) -> CountColumn:
        """The number of matching pods: int64, an entry per row of the table."""
        ...

    def by_domain(self, column: CountColumn, key: str, nodes: NodeTable) -> DomainSums | None:
        """A column of these counters summed over a label of the nodes; `None` for an unknown column."""
        ...

    def selects(self, match: PodMatch, pod: Pod, *, held: bool = False) -> bool:
        """Whether the pod is in the set, wherever it is; does not use the counts.

        `held`: the set belongs to a term of a pod on a node. For these, an unknown namespace counts as one without
        labels, as upstream.
        """
        ...

    def namespace_labels(self, name: str) -> Mapping[str, str] | None:
        """The current labels of a namespace; `None` if it is unknown."""
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
