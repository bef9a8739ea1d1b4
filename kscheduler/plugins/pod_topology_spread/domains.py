"""Matching pods per topology domain: counts per row, summed over the values of a node label.

The nodes whose pods count differ from pod to pod and from constraint to constraint, so sums are made in each cycle: a
pass over the rows that adds up the pods, and a pass that finds the domains that exist at all.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.bounded import WithinBudget
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.row_index import compact, values_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.framework.rules.node_match import has_untolerated

# Pods per row, or per domain: int64.
Counts = NDArray[np.int64]
# The number of each row's domain, 0 where the label is missing: intp, because `take` converts all other types.
DomainNumbers = NDArray[np.intp]


def counts_at(constraint: SpreadConstraint, counters: TopologyCounters | None, rows: Rows) -> Counts:
    """The pods on each row that the constraint counts, int64 [rows]. Raises `RuntimeError` without counters."""
    if constraint.counted is None:
        return np.zeros(len(rows), dtype=np.int64)
    if counters is None:
        raise RuntimeError("PodTopologySpread was built without topology counters")
    return values_at(counters.matching(constraint.counted), compact(rows))


def existing_domains(numbers: DomainNumbers, size: int, counting: Mask | None) -> Mask:
    """Whether a counting row is in each domain, bool [size]. `counting`: bool [numbers], or `None` for all."""
    if counting is not None:
        numbers = numbers[counting]
    found = np.zeros(size, dtype=np.bool_)
    found[numbers] = True
    return found


def rows_with_all_keys(numbers: Sequence[DomainNumbers]) -> Mask | None:
    """The rows that have every topology key, bool [rows]; `None` is all of them."""
    has_keys = numbers[0] != 0
    for other in numbers[1:]:
        has_keys &= other != 0
    return None if has_keys.all() else has_keys


def counting_rows(
    constraints: Sequence[SpreadConstraint],
    pod: PodInfo,
    nodes: NodeTable,
    rows: Rows,
    shared: Mask | None,
    *,
    compares: bool = False,
) -> Iterator[Mask | None]:
    """Per constraint the rows within `shared` whose pods count by its two policies, bool [rows]; `None` is all of them.

    `compares`: tolerations may compare numbers (`framework.rules.node_match`).
    """
    matching = _matching(pod, nodes, rows) if any(constraint.honors_affinity for constraint in constraints) else None
    tolerated = (
        _tolerated(pod, nodes, rows, compares) if any(constraint.honors_taints for constraint in constraints) else None
    )
    for constraint in constraints:
        by_affinity = matching if constraint.honors_affinity else None
        yield _all_of(shared, by_affinity, tolerated if constraint.honors_taints else None)


def _all_of(*masks: Mask | None) -> Mask | None:
    given = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(given) if given else None


def _matching(pod: PodInfo, nodes: NodeTable, rows: Rows) -> Mask | None:
    """Rows that match the pod's own nodeSelector and required node affinity; the profile's addedAffinity is ignored."""
    if pod.node_selector is None and pod.required_node_terms is None:
        return None
    return nodes.wanted_by(pod, rows)


def _tolerated(pod: PodInfo, nodes: NodeTable, rows: Rows, compares: bool) -> Mask | None:
    """Rows without a taint that keeps the pod off."""
    numbers = nodes.taint_set[rows]
    if len(rows) == 1:  # dry runs judge row by row
        is_open = np.array([not has_untolerated(nodes.taint_sets[numbers.item()], pod.tolerations, compares=compares)])
        return None if is_open.all() else is_open
    is_open = np.array([not has_untolerated(taints, pod.tolerations, compares=compares) for taints in nodes.taint_sets])
    return None if is_open.all() else is_open[numbers]


# The domains of a topology key over the nodes, shared by all constraints that name the key.
#
# Otherwise fifty Deployments that spread over zones would have fifty copies of which node is in which zone, and each
# decision would read another copy. Kept until a node is added, removed or relabelled (`node_columns_version`).

_ALL: Final = slice(None)
_MAX_KEYS: Final = 64
_MAX_FEASIBLE: Final = 32
_BUDGET_BYTES: Final = 16 * 2**20
_BYTES_PER_FEASIBLE_ROW: Final = 32


class KeyColumn(msgspec.Struct, frozen=True):
    """Which row is in which domain of a topology key."""

    of_row: DomainNumbers
    """[capacity]"""
    of_live: DomainNumbers
    """[live rows]"""
    size: int
    """How many domain numbers there are."""
    exists: Mask
    """Whether a live row is in the domain, [size]."""
    is_everywhere: bool
    """Whether all live rows have the label."""
    empty_value: int
    """The number of the empty value; 0 where no node has it."""
    label: NDArray[np.int32] | None
    """The table's own column: its identity shows whether other numbers refer to the same column."""


