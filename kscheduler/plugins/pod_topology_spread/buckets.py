"""Spread by bucket: rows with the same domains, and with as many pods that count, are not told apart.

The problem: between two pods of a Deployment one node has one pod more, but five thousand nodes would be scored again.
The idea: their scores differ only by zone and by the number of the Deployment's pods, so there are a dozen of them. A
bucket is a combination of these numbers. Filter and Score are worked out per bucket, from the current sums by domain,
with the formulas of `filtering` and `scoring`.

Limits: a hard constraint by host name, and a soft one where nodes lack the host name, are judged row by row; and so is
a cluster with very many combinations.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.well_known import MAX_NODE_SCORE
from kscheduler.framework.cluster.topology import PodMatch, TopologyCounters
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.repeats import Conditions, NotByBucketError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.pod_topology_spread.domains import DomainNumbers
from kscheduler.plugins.pod_topology_spread.layout import Domains, Layout
from kscheduler.plugins.pod_topology_spread.scoring import ALMOST_HALF, by_domain, go_log

# A row with so many pods that count has no bucket.
_MANY_PODS: Final = 64
# Of all combinations; and of domains of one topology key.
_MOST_BUCKETS: Final = 1 << 16
_MOST_DOMAINS: Final = 256
_MOST_READ: Final = 1024


class _Hard(msgspec.Struct, frozen=True):
    """A hard constraint."""

    domains: Domains
    place: int
    """Of its domains' numbers among those of a bucket."""
    is_own: bool
    """Whether the pod matches its own selector."""


class _Soft(msgspec.Struct, frozen=True):
    """A soft constraint."""

    domains: Domains
    place: int
    """Of its domains' numbers, or of its counts by row, among the numbers of a bucket."""
    is_by_host: bool


