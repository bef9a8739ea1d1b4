"""Which rows are in which domains, and which rows' pods count: what stays the same while no node changes.

The problem: each cycle judges the pod's constraints over all rows, though of all the inputs only the numbers of pods
have changed since the last cycle. The idea: domains and counting rows are worked out once per list of constraints and
kept until a node is added, removed or changed. Pods of one template share their parsed constraints, so the list itself
is the key. What is left for a cycle is one pass that adds up pods. What depends on the topology keys alone is shared by
all lists (`domains`).

Limit: nothing is kept for a list that belongs to a single pod.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from kscheduler.api.well_known import HOSTNAME
from kscheduler.bounded import WithinBudget
from kscheduler.framework.cluster.topology import TopologyCounters
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.spread_constraint import SpreadConstraint, unless_empty
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    Feasible,
    KeyColumn,
    KeyColumns,
    counting_rows,
    counts_at,
    existing_domains,
    rows_with_all_keys,
)

_BUDGET_BYTES: Final = 64 * 2**20
_OWN_BYTES: Final = 2048
# A requirement of a constraint's selector, or a value of one.
# What a layout takes besides its arrays.
_BYTES_PER_PART: Final = 256
# The most layouts kept: without a limit, those of past releases would pile up while no node changes.
_MOST: Final = 1024


class Domains(msgspec.Struct, frozen=True):
    """One constraint's domains by number; number 0 is "the label is missing"."""

    constraint: SpreadConstraint
    column: KeyColumn
    exists: Mask
    """Whether a counting row is in the domain, [domains]."""
    existing: Rows
    """The numbers of the domains that exist, ascending."""
    counting: Rows
    """The rows whose pods count."""
    of_counting: Rows
    """The domains of the counting rows."""
    counts_all: bool
    """Whether the pods of all rows count."""
    nodes: NodeTable

    @property
    def of_row(self) -> DomainNumbers:
        """The number of each row's domain, intp [capacity]."""
        return self.column.of_row

    @property
    def is_by_host(self) -> bool:
        """Whether each node is a domain of its own."""
        return self.constraint.topology_key == HOSTNAME

    def pods(self, counters: TopologyCounters | None) -> Counts:
        """The pods that count per domain, int64 [domains]: a new array that the caller may change."""
        if self.counts_all and counters is not None and self.constraint.counted is not None:
            column = counters.matching(self.constraint.counted)
            kept = counters.by_domain(column, self.constraint.topology_key, self.nodes)
            if kept is not None and kept.numbers.base is self.column.label:
                return kept.sums.copy()
        sums = np.zeros(self.column.size, dtype=np.int64)
        np.add.at(sums, self.of_counting, counts_at(self.constraint, counters, self.counting))
        return sums


@dataclass(slots=True)
class Layout:
    """A list of constraints over one version of the nodes."""

    constraints: tuple[SpreadConstraint, ...]
    nodes: NodeTable
    version: int
    """The `node_columns_version` for which the layout was made."""
    needs_all_keys: bool
    """Whether nodes that lack one of the keys are left out."""
    domains: tuple[Domains, ...]
    bytes: int
    """About how much memory it takes."""
    feasible: Feasible
    """Results that scoring keeps for feasible rows."""
    compares: bool
    """Whether tolerations may compare numbers."""


class Layouts:
    """The layouts that a plugin has used lately."""

    def __init__(self, *, compares: bool = False, empty_selectors_count_all: bool = False) -> None:
        self._compares = compares
        """Whether tolerations may compare numbers."""
        self._empty_selectors_count_all = empty_selectors_count_all
        """Whether a constraint with an empty selector counts all pods of the namespace, not none."""
        self._layouts: WithinBudget[Hashable, Layout] = WithinBudget(_BUDGET_BYTES, _MOST)
        """All for the same version of the nodes."""
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
        """The layout of these constraints (at least one) of this pod for the current nodes.

        `is_shared`: other pods have the identical list of constraints.
        """
        if not is_shared:
            return self._made(constraints, pod, nodes, needs_all_keys=needs_all_keys)
        if nodes.node_columns_version != self._version:  # the old layouts are never used again
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
        rows = nodes.rows()
        columns = [self._columns.of(constraint.topology_key, nodes) for constraint in constraints]
        needs_all = needs_all_keys and not all(column.is_everywhere for column in columns)
        shared = rows_with_all_keys([column.of_live for column in columns]) if needs_all else None
        counting = counting_rows(constraints, pod, nodes, rows, shared, compares=self._compares)
        # The layout holds the list itself: its key is the id of the list.
        counted = constraints if self._empty_selectors_count_all else map(unless_empty, constraints)
        domains = tuple(
            _domains(constraint, nodes, column, mask)
            for constraint, column, mask in zip(counted, columns, counting, strict=True)
        )
        feasible = self._columns.feasible(
            tuple(constraint.topology_key for constraint in constraints), needs_all_keys=needs_all_keys
        )
        parsed = sum([_BYTES_PER_PART * each.selector.size for each in constraints])
        size = _OWN_BYTES + parsed + sum(16 * len(each.counting) + 9 * each.column.size for each in domains)
        return Layout(
            constraints, nodes, nodes.node_columns_version, needs_all_keys, domains, size, feasible, self._compares
        )


def _places(constraints: tuple[SpreadConstraint, ...], pod: PodInfo) -> tuple[Hashable, ...]:
    """The pod's properties that decide which rows count."""
    affinity = (pod.node_selector, pod.required_node_terms) if any(each.honors_affinity for each in constraints) else ()
    return (*affinity, pod.tolerations) if any(each.honors_taints for each in constraints) else affinity


def _domains(constraint: SpreadConstraint, nodes: NodeTable, column: KeyColumn, mask: Mask | None) -> Domains:
    rows, of_live, exists = nodes.rows(), column.of_live, column.exists
    if mask is not None:
        rows, of_live = rows[mask], of_live[mask]
        exists = existing_domains(of_live, column.size, None)
    return Domains(constraint, column, exists, exists.nonzero()[0], rows, of_live, mask is None, nodes)
