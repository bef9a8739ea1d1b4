"""A topology key over the nodes: the same for all constraints that name it, whosever they are.

Fifty Deployments that spread over zones would otherwise have fifty copies of who is in which zone, and each decision
would read another one. Kept until a node comes, goes or shows another label (`node_columns_version`).
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.bounded.within_budget import WithinBudget
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.plugins.pod_topology_spread.domains import DomainNumbers, existing_domains

_ALL: Final = slice(None)
_MOST_KEYS: Final = 64
_MOST_FEASIBLE: Final = 32
_BUDGET_BYTES: Final = 16 * 2**20
_BYTES_PER_FEASIBLE_ROW: Final = 32


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """Who is in which domain of one key."""

    of_row: DomainNumbers
    """Over the table's whole capacity."""
    of_live: DomainNumbers
    """Over the live rows."""
    size: int
    """How many numbers there are."""
    exists: Mask
    """Per domain whether a live row is in it."""
    is_everywhere: bool
    """Whether all live rows have the label."""
    empty_value: int
    """The number of the empty value; 0 where no node has it."""
    label: NDArray[np.int32] | None
    """The table's own column, to know it by."""


class Feasible:
    """What was worked out lately about feasible rows, by how many they are, and the first and the last of them.

    Beside a hard constraint by zone, pods are left with now one zone and now another, again and again.
    """

    def __init__(self) -> None:
        self._known: WithinBudget[Hashable, tuple[Rows, object]] = WithinBudget(_BUDGET_BYTES, _MOST_FEASIBLE)

    def find(self, rows: Rows) -> object | None:
        """What was kept for the same rows."""
        rows_then, told = self._known.get(_mark(rows)) or (None, None)
        if rows_then is rows or (rows_then is not None and bool((rows_then == rows).all())):
            return told
        return None

    def keep(self, rows: Rows, told: object) -> None:
        """Keep it; what was kept first makes room. The rows must not change."""
        self._known.put(_mark(rows), (rows, told), _BYTES_PER_FEASIBLE_ROW * len(rows))

    def forget(self) -> None:
        """Give all of it back: whoever still holds this one holds nothing."""
        self._known.clear()


def _mark(rows: Rows) -> Hashable:
    return (len(rows), rows.item(0), rows.item(-1)) if len(rows) else 0


class KeyColumns:
    """The columns of the keys in use, and what was worked out for lists of them."""

    def __init__(self) -> None:
        self._nodes: NodeTable | None = None
        self._version = -1
        self._columns: dict[str, KeyColumn] = {}
        self._feasible: dict[Hashable, Feasible] = {}

    def follow(self, nodes: NodeTable) -> None:
        """Forget what holds for another table, or for one that has changed."""
        if nodes is not self._nodes or nodes.node_columns_version != self._version or len(self._columns) > _MOST_KEYS:
            self._nodes, self._version = nodes, nodes.node_columns_version
            self._columns = {}
            self._forget_feasible()

    def of(self, key: str, nodes: NodeTable) -> KeyColumn:
        """The column of this key, as nodes are now."""
        self.follow(nodes)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _column(key, nodes)
        return column

    def feasible(self, keys: tuple[str, ...], *, needs_all_keys: bool) -> Feasible:
        """For all lists of constraints by these keys, in this order."""
        if len(self._feasible) > _MOST_KEYS:
            self._forget_feasible()
        return self._feasible.setdefault((keys, needs_all_keys), Feasible())

    def _forget_feasible(self) -> None:
        """Layouts of before may be kept for long, and are never used again."""
        for one in self._feasible.values():
            one.forget()
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
