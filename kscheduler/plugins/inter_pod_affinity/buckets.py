"""Affinity by bucket: rows with the same domains, whose own pods concern the pod in the same way, are not told apart.

The problem and the idea are those of spread by bucket: between two pods of a run one node has changed, and thousands of
nodes in three zones differ in nothing else. Under a key by which each node is a domain of its own, such as the host
name, rows differ only in whether terms are violated there, and in the sum of preferences. So a bucket is a combination
of the other keys' domains with these. The plugin itself judges one row of each bucket: its answers for a row follow
from the bucket, and what it normalises from the lowest and highest score.

Limit: with very many combinations, or with many preferences on a row, rows are judged one by one.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.topology import CountColumn, TopologyCounters
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.nodes.repeats import Conditions, NotByBucketError
from kscheduler.framework.plugin import PreFilterResult
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.plugins.inter_pod_affinity.domains import OwnDomains

_MOST_BUCKETS: Final = 1 << 16
# Under a key by which each node is a domain of its own: what the node's pods mean, three bits (`counted`).
_MEANINGS: Final = 8
# The sum of preferences there must be between these.
_MOST_POINTS: Final = 127
_POINTS: Final = 2 * _MOST_POINTS + 1

_ALL: Final = slice(None)


class Counted(Protocol):
    """The plugin, as far as it is called here."""

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Count required terms."""
        ...

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Which rows violate them."""
        ...

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Count preferred terms."""
        ...

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The sums of preferences."""
        ...

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """0 to 100."""
        ...

    def counted(self, pod: PodInfo) -> Iterator[tuple[str, CountColumn, int, int]]:
        """Each column that the plugin reads: topology key, pods per row, the bit of its meaning (0: none), points."""
        ...


class AffinityBuckets:
    """Judges pods like one over one version of the nodes. Implements `BucketJudge`."""

    needs_rows = True

    def __init__(
        self, plugin: Counted, counters: TopologyCounters, own_domains: OwnDomains, pod: PodInfo, nodes: NodeTable
    ) -> None:
        """Raises `NotByBucketError`."""
        self._plugin = plugin
        self._nodes, self._version = nodes, nodes.node_columns_version
        self._pod = pod
        terms = pod.affinity_terms
        read = counters.labels_of_terms(pod.labels)
        for term in (*terms.required_affinity, *terms.required_anti_affinity):
            read |= term.match.label_keys
        self.conditions = Conditions((counters.term_changes,), read)
        self.is_filtering = True
        """Whether PreFilter did not skip the last pod."""
        self._numbers: list[tuple[NDArray[np.int32], int]] = []
        """By key, the number of each row's domain, and what one more adds to the bucket."""
        self._strides: dict[str, int] = {}
        """By key under which each node is a domain of its own, what one more adds to the bucket."""
        self.most = 1
        for key in dict.fromkeys(key for key, _, _, _ in plugin.counted(pod)):
            if own_domains.has(nodes, key):
                self._strides[key] = self.most
                self.most *= _MEANINGS * _POINTS
            else:
                numbers, values = nodes.label_values(key, _ALL)
                self._numbers.append((numbers, self.most))
                self.most *= len(values)
            if self.most > _MOST_BUCKETS:
                raise NotByBucketError
        self._columns = self._own_columns(pod)

    def holds_for(self, pod: PodInfo, nodes: NodeTable) -> bool:
        """As long as no node changes. The pod is judged next."""
        if nodes is not self._nodes or nodes.node_columns_version != self._version:
            return False
        self._pod = pod
        if self._strides:  # columns may have been dropped and made again
            self._columns = self._own_columns(pod)
        return True

    def bucket_of(self, row: int) -> int:
        """The row's bucket; -1 if there are too many preferences on it."""
        bucket = 0
        for numbers, stride in self._numbers:
            bucket += numbers.item(row) * stride
        meaning = dict.fromkeys(self._strides, 0)
        points = dict.fromkeys(self._strides, _MOST_POINTS)
        for key, column, bit, weight in self._columns:
            pods = column.item(row)
            if pods:
                meaning[key] |= bit
                points[key] += pods * weight
        for key, stride in self._strides.items():
            if not 0 <= points[key] < _POINTS:
                return -1
            bucket += (meaning[key] + _MEANINGS * points[key]) * stride
        return bucket

    def buckets_of(self, rows: Rows) -> NDArray[np.intp] | None:
        """The rows' buckets, intp [rows]; `None` if there are too many preferences on one of them."""
        buckets = np.zeros(len(rows), dtype=np.intp)
        for numbers, stride in self._numbers:
            buckets += numbers.take(rows) * np.intp(stride)
        for own, stride in self._strides.items():
            meaning = np.zeros(len(rows), dtype=np.intp)
            points = np.full(len(rows), _MOST_POINTS, dtype=np.intp)
            for key, column, bit, weight in self._columns:
                if key == own:
                    pods = column.take(rows)
                    meaning |= np.where(pods != 0, bit, 0)
                    points += pods * weight
            if len(rows) and not (points.min() >= 0 and points.max() < _POINTS):
                return None
            buckets += (meaning + _MEANINGS * points) * stride
        return buckets

    def points(self, sizes: Mapping[int, int], rows: Mapping[int, int]) -> dict[int, int]:
        """The normalised points of the buckets that pass. `rows`: one of each bucket."""
        plugin, pod, nodes, cycle = self._plugin, self._pod, self._nodes, CycleState()
        buckets = sorted(sizes, key=rows.__getitem__)  # rows are always judged in ascending order (`row_index`)
        judged = np.array([rows[bucket] for bucket in buckets], dtype=np.intp)
        prepared = plugin.pre_filter(cycle, pod, nodes).status
        self.is_filtering = not prepared.is_skip
        if self.is_filtering:
            codes = plugin.filter(cycle, pod, nodes, judged)
            if codes is not None:
                passing = (codes == 0).nonzero()[0]
                judged, buckets = judged.take(passing), [buckets[place] for place in passing.tolist()]
        if not buckets or plugin.pre_score(cycle, pod, nodes, judged).is_skip:
            return dict.fromkeys(buckets, 0)
        points = plugin.normalize(cycle, pod, judged, plugin.score(cycle, pod, nodes, judged))
        return dict(zip(buckets, points.tolist(), strict=True))

    def _own_columns(self, pod: PodInfo) -> list[tuple[str, CountColumn, int, int]]:
        strides = self._strides
        return [each for each in self._plugin.counted(pod) if each[0] in strides] if strides else []
