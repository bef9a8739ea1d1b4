"""Pods by topology domain: a count for each value of a node label, and the count that each row sees.

The counters keep the sums of their columns by domain (`TopologyCounters.by_domain`); this module adds up the sums
that belong to one topology key. Where each node is a domain of its own (`own_domains`), it adds up the columns
themselves. Dry runs move pods on many rows at once; each row sees only its own moves.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.bounded import RecentlyUsed
from kscheduler.framework.cluster.topology import CountColumn, TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods, RowCounts
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at

# Topology keys under which each node is a domain of its own, as host names are.
#
# The problem: anti-affinity is mostly by host name. With five hundred Deployments, the sums over five thousand domains
# are as large as the counts that they are made of, and would have to be read and kept besides. The idea: where every
# node has a value of the label and no two nodes share one, the count of a node is the count of its domain, so the row
# serves as the number of the domain.
#
# The answer holds for one table until a node is added, removed or has other labels (`node_columns_version`).

_MAX_KEYS: Final = 64


class OwnDomains:
    """The answers for the topology keys used lately."""

    def __init__(self) -> None:
        self._known: RecentlyUsed[str, tuple[NodeTable, int, bool]] = RecentlyUsed(_MAX_KEYS)

    def has(self, nodes: NodeTable, key: str) -> bool:
        """Whether every live node has this label, each with a value that no other live node has."""
        known = self._known.get(key)
        if known is not None and known[0] is nodes and known[1] == nodes.node_columns_version:
            return known[2]
        answer = _is_one_node_each(nodes, key)
        self._known[key] = nodes, nodes.node_columns_version, answer
        return answer


def _is_one_node_each(nodes: NodeTable, key: str) -> bool:
    numbers, values = nodes.label_values(key, nodes.rows())
    nodes_in = np.bincount(numbers, minlength=len(values))
    return not nodes_in[0] and int(nodes_in.max()) <= 1


_ALL: Final = slice(None)


class DomainCounts:
    """A count per domain of one topology key. Immutable: `moved` returns new counts."""

    __slots__ = ("_counts", "_moved", "_numbers")

    def __init__(
        self, numbers: NDArray[np.int32] | None, counts: NDArray[np.int64], moved: RowCounts | None = None
    ) -> None:
        self._numbers = numbers
        """int32 [capacity]: the number of each row's domain, 0 where the row lacks the label and so is in no domain.
        `None`: each row is a domain of its own, and the row is the domain's number."""
        self._counts = counts
        """int64 [domains]; entry 0 stays 0. May be a column of the counters: do not write to it."""
        self._moved = moved
        """int64 [capacity]: added to the count of the row's domain, for that row only; `None` adds nothing."""

    @classmethod
    def none(cls, nodes: NodeTable, key: str) -> "DomainCounts":
        """Counts of 0 in every domain."""
        numbers, values = nodes.label_values(key, _ALL)
        return cls(numbers, np.zeros(len(values), dtype=np.int64))

    def detached(self) -> "DomainCounts":
        """A copy that shares no memory with the counters."""
        return DomainCounts(self._numbers, self._counts.copy(), self._moved)

    @property
    def is_empty(self) -> bool:
        """Whether all counts are 0."""
        return not self._counts.any()

    def at(self, rows: Rows) -> NDArray[np.int64]:
        """The counts of the rows' domains, int64 [rows]. May share memory with the counters: do not write to it."""
        counts = self._unmoved(rows)
        return counts if self._moved is None else counts + self._moved.take(rows)

    def has_any_at(self, rows: Rows) -> Mask:
        """Whether the count of each row's domain is above 0, bool [rows]."""
        if self._moved is None and self._numbers is not None:
            return (self._counts > 0).take(values_at(self._numbers, compact(rows)))
        found: Mask = self.at(rows) > 0
        return found

    def _unmoved(self, rows: Rows) -> NDArray[np.int64]:
        if self._numbers is None:
            return values_at(self._counts, compact(rows))
        return self._counts.take(values_at(self._numbers, compact(rows)))

    def none_anywhere(self, rows: Rows) -> Mask | bool:
        """Whether all domains count 0 pods: bool [rows], or a single bool where all rows see the same counts."""
        if self._moved is None:
            return self.is_empty
        elsewhere = np.count_nonzero(self._counts) - (self._unmoved(rows) != 0)
        found: Mask = (elsewhere == 0) & (self.at(rows) == 0)
        return found

    def lacking(self, rows: Rows) -> Mask:
        """Which rows lack the label, bool [rows]."""
        if self._numbers is None:
            return np.zeros(len(rows), dtype=np.bool_)
        lacking: Mask = values_at(self._numbers, compact(rows)) == 0
        return lacking

    def moved(self, row: int, by: int) -> "DomainCounts":
        """The same with `by` added to the count of the row's domain."""
        number = row if self._numbers is None else self._numbers[row]
        if number == 0 and self._numbers is not None:
            return self
        counts = self._counts.copy()
        counts[number] += by
        return DomainCounts(self._numbers, counts, self._moved)

    def moved_by_row(self, moved: MovedPods, weights: Sequence[int]) -> "DomainCounts":
        """The same with pods moved on many rows; each row sees only its own moves.

        `weights` has an entry per kind of `moved`: how often a pod of that kind counts.
        """
        capacity = len(self._counts) if self._numbers is None else len(self._numbers)
        after = moved.added_to(self._moved, weights, capacity)
        if after is self._moved or after is None:
            return self
        if self._numbers is not None:
            after[self._numbers == 0] = 0
        return DomainCounts(self._numbers, self._counts, after)


