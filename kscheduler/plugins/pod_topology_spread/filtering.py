"""Hard constraints: the skew that a node's domain would have, compared with the emptiest domain.

    matching pods in the node's domain + 1 if the pod matches its own selector - minimum over domains <= maxSkew

A domain exists if a counting node has its value: nodes that a policy excludes neither make a domain nor lower the
minimum. With fewer domains than minDomains the minimum is 0.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from kscheduler.api.quantity import MAX_INT64
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods, RowCounts
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counting_rows,
    rows_with_all_keys,
)
from kscheduler.plugins.pod_topology_spread.layout import Layout

MISSING_LABEL: Final = -1
TOO_UNEVEN: Final = 1


class ConstraintCounts(msgspec.Struct, frozen=True):
    """One constraint's domains, by number; number 0 is "the label is missing"."""

    constraint: SpreadConstraint
    is_own: bool
    """Whether the pod matches its own selector: it would count itself."""
    domain_of_row: DomainNumbers
    """[capacity]"""
    pods: Counts
    """[domains]"""
    exists: Mask
    """Whether a counting node is in the domain, [domains]."""
    existing: Rows
    """The numbers of the domains that exist, ascending."""
    is_everywhere: bool
    """Whether all live rows have the label."""
    by_row: RowCounts | None = None
    """int64 [capacity]: added to the pods of the row's domain, for that row only; `None` adds nothing."""

    def codes(self, rows: Rows) -> Codes | None:
        """The constraint's verdicts, int64 [rows]: `MISSING_LABEL`, `TOO_UNEVEN` or 0; `None` if no row is rejected."""
        if self.by_row is not None:
            return self._codes_by_row(self.by_row[rows], self.domain_of_row[rows])
        is_too_full = self.pods > self.constraint.max_skew + self._minimum() - self.is_own
        if self.is_everywhere and not np.count_nonzero(is_too_full):
            return None
        codes = is_too_full.astype(np.int64)
        codes *= TOO_UNEVEN
        codes[0] = MISSING_LABEL
        return codes.take(values_at(self.domain_of_row, compact(rows)))

    def seen_from(self, rows: Rows) -> tuple[Counts, Counts]:
        """The pods of each row's domain, and the minimum over domains as the row sees it: both int64 [rows].

        All rows must have the label.
        """
        domains = self.domain_of_row[rows]
        if self.by_row is None:
            return self.pods[domains], np.full(len(rows), self._minimum(), dtype=np.int64)
        pods = self.pods[domains] + self.by_row[rows]
        return pods, self._minimum_beside(domains, pods)

    def _minimum(self) -> int:
        domains = len(self.existing)
        if not domains or domains < self.constraint.min_domains:
            return 0
        return int(self.pods.take(self.existing).min())

    def _codes_by_row(self, moved: Counts, domains: DomainNumbers) -> Codes:
        pods = self.pods[domains] + moved
        limit = self.constraint.max_skew + self._minimum_beside(domains, pods) - self.is_own
        codes = (pods > limit).astype(np.int64) * TOO_UNEVEN
        codes[domains == 0] = MISSING_LABEL
        return codes

    def _minimum_beside(self, domains: DomainNumbers, pods: Counts) -> Counts:
        """The minimum over domains as each row sees it, where `pods` is the count of the row's own domain.

        Only the row's own domain has moved pods. So the minimum of all others is that of the unmoved counts, except for
        rows of the emptiest domain, for which it is the second smallest.
        """
        existing = self.existing
        if not len(existing) or len(existing) < self.constraint.min_domains:
            return np.zeros(len(domains), dtype=np.int64)
        emptiest = existing[self.pods[existing].argmin()]
        least, other = self.pods[emptiest], self.pods[existing[existing != emptiest]].min(initial=MAX_INT64)
        seen: Counts = np.where(domains == emptiest, other, least)
        return np.where(self.exists[domains], np.minimum(seen, pods), least)

    def selects(self, other: PodInfo, pod: PodInfo) -> bool:
        """Whether the constraint counts the other pod by its namespace and labels."""
        return other.namespace == pod.namespace and self.constraint.selector.matches(other.labels)

    def moved_by_row(self, moved: MovedPods, weights: Sequence[int], without: Rows) -> "ConstraintCounts":
        """The same with pods moved on many rows; each row sees only its own moves, rows in `without` see none."""
        by_row = moved.added_to(self.by_row, weights, len(self.domain_of_row))
        if by_row is None or by_row is self.by_row:
            return self
        by_row[without] = 0
        return replace(self, by_row=by_row)

    def moved(self, row: int, by: int) -> "ConstraintCounts":
        """The same with `by` pods added to the row's domain."""
        pods = self.pods.copy()
        pods[self.domain_of_row[row]] += by
        return replace(self, pods=pods)


