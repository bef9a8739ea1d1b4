"""Results of the search for victims, kept per row for the next preemptor of the same class.

The problem: a controller's preemptors come by the hundred, all alike, and each tries hundreds of nodes on which nothing
has changed since the preemptor before. The idea: where the filters read nothing but the row, the result depends on the
preemptor's class (`DryRun.row_class`) and priority, the row's node and pods, the pods nominated there, and the
disruption budgets. Class and priority are the key; logs name the rows whose node, pods or nominations have changed; a
change of budgets drops all results. So a kept result equals the result of a new search.

Limits: a class is kept from its second preemptor on. A nominated preemptor searches again, because on its node all
nominated pods count but itself. The reason why a row is no candidate is not kept, so a preemptor without any candidate
searches again to explain it.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.pod_columns import Items
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.default_preemption.choice import Candidates
from kscheduler.plugins.default_preemption.victims import Tried, VictimSearch

_UNKNOWN, _NO_CANDIDATE, _CANDIDATE = range(3)
# Rows of `RememberedRows._numbers`: the columns of `Candidates`, and the place in the list of the first victim.
_BROKEN, _HIGHEST, _SUM, _VICTIMS, _FIRST = range(5)
_BYTES_PER_ROW: Final = 100
_BUDGET_BYTES: Final = 32 * 2**20
# The preemptors of each Job are a class, and most classes never return.
_MAX_CLASSES: Final = 16
# The most victims of all classes but the last: deleted pods are kept alive as well, about 2 KB each.
_MAX_VICTIMS: Final = 50_000
_MAX_SEEN: Final = 256
# The most classes remembered as seen once.
_SEEN_BYTES: Final = 4 * 2**20


class RememberedRows:
    """The results for the rows of one table and for preemptors of one class."""

    def __init__(self, capacity: int) -> None:
        self._verdict = np.zeros(capacity, dtype=np.int8)
        self._numbers: NDArray[np.int64] = np.zeros((5, capacity), dtype=np.int64)
        self._started = np.zeros(capacity, dtype=np.float64)
        self._victims: list[PodInfo] = []
        """The victims of all rows; those of a row that is learned again go to the end, which leaves waste behind."""
        self._waste = 0
        self._logs: tuple[ChangeLog, ...] = ()
        self._positions: tuple[int, ...] = ()
        self._budgets: tuple[PodDisruptionBudget, ...] = ()

    def __len__(self) -> int:
        """How many pods the results keep alive."""
        return len(self._victims)

    def follow(self, logs: tuple[ChangeLog, ...], budgets: tuple[PodDisruptionBudget, ...]) -> None:
        """Forget the rows that have changed since the last preemptor."""
        if self._logs != logs or self._budgets != budgets or self._waste > len(self._victims) // 2 + 4096:
            self._forget_all()
        else:
            for log, position in zip(logs, self._positions, strict=True):
                changed = log.since(position)
                if changed is None:
                    self._forget_all()
                elif len(changed):
                    self._verdict[changed] = _UNKNOWN
        self._logs, self._budgets = logs, budgets
        self._positions = tuple(log.position for log in logs)

    def on(self, rows: Rows, search: VictimSearch) -> Tried:
        """What a search on the rows (ascending) finds; only the unknown rows are searched.

        The rows that are no candidates are reported only if all rows were unknown; the result says so in `reports_all`.
        """
        unknown = rows.take((self._verdict.take(rows) == _UNKNOWN).nonzero()[0])
        if len(unknown):
            tried = search.on(unknown)
            if tried.errors:  # a plugin failed, which may not happen again: keep nothing
                return tried if len(unknown) == len(rows) else search.on(rows)
            self._learn(unknown, tried)
            if len(unknown) == len(rows):
                return tried
        candidates = rows.take((self._verdict.take(rows) == _CANDIDATE).nonzero()[0])
        return Tried(found=[self._found(candidates)] if len(candidates) else [], reports_all=False)

    def _found(self, rows: Rows) -> Candidates:
        numbers = self._numbers.take(rows, axis=1)
        return Candidates(
            rows=rows,
            broken_budgets=numbers[_BROKEN],
            highest_priority=numbers[_HIGHEST],
            sum_of_priorities=numbers[_SUM],
            victims=numbers[_VICTIMS],
            started=self._started.take(rows),
            _first=numbers[_FIRST],
            _pods_at=_Listed(self._victims),
        )

    def _learn(self, rows: Rows, tried: Tried) -> None:
        self._verdict[rows] = _NO_CANDIDATE
        self._waste += int(self._numbers[_VICTIMS].take(rows).sum())
        self._numbers[_VICTIMS, rows] = 0
        for found in tried.found:
            numbers = (found.broken_budgets, found.highest_priority, found.sum_of_priorities, found.victims)
            first = len(self._victims) + np.cumsum(found.victims) - found.victims
            self._numbers[:, found.rows] = (*numbers, first)
            self._started[found.rows] = found.started
            self._verdict[found.rows] = _CANDIDATE
            self._victims += found.all_victims()

    def _forget_all(self) -> None:
        """Drop all results. Candidates that were returned before keep the list that they were made from."""
        self._verdict[:] = _UNKNOWN
        self._numbers[_VICTIMS] = 0
        self._victims = []
        self._waste = 0


class _Listed:
    """Pods by their places in a list that only grows; called with places, it returns the pods."""

    def __init__(self, pods: list[PodInfo]) -> None:
        self._pods = pods

    def __call__(self, items: Items) -> list[PodInfo]:
        return [self._pods[item] for item in items.tolist()]


class RowMemory:
    """The classes of one table; the least recently used are forgotten."""

    def __init__(self) -> None:
        self._nodes: NodeTable | None = None
        self._shape = 0, 0
        self._seen: RecentlyUsed[Hashable, bool] = RecentlyUsedByWeight(
            _MAX_SEEN, _SEEN_BYTES, lambda key, _: weight_of(key)
        )
        self._classes: dict[Hashable, RememberedRows] = {}

    def __len__(self) -> int:
        """How many classes it knows."""
        return len(self._classes)

    def of(self, search: VictimSearch) -> RememberedRows | None:
        """The up-to-date results for preemptors of this class; `None` where nothing is known or can be."""
        row_class = None if search.filters.counts_pods else search.filters.row_class()
        if row_class is None:
            return None
        nodes, key = search.nodes, (row_class, search.pod.priority, search.none_needed)
        shape = nodes.capacity, nodes.resources_version  # a pod may have lacked a resource that is new
        if nodes is not self._nodes or shape != self._shape:
            self._nodes, self._shape = nodes, shape
            self._seen.clear()
            self._classes.clear()
        known = self._classes.pop(key, None)
        if known is None:
            if not self._is_seen(key):
                return None
            known = RememberedRows(nodes.capacity)
        known.follow((nodes.row_changes, search.filters.expected_changes), search.budgets.listed())
        self._classes[key] = known
        self._make_room(_BUDGET_BYTES // (_BYTES_PER_ROW * nodes.capacity))
        return known

    def _make_room(self, most: int) -> None:
        """Drop old classes; the current class stays, whatever its size.

        No size-limited cache does this, because a class grows after it was put here.
        """
        victims = sum(map(len, self._classes.values()))
        while len(self._classes) > 1 and (len(self._classes) > min(most, _MAX_CLASSES) or victims > _MAX_VICTIMS):
            victims -= len(self._classes.pop(next(iter(self._classes))))

    def _is_seen(self, key: Hashable) -> bool:
        """Whether the class has come before; one that is too heavy to be kept never has, and nothing is known of it."""
        is_seen = key in self._seen
        self._seen[key] = True
        return is_seen
