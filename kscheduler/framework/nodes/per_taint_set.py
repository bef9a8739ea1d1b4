"""A number for each set of taints on nodes, as a function of the taints and a list of tolerations.

Nodes share few sets of taints. Each set is evaluated once per list of tolerations, and the result is spread over the
rows by a lookup. Sets appear and vanish with the nodes' taints, and their numbers are reused (`interned`): a table
follows the log of changed numbers, so a changed taint costs each table a single evaluation, on its next use. Another
NodeTable (a what-if) has other numbers, so all tables are dropped.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Taint, Toleration
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.nodes.interned import Interned
from kscheduler.framework.nodes.node_table import NodeTable

Taints = tuple[Taint, ...]
Tolerations = tuple[Toleration, ...]

# Lists of tolerations, the newest: each takes 8 bytes per set of taints, and the list itself.
KEPT_TABLES: Final = 256

# Of long lists.
_BUDGET_BYTES: Final = 2 * 2**20


class _Table:
    """The numbers for a list of tolerations."""

    __slots__ = ("numbers", "seen")

    def __init__(self, numbers: NDArray[np.int64], seen: int) -> None:
        self.numbers = numbers
        self.seen = seen
        """The position in the log of changes."""


class PerTaintSet:
    """A number per taint set of a table, kept for the last `KEPT_TABLES` lists of tolerations."""

    def __init__(self, function: Callable[[Taints, Tolerations], int]) -> None:
        self._function = function
        self._of: Interned[Taints] | None = None
        self._tables: RecentlyUsed[Tolerations, _Table] = RecentlyUsedByWeight(
            KEPT_TABLES, _BUDGET_BYTES, lambda tolerations, _: weight_of(tolerations)
        )

    def table(self, nodes: NodeTable, tolerations: Tolerations) -> NDArray[np.int64]:
        """A number (int64) per entry of the table's `taint_sets`. Shared and updated in place: do not write or keep."""
        sets = nodes.taint_sets
        if sets is not self._of:
            self._of = sets
            self._tables.clear()
        table = self._tables.get(tolerations)
        if table is None:
            table = _Table(self._numbers(tolerations, sets, 0), sets.changes.position)
            self._tables[tolerations] = table
        elif table.seen != sets.changes.position or len(table.numbers) != len(sets):
            self._follow(table, tolerations, sets)
        return table.numbers

    def _follow(self, table: _Table, tolerations: Tolerations, sets: Interned[Taints]) -> None:
        changed = sets.changes.since(table.seen)
        if changed is None:
            table.numbers = self._numbers(tolerations, sets, 0)
        else:
            for number in changed.tolist():
                if number < len(table.numbers):
                    table.numbers[number] = self._function(sets[number], tolerations)
            if len(table.numbers) < len(sets):
                table.numbers = np.concatenate([table.numbers, self._numbers(tolerations, sets, len(table.numbers))])
        table.seen = sets.changes.position

    def _numbers(self, tolerations: Tolerations, sets: Interned[Taints], first: int) -> NDArray[np.int64]:
        """The results for the sets with the numbers from `first` on."""
        numbers = [self._function(sets[number], tolerations) for number in range(first, len(sets))]
        return np.array(numbers, dtype=np.int64)