class HardSpread(msgspec.Struct, frozen=True):
    """What PreFilter worked out, per constraint."""

    counts: tuple[ConstraintCounts, ...]
    compares: bool
    """Whether tolerations may compare numbers."""

    def detached(self) -> "HardSpread":
        """A copy that does not change with the counters."""
        return replace(self, counts=tuple(replace(one, pods=one.pods.copy()) for one in self.counts))

    def codes(self, rows: Rows) -> Codes | None:
        """int64 [rows]: the code of the first constraint that rejects the row; `None` if no row is rejected."""
        codes: Codes | None = None
        for counts in self.counts:
            rejected = counts.codes(rows)
            if rejected is not None:
                codes = rejected if codes is None else np.where(codes, codes, rejected)
        return codes

    def moved(self, pod: PodInfo, other: PodInfo, nodes: NodeTable, row: int, by: int) -> "HardSpread":
        """The same with `by` pods like `other` added to the row; `self` where no constraint counts them.

        As upstream, only selectors decide here: an empty selector counts `other` (Q23), and a terminating pod is
        subtracted although it was never counted.
        """
        if other.namespace != pod.namespace or not all(one.domain_of_row[row] for one in self.counts):
            return self
        selecting = [one.constraint.selector.matches(other.labels) for one in self.counts]
        if not any(selecting):
            return self
        constraints = [one.constraint for one in self.counts]
        counting = counting_rows(constraints, pod, nodes, np.array([row], dtype=np.intp), None, compares=self.compares)
        return HardSpread(
            tuple(
                one.moved(row, by) if is_selected and _counts_here(mask) else one
                for one, is_selected, mask in zip(self.counts, selecting, counting, strict=True)
            ),
            self.compares,
        )

    def moved_by_row(self, pod: PodInfo, moved: MovedPods, nodes: NodeTable) -> "HardSpread":
        """The same with pods moved on many rows; each row sees only its own moves. As in `moved`, selectors decide."""
        selected = [[int(one.selects(kind, pod)) for kind in moved.kinds] for one in self.counts]
        if not any(map(any, selected)):
            return self
        rows = np.unique(moved.rows)
        shared = rows_with_all_keys([one.domain_of_row[rows] for one in self.counts])
        constraints = [one.constraint for one in self.counts]
        counting = counting_rows(constraints, pod, nodes, rows, shared, compares=self.compares)
        return HardSpread(
            tuple(
                one.moved_by_row(moved, weights, rows[:0] if mask is None else rows[~mask])
                for one, weights, mask in zip(self.counts, selected, counting, strict=True)
            ),
            self.compares,
        )


def hard_spread(layout: Layout, pod: PodInfo, counters: TopologyCounters | None) -> HardSpread:
    """Count all nodes' pods for the constraints."""
    return HardSpread(
        tuple(
            ConstraintCounts(
                domains.constraint,
                is_own=domains.constraint.selector.matches(pod.labels),
                domain_of_row=domains.of_row,
                pods=domains.pods(counters),
                exists=domains.exists,
                existing=domains.existing,
                is_everywhere=domains.column.is_everywhere,
            )
            for domains in layout.domains
        ),
        layout.compares,
    )


def _counts_here(counting: Mask | None) -> bool:
    return counting is None or bool(counting[0])