class SpreadBuckets:
    """Judges pods with these constraints over one version of the nodes. Implements `BucketJudge`."""

    needs_rows = False

    def __init__(
        self,
        hard: Layout | None,
        soft: Layout | None,
        pod: PodInfo,
        counters: TopologyCounters,
        conditions: Conditions,
        is_current: Callable[[], bool],
    ) -> None:
        """Raises `NotByBucketError`. `is_current`: whether the constraints are still those of such pods."""
        self.conditions = conditions
        self._is_current = is_current
        self._counters = counters
        layouts = [layout for layout in (hard, soft) if layout is not None]
        self._nodes, self._version = layouts[0].nodes, layouts[0].version
        self._numbers: list[DomainNumbers] = []
        """By topology key, the number of each row's domain."""
        self._strides: list[int] = []
        self._sizes: list[int] = []
        self._places: dict[str, int] = {}
        self.most = 1
        self._hard = [
            _Hard(domains, self._place_of(domains), domains.constraint.selector.matches(pod.labels))
            for domains in (hard.domains if hard is not None else ())
        ]
        self.is_filtering = bool(self._hard)
        self._counted = self._counted_by_host(soft)
        """The pods that are counted on each row, if there is a constraint by host name."""
        by_key = [domains for domains in (soft.domains if soft is not None else ()) if not domains.is_by_host]
        soft_places = {id(domains): self._place_of(domains) for domains in by_key}
        self._soft = [
            _Soft(domains, soft_places.get(id(domains), len(self._numbers)), domains.is_by_host)
            for domains in (soft.domains if soft is not None else ())
        ]
        self._soft_keys = set(soft_places.values())
        """The places of the domains of soft constraints, but for host names."""
        self._needs_all_keys = soft is not None and soft.needs_all_keys
        self._of_counts = self.most
        """What one pod more on the row adds to its bucket."""
        if self._counted is not None:
            self.most *= _MANY_PODS
        if self.most > _MOST_BUCKETS:
            raise NotByBucketError
        self._read: dict[int, tuple[int, ...]] = {}
        """The numbers of each bucket."""

    def holds_for(self, pod: PodInfo, nodes: NodeTable) -> bool:
        """As long as no node changes, and the profile's constraints select the same pods."""
        del pod
        return nodes is self._nodes and nodes.node_columns_version == self._version and self._is_current()

    def bucket_of(self, row: int) -> int:
        """The row's bucket; -1 if too many pods count there."""
        bucket = 0
        for numbers, stride in zip(self._numbers, self._strides, strict=True):
            bucket += numbers.item(row) * stride
        if self._counted is None:
            return bucket
        pods = self._counters.matching(self._counted).item(row)
        return bucket + pods * self._of_counts if pods < _MANY_PODS else -1

    def buckets_of(self, rows: Rows) -> NDArray[np.intp] | None:
        """The rows' buckets, intp [rows]; `None` if too many pods count on one of them."""
        buckets = np.zeros(len(rows), dtype=np.intp)
        for numbers, stride in zip(self._numbers, self._strides, strict=True):
            buckets += numbers.take(rows) * stride
        if self._counted is not None:
            pods = self._counters.matching(self._counted).take(rows)
            if pods.max(initial=0) >= _MANY_PODS:
                return None
            buckets += pods * self._of_counts
        return buckets

    def points(self, sizes: Mapping[int, int], rows: Mapping[int, int]) -> dict[int, int]:
        """The normalised points of the buckets that pass; 0 for all if nothing scores them."""
        del rows
        read = self._read
        if len(read) > _MOST_READ:
            read.clear()
        for bucket in sizes:
            if bucket not in read:
                read[bucket] = self._numbers_of(bucket)
        passing = list(sizes)
        for hard in self._hard:
            is_too_full = _too_full(hard, self._counters)
            passing = [
                bucket for bucket in passing if read[bucket][hard.place] and not is_too_full[read[bucket][hard.place]]
            ]
        return self._scored(passing, sizes) if self._soft else dict.fromkeys(passing, 0)

    def _scored(self, passing: list[int], sizes: Mapping[int, int]) -> dict[int, int]:
        read, scored = self._read, passing
        if self._needs_all_keys:
            for place in self._soft_keys:
                scored = [bucket for bucket in scored if read[bucket][place]]
        raw = dict.fromkeys(scored, 0.0)
        for one in self._soft:
            # The same operations in the same order as `scoring`: the sums must not differ in the last bit.
            place, constraint = one.place, one.domains.constraint
            offset = float(constraint.max_skew - 1)
            if one.is_by_host:
                weight = go_log(sum([sizes[bucket] for bucket in scored]) + 2)
                for bucket in scored:
                    raw[bucket] += read[bucket][place] * weight + offset
                continue
            pods: list[int] = by_domain(one.domains, self._counters).tolist()
            empty = one.domains.column.empty_value
            there = {read[bucket][place] for bucket in scored}
            weight = go_log(len(there) - (empty > 0 and 0 in there and empty in there) + 2)
            for bucket in scored:
                number = read[bucket][place]
                if number:
                    raw[bucket] += pods[number] * weight + offset
        points = dict.fromkeys(passing, 0)
        if scored:
            whole = {bucket: int(each + ALMOST_HALF) for bucket, each in raw.items()}
            most, least = max(whole.values()), min(whole.values())
            for bucket, value in whole.items():
                points[bucket] = MAX_NODE_SCORE * (most + least - value) // most if most > 0 else MAX_NODE_SCORE
        return points

    # --- numbers ------------------------------------------------------------------------------------------------------

    def _place_of(self, domains: Domains) -> int:
        """The place of a topology key's domain among the numbers of a bucket; a new one for a new key."""
        key = domains.constraint.topology_key
        if domains.is_by_host or domains.column.size > _MOST_DOMAINS:
            raise NotByBucketError
        if key not in self._places:
            self._places[key] = len(self._numbers)
            self._numbers.append(domains.of_row)
            self._strides.append(self.most)
            self._sizes.append(domains.column.size)
            self.most *= domains.column.size
        return self._places[key]

    @staticmethod
    def _counted_by_host(soft: Layout | None) -> PodMatch | None:
        """What is counted on each row."""
        by_host = [domains for domains in (soft.domains if soft is not None else ()) if domains.is_by_host]
        if not by_host:
            return None
        counted = {domains.constraint.counted for domains in by_host}
        if len(counted) > 1 or None in counted or not all(domains.column.is_everywhere for domains in by_host):
            raise NotByBucketError
        return counted.pop()

    def _numbers_of(self, bucket: int) -> tuple[int, ...]:
        """The number of each domain, in the order of `_places`, and the pods of the row."""
        numbers = [bucket // stride % size for stride, size in zip(self._strides, self._sizes, strict=True)]
        return (*numbers, bucket // self._of_counts)


def _too_full(hard: _Hard, counters: TopologyCounters) -> list[bool]:
    """By domain, whether one pod more would be too many: the rule of `ConstraintCounts.codes`."""
    domains, constraint = hard.domains, hard.domains.constraint
    pods, existing = domains.pods(counters), domains.existing
    least = 0
    if len(existing) and len(existing) >= constraint.min_domains:
        least = int(pods.take(existing).min())
    is_too_full: list[bool] = (pods > constraint.max_skew + least - hard.is_own).tolist()
    return is_too_full
