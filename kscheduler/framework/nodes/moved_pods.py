"""Pods of many rows that are thought to come or go, each row by itself: how counts of pods are kept for a dry run.

A preemption asks of each node: what if its own pods were gone? Pods of other nodes stay, so a count over a domain is
that of the whole table and what has moved on the row that is judged. The second part is a column with a number per row
(`RowCounts`), and one state holds for all rows at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo

RowCounts = NDArray[np.int64]
"""One number per row of the table, for the row's own pods."""


@dataclass(frozen=True, slots=True)
class MovedPods:
    """One entry per pod, unless said otherwise."""

    rows: Rows
    """Any of them may come more than once."""
    kinds: Sequence[PodInfo]
    """Pods of each kind, one for all with its namespace, labels, required anti-affinity and claims."""
    kind_of: NDArray[np.intp]
    """The place of its kind in `kinds`."""
    by: int
    """1: they come; -1: they go."""

    def added_to(self, before: RowCounts | None, weights: Sequence[int], capacity: int) -> RowCounts | None:
        """The column with the moved pods counted, each as often as `weights` says of its kind."""
        if not any(weights):
            return before
        after = np.zeros(capacity, dtype=np.int64) if before is None else before.copy()
        np.add.at(after, self.rows, self.by * np.array(weights, dtype=np.int64)[self.kind_of])
        return after
