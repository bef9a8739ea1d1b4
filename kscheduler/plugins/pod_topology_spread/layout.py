"""Which rows are in which domains, and whose pods count there: what stays as it is while no node changes.

The problem: the constraints of a pod are judged over all rows in each cycle, and of what that takes only the number of
pods has changed since the last one. The idea: domains and counting rows are worked out once per list of constraints and
kept until a node comes, goes or changes; pods of one template share their parsed constraints, so they find them by the
list itself. What is left for a cycle is one pass that adds up pods.

Limit: nothing is kept for a list that is one pod's own.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.label_column import Mask
from kscheduler.framework.node_table import NodeTable, Rows
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.spread_constraint import SpreadConstraint
from kscheduler.framework.topology import TopologyCounters
from kscheduler.plugins.pod_topology_spread.domains import (
    Counts,
    DomainNumbers,
    counting_rows,
    counts_at,
    existing_domains,
    rows_with_all_keys,
)

_ALL: Final = slice(None)
_BUDGET_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Domains:
    """One constraint's domains by number; number 0 is "the label is missing"."""

    constraint: SpreadConstraint
    of_row: DomainNumbers
    """Over the table's whole capacity."""
    size: int
    """How many numbers there are."""
    exists: Mask
    """Per domain whether a counting row is in it."""
    counting: Rows
    """The rows whose pods count."""
    of_counting: Rows
    """Their domains."""
    empty_value: int
    """The number of the empty value; 0 where no node has it."""
    nodes: NodeTable
    label: NDArray[np.int32] | None
    """The table's column of the label, where the pods of all rows count."""

    def pods(self, counters: TopologyCounters | None) -> Counts:
        """Per domain the pods that count: an array of the caller's own."""
        if self.label is not None and counters is not None and self.constraint.counted is not None:
            column = counters.matching(self.constraint.counted)
            told = counters.by_domain(column, self.constraint.topology_key, self.nodes)
            if told is not None and told.numbers.base is self.label:
                return told.sums.copy()
        sums = np.zeros(self.size, dtype=np.int64)
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
    feasible: Rows | None = None
    of_feasible: object = field(default=None)
    """What somebody has worked out for these feasible rows."""


class Layouts:
    """The layouts used lately, of one plugin."""

    def __init__(self) -> None:
        self._layouts: dict[Hashable, Layout] = {}
        self._bytes = 0

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
            return _layout(constraints, pod, nodes, needs_all_keys=needs_all_keys)
        key = id(constraints), needs_all_keys, *_places(constraints, pod)
        layout = self._layouts.pop(key, None)
        if layout is not None:
            self._bytes -= layout.bytes
        if layout is None or layout.nodes is not nodes or layout.version != nodes.node_columns_version:
            layout = _layout(constraints, pod, nodes, needs_all_keys=needs_all_keys)
        self._layouts[key] = layout
        self._bytes += layout.bytes
        while self._bytes > _BUDGET_BYTES and len(self._layouts) > 1:
            self._bytes -= self._layouts.pop(next(iter(self._layouts))).bytes
        return layout


def _places(constraints: tuple[SpreadConstraint, ...], pod: PodInfo) -> tuple[Hashable, ...]:
    """What of the pod decides which rows count."""
    wanted = (pod.node_selector, pod.required_node_terms) if any(one.honors_affinity for one in constraints) else ()
    return (*wanted, pod.tolerations) if any(one.honors_taints for one in constraints) else wanted


def _layout(
    constraints: tuple[SpreadConstraint, ...], pod: PodInfo, nodes: NodeTable, *, needs_all_keys: bool
) -> Layout:
    rows = nodes.rows()
    columns = [nodes.label_values(one.topology_key, rows) for one in constraints]
    shared = rows_with_all_keys([numbers for numbers, _ in columns]) if needs_all_keys else None
    domains = tuple(
        _domains(constraint, nodes, numbers, values, mask)
        for constraint, (numbers, values), mask in zip(
            constraints, columns, counting_rows(constraints, pod, nodes, rows, shared), strict=True
        )
    )
    size = sum(4 * len(one.of_row) + 24 * len(one.counting) for one in domains) + 8 * len(nodes)
    return Layout(constraints, nodes, nodes.node_columns_version, needs_all_keys, domains, size)


def _domains(
    constraint: SpreadConstraint,
    nodes: NodeTable,
    numbers: DomainNumbers,
    values: Sequence[str | None],
    mask: Mask | None,
) -> Domains:
    rows = nodes.rows()
    of_row = np.zeros(nodes.capacity, dtype=np.int32)
    of_row[rows] = numbers
    counting, of_counting = (rows, numbers) if mask is None else (rows[mask], numbers[mask])
    return Domains(
        constraint,
        of_row,
        len(values),
        existing_domains(numbers, len(values), mask),
        counting,
        of_counting.astype(np.intp),
        values.index("") if "" in values else 0,
        nodes,
        nodes.label_values(constraint.topology_key, _ALL)[0].base if mask is None else None,
    )
