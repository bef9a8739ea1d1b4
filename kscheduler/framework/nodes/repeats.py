"""What an in-tree plugin says of a pod that holds for pods like it: a cycle of such a pod does not ask again.

Pods are alike if namespace, spec and owners are equal, and the same labels are set. Values of labels may differ where
no selector in play reads them: each pod of an Indexed Job has its index as a label, and nothing selects pods by it.

A plugin tells by methods that only in-tree plugins have:

    skips_while(pod)        the conditions under which PreFilter and PreScore skip such pods
    by_bucket(pod, nodes)   what tells rows apart for such pods (`BucketJudge`)
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.change_count import ChangeCount
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo


class Conditions(msgspec.Struct, frozen=True):
    """Under what an answer holds for the next pod that is like this one."""

    counts: tuple[ChangeCount, ...] = ()
    """None of these has changed."""
    labels: frozenset[str] = frozenset()
    """The pods have the same values of these labels."""


class NotByBucketError(Exception):
    """Rows must be judged one by one: there would be too many buckets, or rows of a bucket would differ."""


class BucketJudge(Protocol):
    """Judges rows by bucket: rows that the plugin cannot tell apart, such as those of a zone with two matching pods.

    A bucket is a number, from which the judge knows the domains and the counts. It reads the current counts, so it is
    valid until a node changes.
    """

    @property
    def conditions(self) -> Conditions:
        """Under what it judges other pods."""
        ...

    @property
    def is_filtering(self) -> bool:
        """Whether it rejects rows at all; if not, PreFilter skips the pod. Of the pod that `points` was called for."""
        ...

    @property
    def needs_rows(self) -> bool:
        """Whether `points` needs a row of each bucket."""
        ...

    @property
    def most(self) -> int:
        """Buckets are below this number."""
        ...

    def holds_for(self, pod: PodInfo, nodes: NodeTable) -> bool:
        """Whether it still judges this pod, which meets the conditions. If so, the other methods are about this pod."""
        ...

    def bucket_of(self, row: int) -> int:
        """The row's bucket; -1 if it has none, and the rows must be judged one by one."""
        ...

    def buckets_of(self, rows: Rows) -> NDArray[np.intp] | None:
        """The rows' buckets; `None` if one has none."""
        ...

    def points(self, sizes: Mapping[int, int], rows: Mapping[int, int]) -> dict[int, int]:
        """The normalised points of each bucket that passes, 0 to 100.

        `sizes`: how many rows each bucket has. `rows`: one of them, if `needs_rows`.
        """
        ...
