"""Hard constraints: the skew that a node's domain would have, against the emptiest domain.

    matching pods in the node's domain + 1 if the pod matches its own selector - minimum over domains <= maxSkew

A domain exists where a counting node has its value: nodes that a policy leaves out neither make a domain nor lower the
minimum. With fewer domains than minDomains the minimum is 0.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.label_column import Mask
from kscheduler.framework.node_table import Codes, NodeTable, Rows
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.resource_scoring import compact
from kscheduler.framework.spread_constraint import SpreadConstraint
from kscheduler.framework.topology import TopologyCounters
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counting_rows,
)
from kscheduler.plugins.pod_topology_spread.layout import Layout

MISSING_LABEL: Final = -1
TOO_UNEVEN: Final = 1


@dataclass(frozen=True, slots=True)
class DomainCounts:
    """One constraint's domains, by number; number 0 is "the label is missing"."""

    constraint: SpreadConstraint
    is_own: bool
    """Whether the pod matches its own selector: it would count itself."""
    domain_of_row: DomainNumbers
    """Over the table's whole capacity."""
    pods: Counts
    exists: Mask
    """Whether a counting node is in the domain."""

    def codes(self, rows: Rows) -> Codes:
        """What the constraint has against the rows."""
        codes = (self.pods > self.constraint.max_skew + self._minimum() - self.is_own).astype(np.int64) * TOO_UNEVEN
        codes[0] = MISSING_LABEL
        return codes.take(self.domain_of_row[compact(rows)])

    def _minimum(self) -> int:
        domains = np.count_nonzero(self.exists)
        if not domains or domains < self.constraint.min_domains:
            return 0
        return int(np.min(self.pods, where=self.exists, initial=MAX_INT64))

    def moved(self, row: int, by: int) -> "DomainCounts":
        """The same with so many pods more in the row's domain."""
        pods = self.pods.copy()
        pods[self.domain_of_row[row]] += by
        return replace(self, pods=pods)


@dataclass(frozen=True, slots=True)
class HardSpread:
    """What PreFilter found out, per constraint."""

    counts: tuple[DomainCounts, ...]

    def codes(self, rows: Rows) -> Codes:
        """The first constraint that has an objection decides."""
        codes = self.counts[0].codes(rows)
        for more in self.counts[1:]:
            codes = np.where(codes, codes, more.codes(rows))
        return codes

    def moved(self, pod: PodInfo, other: PodInfo, nodes: NodeTable, row: int, by: int) -> "HardSpread":
        """The same as if so many like `other` were on the row besides; itself where none of them counts.

        As upstream only selectors are asked here: an empty one counts `other` (Q23), and one that terminates is
        taken away though it was not counted.
        """
        if other.namespace != pod.namespace or not all(one.domain_of_row[row] for one in self.counts):
            return self
        selecting = [one.constraint.selector.matches(other.labels) for one in self.counts]
        if not any(selecting):
            return self
        constraints = [one.constraint for one in self.counts]
        counting = counting_rows(constraints, pod, nodes, np.array([row], dtype=np.intp), None)
        return HardSpread(
            tuple(
                one.moved(row, by) if is_selected and _counts_here(mask) else one
                for one, is_selected, mask in zip(self.counts, selecting, counting, strict=True)
            )
        )


def hard_spread(layout: Layout, pod: PodInfo, counters: TopologyCounters | None) -> HardSpread:
    """Count all nodes' pods for the constraints."""
    return HardSpread(
        tuple(
            DomainCounts(
                one.constraint,
                is_own=one.constraint.selector.matches(pod.labels),
                domain_of_row=one.of_row,
                pods=one.pods(counters),
                exists=one.exists,
            )
            for one in layout.domains
        )
    )


def _counts_here(counting: Mask | None) -> bool:
    return counting is None or bool(counting[0])