class Feasible:
    """Results worked out lately for sets of feasible rows, found by the number of rows and the first and last row.

    With a hard constraint by zone, for example, the rows of the same few zones remain again and again.
    """

    def __init__(self) -> None:
        self._known: WithinBudget[Hashable, tuple[Rows, object]] = WithinBudget(_BUDGET_BYTES, _MAX_FEASIBLE)

    def find(self, rows: Rows) -> object | None:
        """The result kept for the same rows; `None` where there is none."""
        rows_then, result = self._known.get(_mark(rows)) or (None, None)
        if rows_then is rows or (rows_then is not None and bool((rows_then == rows).all())):
            return result
        return None

    def keep(self, rows: Rows, result: object) -> None:
        """Keep the result; the oldest results make room for it. The rows array must not change afterwards."""
        self._known.put(_mark(rows), (rows, result), _BYTES_PER_FEASIBLE_ROW * len(rows))

    def forget(self) -> None:
        """Free all results: layouts that still refer to this object then keep no memory alive."""
        self._known.clear()


def _mark(rows: Rows) -> Hashable:
    return (len(rows), rows.item(0), rows.item(-1)) if len(rows) else 0


class KeyColumns:
    """The columns of the topology keys in use, and the results for lists of keys."""

    def __init__(self) -> None:
        self._nodes: NodeTable | None = None
        self._version = -1
        self._columns: dict[str, KeyColumn] = {}
        self._feasible: dict[Hashable, Feasible] = {}

    def follow(self, nodes: NodeTable) -> None:
        """Forget everything if it belongs to another table or the node columns have changed."""
        if nodes is not self._nodes or nodes.node_columns_version != self._version or len(self._columns) > _MAX_KEYS:
            self._nodes, self._version = nodes, nodes.node_columns_version
            self._columns = {}
            self._forget_feasible()

    def of(self, key: str, nodes: NodeTable) -> KeyColumn:
        """The column of this key for the current nodes."""
        self.follow(nodes)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _column(key, nodes)
        return column

    def feasible(self, keys: tuple[str, ...], *, needs_all_keys: bool) -> Feasible:
        """The results shared by all lists of constraints with these keys, in this order."""
        if len(self._feasible) > _MAX_KEYS:
            self._forget_feasible()
        return self._feasible.setdefault((keys, needs_all_keys), Feasible())

    def _forget_feasible(self) -> None:
        """Free the results at once: old layouts that hold them may be kept for long, and are never used again."""
        for results in self._feasible.values():
            results.forget()
        self._feasible = {}


def _column(key: str, nodes: NodeTable) -> KeyColumn:
    rows = nodes.rows()
    label, values = nodes.label_values(key, _ALL)
    of_live = label.take(rows).astype(np.intp)
    of_row = np.zeros(nodes.capacity, dtype=np.intp)
    of_row[rows] = of_live
    exists = existing_domains(of_live, len(values), None)
    empty = values.index("") if "" in values else 0
    return KeyColumn(of_row, of_live, len(values), exists, not exists[0], empty, label.base)
