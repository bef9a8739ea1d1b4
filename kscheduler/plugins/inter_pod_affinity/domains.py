"""Pods by topology domain: a number for each value of a node label, and what a row sees of them.

The counters keep the sums of their columns by domain (`TopologyCounters.by_domain`); here those that one key asks for
are added up. Where each node is a domain of its own (`own_domains`), the columns are what is added up. Dry runs move
pods of many rows, each for its row alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.topology import CountColumn, TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.moved_pods import MovedPods, RowCounts
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.plugins.inter_pod_affinity.own_domains import OwnDomains

_ALL: Final = slice(None)


class DomainCounts:
    """A number per domain of one topology key. Never changed: `moved` makes a new one."""

    __slots__ = ("_counts", "_moved", "_numbers")

    def __init__(
        self, numbers: NDArray[np.int32] | None, counts: NDArray[np.int64], moved: RowCounts | None = None
    ) -> None:
        self._numbers = numbers
        """Per row of the table the number of its domain; 0 where it has no such label, and so is in no domain. `None`
        is each row's own number: there is one domain for each row."""
        self._counts = counts
        """Per domain; 0 for no domain. Perhaps a column of the counters: not to be written."""
        self._moved = moved
        """What is to be added to its domain's count where a row is judged; `None` is nothing."""

    @classmethod
    def none(cls, nodes: NodeTable, key: str) -> "DomainCounts":
        """Nobody, in any domain."""
        numbers, values = nodes.label_values(key, _ALL)
        return cls(numbers, np.zeros(len(values), dtype=np.int64))

    @property
    def is_empty(self) -> bool:
        """Whether nobody is counted anywhere."""
        return not self._counts.any()

    def at(self, rows: Rows) -> NDArray[np.int64]:
        """The counts of the rows' domains. It may be a view of the counters: do not write."""
        counts = self._unmoved(rows)
        return counts if self._moved is None else counts + self._moved.take(rows)

    def has_any_at(self, rows: Rows) -> Mask:
        """Whether somebody is counted in the rows' domains."""
        if self._moved is None and self._numbers is not None:
            return (self._counts > 0).take(values_at(self._numbers, compact(rows)))
        found: Mask = self.at(rows) > 0
        return found

    def _unmoved(self, rows: Rows) -> NDArray[np.int64]:
        if self._numbers is None:
            return values_at(self._counts, compact(rows))
        return self._counts.take(values_at(self._numbers, compact(rows)))

    def nobody(self, rows: Rows) -> Mask | bool:
        """Whether nobody is counted anywhere, as each of the rows sees it, or as all of them do."""
        if self._moved is None:
            return self.is_empty
        elsewhere = np.count_nonzero(self._counts) - (self._unmoved(rows) != 0)
        found: Mask = (elsewhere == 0) & (self.at(rows) == 0)
        return found

    def lacking(self, rows: Rows) -> Mask:
        """The rows that have no such label."""
        if self._numbers is None:
            return np.zeros(len(rows), dtype=np.bool_)
        lacking: Mask = values_at(self._numbers, compact(rows)) == 0
        return lacking

    def moved(self, row: int, by: int) -> "DomainCounts":
        """With so many more in the row's domain."""
        number = row if self._numbers is None else self._numbers[row]
        if number == 0 and self._numbers is not None:
            return self
        counts = self._counts.copy()
        counts[number] += by
        return DomainCounts(self._numbers, counts, self._moved)

    def moved_by_row(self, moved: MovedPods, weights: Sequence[int]) -> "DomainCounts":
        """With pods moved on many rows, each row by itself."""
        capacity = len(self._counts) if self._numbers is None else len(self._numbers)
        after = moved.added_to(self._moved, weights, capacity)
        if after is self._moved or after is None:
            return self
        if self._numbers is not None:
            after[self._numbers == 0] = 0
        return DomainCounts(self._numbers, self._counts, after)


ByKey = Mapping[str, DomainCounts]
"""By topology key."""


def by_key(
    nodes: NodeTable,
    counters: TopologyCounters,
    own_domains: OwnDomains,
    counted: Iterable[tuple[str, CountColumn, int]],
) -> dict[str, DomainCounts]:
    """By topology key the sum of its columns, each as often as its weight says, over the live rows of each domain."""
    numbers: dict[str, NDArray[np.int32] | None] = {}
    sums: dict[str, NDArray[np.int64]] = {}
    for key, column, weight in counted:
        is_own = own_domains.has(nodes, key)
        numbers[key], its = (None, column) if is_own else _sums(nodes, counters, key, column)
        if key in sums:
            sums[key] = sums[key] + its * weight
        else:
            sums[key] = its if is_own and weight == 1 else its * weight
    for key, its in sums.items():
        if numbers[key] is not None:
            its[0] = 0
    return {key: DomainCounts(numbers[key], its) for key, its in sums.items()}


def counts_any(
    nodes: NodeTable, counters: TopologyCounters, own_domains: OwnDomains, key: str, column: CountColumn
) -> bool:
    """Whether somebody is counted on a row that has the label; what they are worth may still cancel out."""
    if own_domains.has(nodes, key):
        return bool(np.count_nonzero(column))
    _, sums = _sums(nodes, counters, key, column)
    return bool(np.count_nonzero(sums[1:]))


def _sums(
    nodes: NodeTable, counters: TopologyCounters, key: str, column: CountColumn
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Per row the number of its domain, and the sum over each domain: shared, do not write."""
    told = counters.by_domain(column, key, nodes)
    if told is not None:
        return told.numbers, told.sums
    numbers, values = nodes.label_values(key, _ALL)
    live = compact(nodes.rows())
    sums = np.zeros(len(values), dtype=np.int64)
    np.add.at(sums, numbers[live], column[live])
    return numbers, sums


def with_moved(by_key: ByKey, nodes: NodeTable, keys: Iterable[str], row: int, by: int) -> ByKey:
    """With so many more in the row's domains by these keys."""
    more = dict(by_key)
    for key in keys:
        before = more.get(key) or DomainCounts.none(nodes, key)
        more[key] = before.moved(row, by)
    return more


def weights_by_key(keys_of: Sequence[tuple[str, ...]]) -> dict[str, list[int]]:
    """By topology key how often it is among the keys of each kind."""
    return {key: [its.count(key) for its in keys_of] for key in {key for its in keys_of for key in its}}


def with_moved_rows(by_key: ByKey, nodes: NodeTable, moved: MovedPods, weights: Mapping[str, Sequence[int]]) -> ByKey:
    """With pods moved on many rows, each as often as its kind weighs by the key."""
    more = dict(by_key)
    for key, its in weights.items():
        before = more.get(key) or DomainCounts.none(nodes, key)
        more[key] = before.moved_by_row(moved, its)
    return more