# By topology key.
ByKey = Mapping[str, DomainCounts]


def by_key(
    nodes: NodeTable,
    counters: TopologyCounters,
    own_domains: OwnDomains,
    counted: Iterable[tuple[str, CountColumn, int]],
) -> dict[str, DomainCounts]:
    """By topology key the sum of its columns, each times its weight, over the live rows of each domain.

    `counted` yields topology key, column and weight.
    """
    numbers: dict[str, NDArray[np.int32] | None] = {}
    sums: dict[str, NDArray[np.int64]] = {}
    for key, column, weight in counted:
        is_own = own_domains.has(nodes, key)
        numbers[key], counts = (None, column) if is_own else _sums(nodes, counters, key, column)
        if key in sums:
            sums[key] = sums[key] + counts * weight
        else:
            sums[key] = counts if is_own and weight == 1 else counts * weight
    for key, counts in sums.items():
        if numbers[key] is not None:
            counts[0] = 0
    return {key: DomainCounts(numbers[key], counts) for key, counts in sums.items()}


def counts_any(
    nodes: NodeTable, counters: TopologyCounters, own_domains: OwnDomains, key: str, column: CountColumn
) -> bool:
    """Whether the column counts a pod on a row that has the label; the weights of such pods may still cancel out."""
    if own_domains.has(nodes, key):
        return bool(np.count_nonzero(column))
    _, sums = _sums(nodes, counters, key, column)
    return bool(np.count_nonzero(sums[1:]))


def _sums(
    nodes: NodeTable, counters: TopologyCounters, key: str, column: CountColumn
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The number of each row's domain, int32 [capacity], and the sums, int64 [domains]: shared, do not write."""
    kept = counters.by_domain(column, key, nodes)
    if kept is not None:
        return kept.numbers, kept.sums
    numbers, values = nodes.label_values(key, _ALL)
    live = compact(nodes.rows())
    sums = np.zeros(len(values), dtype=np.int64)
    np.add.at(sums, numbers[live], column[live])
    return numbers, sums


def with_moved(by_key: ByKey, nodes: NodeTable, keys: Iterable[str], row: int, by: int) -> ByKey:
    """The same with `by` added to the counts of the row's domains by these keys."""
    more = dict(by_key)
    for key in keys:
        before = more.get(key) or DomainCounts.none(nodes, key)
        more[key] = before.moved(row, by)
    return more


def weights_by_key(keys_of: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """By topology key how often it is among the keys of each kind of pod."""
    return {key: [keys.count(key) for keys in keys_of] for key in {key for keys in keys_of for key in keys}}


def with_moved_rows(by_key: ByKey, nodes: NodeTable, moved: MovedPods, weights: Mapping[str, Sequence[int]]) -> ByKey:
    """The same with pods moved on many rows; `weights` has for each key the weights of the kinds of `moved`."""
    more = dict(by_key)
    for key, key_weights in weights.items():
        before = more.get(key) or DomainCounts.none(nodes, key)
        more[key] = before.moved_by_row(moved, key_weights)
    return more
