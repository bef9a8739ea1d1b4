"""The best rows of a class whose pods a live plugin judges, kept from one pod to the next by bucket.

A plugin that counts pods (spread) gives other points to all rows once a pod is placed, so the leaders of all rows would
have to be found anew for each pod. But such a plugin does not tell apart the rows of a bucket (`BucketJudge`): among
these the columns alone decide, and there are a dozen buckets. So leaders are kept per bucket, the row of the pod before
moves from its bucket to the next one, and the plugin gives points to buckets instead of nodes.

    rows that changed --> their buckets --judge: which pass, and points--> the best bucket's leaders

Limits: a single live plugin; a few changed rows between two pods of a run; a few dozen buckets. Else the cycle judges
the rows one by one.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.nodes.repeats import BucketJudge
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.classes.leaders import Hashes, Leaders

# Rows changed since the last pod of the run.
_FEW_ROWS: Final = 16
_MOST_BUCKETS: Final = 64
_NO_BUCKET: Final = -1


@dataclass(slots=True)
class BestOfBuckets:
    """The feasible rows, and those with the most points. Shared: do not write, and do not keep."""

    feasible: Rows
    rows: Rows
    hashes: Hashes
    points: int
    is_filtering: bool
    """Whether the plugin has judged which rows are feasible; if not, it skipped the pod."""


class ByBucket(Protocol):
    """A plugin that tells rows apart by bucket."""

    name: str

    def by_bucket(self, pod: PodInfo, nodes: NodeTable) -> BucketJudge | None:
        """The judge of pods like this one; `None` where rows must be judged one by one."""
        ...


class JoinedColumns(Protocol):
    """What is read of a class that is up to date: a `KnownClass`."""

    rebuilds: int

    def points_of(self, row: int) -> int | None:
        """The row's points; `None` if it does not pass."""
        ...

    def base_at(self, rows: Rows) -> Scores:
        """The points of rows that pass."""
        ...


class Buckets:
    """The buckets of a repeat's rows."""

    __slots__ = ("_bucket_of", "_leaders", "_position", "_rebuilds", "_sizes", "_weight", "judge")

    def __init__(self, judge: BucketJudge, weight: int, nodes: NodeTable) -> None:
        """`weight`: of the plugin's points."""
        self.judge = judge
        self._weight = weight
        self._position = nodes.row_changes.position
        self._rebuilds = -1
        """As `KnownClass.rebuilds` when the rows were put into buckets; -1: they are not."""
        self._bucket_of: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        """By row; -1 for rows that the columns reject."""
        self._sizes: dict[int, int] = {}
        """How many rows each bucket has; no bucket is empty."""
        self._leaders: dict[int, Leaders] = {}

    @property
    def is_built(self) -> bool:
        """Whether it has arrays."""
        return self._rebuilds >= 0

    def forget(self) -> None:
        """Free the arrays: they are made again at the next use."""
        self._rebuilds = -1
        self._bucket_of = np.zeros(0, dtype=np.intp)
        self._sizes, self._leaders = {}, {}

    def best(self, known: JoinedColumns, nodes: NodeTable, passing: Rows) -> BestOfBuckets | None:
        """The best of the rows that pass the columns; `None`: they must be judged one by one.

        `known` must be up to date. Raises what the judge raises.
        """
        if not self._is_up_to_date(known, nodes, passing):
            self.forget()
            self._position = nodes.row_changes.position
            return None
        rows_of: dict[int, int] = {}
        if self.judge.needs_rows:
            for bucket in self._sizes:
                leaders = self._leaders.get(bucket)
                if leaders is None or not leaders.count:
                    leaders = self._settled(bucket, known, nodes)
                rows_of[bucket] = leaders.rows.item(0)
        by_bucket = self.judge.points(self._sizes, rows_of)
        if not by_bucket:
            return None
        most, best = -1, _NO_BUCKET
        tied: list[int] = []
        for bucket, points in by_bucket.items():
            leaders = self._leaders.get(bucket)
            if leaders is None or not leaders.count:
                leaders = self._settled(bucket, known, nodes)
            total = leaders.most + points * self._weight
            if total > most:
                most, best = total, bucket
                tied.clear()
            elif total == most:
                tied.append(bucket)
        first = self._leaders[best]
        rows, hashes = first.rows, first.hashes
        if tied:
            rows = np.concatenate([rows, *[self._leaders[bucket].rows for bucket in tied]])
            hashes = np.concatenate([hashes, *[self._leaders[bucket].hashes for bucket in tied]])
        return BestOfBuckets(self._feasible(passing, by_bucket), rows, hashes, most, self.judge.is_filtering)

    def _is_up_to_date(self, known: JoinedColumns, nodes: NodeTable, passing: Rows) -> bool:
        # Whatever changes a row's bucket, its points, or whether it passes, is in this log, or rebuilds the class.
        changed = nodes.row_changes.few_since(self._position, _FEW_ROWS)
        if changed is None:
            return False
        if self._rebuilds != known.rebuilds:
            if not self._put_all(passing, nodes):
                return False
            self._rebuilds = known.rebuilds
        elif not self._move(changed, known, nodes):
            return False
        self._position = nodes.row_changes.position
        return len(self._sizes) <= _MOST_BUCKETS

    def _put_all(self, passing: Rows, nodes: NodeTable) -> bool:
        buckets = self.judge.buckets_of(passing)
        if buckets is None:
            return False
        self._bucket_of = np.full(nodes.capacity, _NO_BUCKET, dtype=np.intp)
        self._bucket_of[passing] = buckets
        found, sizes = np.unique(buckets, return_counts=True)
        self._sizes = dict(zip(found.tolist(), sizes.tolist(), strict=True))
        self._leaders = {}
        return True

    def _move(self, rows: list[int], known: JoinedColumns, nodes: NodeTable) -> bool:
        """Put rows that have changed into their buckets; False: one has none."""
        sizes, leaders, hashes = self._sizes, self._leaders, nodes.tie_hash
        for row in rows:
            points = known.points_of(row)
            before, now = self._bucket_of.item(row), _NO_BUCKET
            if points is not None:
                now = self.judge.bucket_of(row)
                if now == _NO_BUCKET:
                    return False
            if now != before:
                self._bucket_of[row] = now
                if before != _NO_BUCKET:
                    sizes[before] -= 1
                    if before in leaders:
                        leaders[before].move(row, None, hashes)
                    if not sizes[before]:
                        del sizes[before]
                        leaders.pop(before, None)
                if now != _NO_BUCKET:
                    sizes[now] = sizes.get(now, 0) + 1
            if now in leaders:
                leaders[now].move(row, points, hashes)
        return True

    def _settled(self, bucket: int, known: JoinedColumns, nodes: NodeTable) -> Leaders:
        """The leaders of a bucket where they are not known."""
        leaders = self._leaders[bucket] = Leaders()
        rows = (self._bucket_of == bucket).nonzero()[0]
        leaders.settle(rows, known.base_at(rows), nodes.tie_hash)
        return leaders

    def _feasible(self, passing: Rows, by_bucket: dict[int, int]) -> Rows:
        if len(by_bucket) == len(self._sizes):
            return passing
        passes = np.zeros(self.judge.most, dtype=np.bool_)
        passes[list(by_bucket)] = True
        return passing.take(passes.take(self._bucket_of.take(passing)).nonzero()[0])
