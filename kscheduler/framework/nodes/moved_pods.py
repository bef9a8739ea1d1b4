"""Pods of many rows that are added or removed in a dry run, each row independently of the others.

A preemption asks of each node: what if some of its own pods were gone? Pods of other nodes stay, so the count of a
domain is the count in the whole table plus what has moved on the row that is checked. The second part is a column with
a number per row (`RowCounts`), so one state serves all rows at once.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo

# A number per row of the table, for the row's own pods.
RowCounts = NDArray[np.int64]


class MovedPods(msgspec.Struct, frozen=True):
    """Pods that are added or removed. The arrays have an entry per pod."""

    rows: Rows
    """Row numbers, which may repeat."""
    kinds: Sequence[PodInfo]
    """Per kind a pod; pods of a kind have the same namespace, labels, required anti-affinity and claims."""
    kind_of: NDArray[np.intp]
    """The index of the pod's kind in `kinds`."""
    by: int
    """1: the pods are added; -1: they are removed."""

    def added_to(self, before: RowCounts | None, weights: Sequence[int], capacity: int) -> RowCounts | None:
        """The column (int64, `capacity` entries) with the moved pods counted, each by the weight of its kind.

        `weights` has an entry per kind. If all are 0, `before` is returned unchanged.
        """
        if not any(weights):
            return before
        after = np.zeros(capacity, dtype=np.int64) if before is None else before.copy()
        np.add.at(after, self.rows, self.by * np.array(weights, dtype=np.int64)[self.kind_of])
        return after
