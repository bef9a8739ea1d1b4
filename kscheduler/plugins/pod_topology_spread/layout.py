"""Which rows are in which domains, and whose pods count there: what stays as it is while no node changes.

The problem: the constraints of a pod are judged over all rows in each cycle, and of what that takes only the number of
pods has changed since the last one. The idea: domains and counting rows are worked out once per list of constraints and
kept until a node comes, goes or changes; pods of one template share their parsed constraints, so they find them by the
list itself. What is left for a cycle is one pass that adds up pods. What hangs on the keys alone is one for all lists
(`key_columns`).

Limit: nothing is kept for a list that is one pod's own.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kscheduler.api.well_known import HOSTNAME
from kscheduler.bounded.within_budget import WithinBudget
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counting_rows,
    counts_at,
    existing_domains,
    rows_with_all_keys,
)
from kscheduler.plugins.pod_topology_spread.key_columns import Feasible, KeyColumn, KeyColumns

_BUDGET_BYTES: Final = 64 * 2**20
_OWN_BYTES: Final = 2048
"""Of a layout besides its arrays."""
_MOST: Final = 1024
"""Layouts: those of releases that are gone are not asked for again, but have no end while no node changes."""


@dataclass(frozen=True, slots=True)
class Domains:
    """One constraint's domains by number; number 0 is "the label is missing"."""

    constraint: SpreadConstraint
    column: KeyColumn
    exists: Mask
    """Per domain whether a counting row is in it."""
    existing: Rows
    """The numbers of those where one is, ascending."""
    counting: Rows
    """The rows whose pods count."""
    of_counting: Rows
    """Their domains."""
    counts_all: bool
    """Whether the pods of all rows count."""
    nodes: NodeTable

    @property
    def of_row(self) -> DomainNumbers:
        """Over the table's whole capacity."""
        return self.column.of_row

    @property
    def is_by_host(self) -> bool:
        """Whether each node is a domain of its own."""
        return self.constraint.topology_key == HOSTNAME

    def pods(self, counters: TopologyCounters | None) -> Counts:
        """Per domain the pods that count: an array of the caller's own."""
        if self.counts_all and counters is not None and self.constraint.counted is not None:
            column = counters.matching(self.constraint.counted)
            told = counters.by_domain(column, self.constraint.topology_key, self.nodes)
            if told is not None and told.numbers.base is self.column.label:
                return told.sums.copy()
        sums = np.zeros(self.column.size, dtype=np.int64)
        np.add.at(sums, self.of_counting, counts_at(self.constraint, counters, self.counting))
        return sums


@dataclass(slots=True)
class Layout:
    """A list of constraints over one state of the nodes."""

    constraints: tuple[SpreadConstraint, ...]
    nodes: NodeTable
    version: int
    """Of the columns of nodes, when it was made."""
    needs_all_keys: bool
    """Whether nodes that lack one of the keys are left out."""
    domains: tuple[Domains, ...]
    bytes: int
    """About what it takes."""
    feasible: Feasible
    """What somebody has worked out for feasible rows."""
    compares: bool
    """Whether tolerations may compare numbers."""


class Layouts:
    """The layouts used lately, of one plugin."""

    def __init__(self, *, compares: bool = False) -> None:
        self._compares = compares
        """Whether tolerations may compare numbers."""
        self._layouts: WithinBudget[Hashable, Layout] = WithinBudget(_BUDGET_BYTES, _MOST)
        """All of one state of the nodes."""
        self._version = -1
        self._columns = KeyColumns()

    def of(
        self,
        constraints: tuple[SpreadConstraint, ...],
        pod: PodInfo,
        nodes: NodeTable,
        *,
        needs_all_keys: bool,
        is_shared: bool,
    ) -> Layout:
        """The layout of these constraints (at least one) of this pod, as nodes are now.

        `is_shared`: the very same list is that of other pods, too.
        """
        if not is_shared:
            return self._made(constraints, pod, nodes, needs_all_keys=needs_all_keys)
        if nodes.node_columns_version != self._version:  # none of them is ever used again
            self._layouts.clear()
            self._version = nodes.node_columns_version
        key = id(constraints), needs_all_keys, *_places(constraints, pod)
        layout = self._layouts.take(key)
        if layout is None or layout.nodes is not nodes or layout.version != nodes.node_columns_version:
            layout = self._made(constraints, pod, nodes, needs_all_keys=needs_all_keys)
        self._layouts.put(key, layout, layout.bytes)
        return layout

    def _made(
        self, constraints: tuple[SpreadConstraint, ...], pod: PodInfo, nodes: NodeTable, *, needs_all_keys: bool
    ) -> Layout:
        known = self._columns
        return _layout(constraints, pod, nodes, known, needs_all_keys=needs_all_keys, compares=self._compares)


def _places(constraints: tuple[SpreadConstraint, ...], pod: PodInfo) -> tuple[Hashable, ...]:
    """What of the pod decides which rows count."""
    wanted = (pod.node_selector, pod.required_node_terms) if any(one.honors_affinity for one in constraints) else ()
    return (*wanted, pod.tolerations) if any(one.honors_taints for one in constraints) else wanted


def _layout(
    constraints: tuple[SpreadConstraint, ...],
    pod: PodInfo,
    nodes: NodeTable,
    known: KeyColumns,
    *,
    needs_all_keys: bool,
    compares: bool,
) -> Layout:
    rows = nodes.rows()
    columns = [known.of(one.topology_key, nodes) for one in constraints]
    needs_all = needs_all_keys and not all(one.is_everywhere for one in columns)
    shared = rows_with_all_keys([one.of_live for one in columns]) if needs_all else None
    counting = counting_rows(constraints, pod, nodes, rows, shared, compares=compares)
    domains = tuple(
        _domains(constraint, nodes, column, mask)
        for constraint, column, mask in zip(constraints, columns, counting, strict=True)
    )
    feasible = known.feasible(tuple(one.topology_key for one in constraints), needs_all_keys=needs_all_keys)
    size = _OWN_BYTES + sum(16 * len(one.counting) + 9 * one.column.size for one in domains)
    return Layout(constraints, nodes, nodes.node_columns_version, needs_all_keys, domains, size, feasible, compares)


def _domains(constraint: SpreadConstraint, nodes: NodeTable, column: KeyColumn, mask: Mask | None) -> Domains:
    rows, of_live, exists = nodes.rows(), column.of_live, column.exists
    if mask is not None:
        rows, of_live = rows[mask], of_live[mask]
        exists = existing_domains(of_live, column.size, None)
    return Domains(constraint, column, exists, exists.nonzero()[0], rows, of_live, mask is None, nodes)
