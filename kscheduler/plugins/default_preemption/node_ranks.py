"""What it costs to put a member of a preempting group on a node: the victims there that nobody has condemned yet.

    rank 0     no victims
    rank 1...  by the set of victims: fewer against a disruption budget, then priority by priority from the highest the
               lower one and the fewer pods, then fewer pods in all, then kinds and sizes one by one, then fewer units

A member that is placed condemns the victims of its node, so that the next members pay nothing there; a unit with pods
on several nodes is condemned on all of them. As in kube-scheduler a node costs all of its victims, also those that
could stay beside the member: they are put back later, but another node may have been taken by then.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence
from itertools import groupby

import numpy as np

from kscheduler.framework.nodes.node_table import Rows, Scores
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.default_preemption.unit_search import VictimUnit

# Sorts sets of victims. Where one is the beginning of the other, it is the cheaper one.
_Cost = tuple[int, tuple[tuple[int, int], ...], int, tuple[tuple[int, int], ...]]


class VictimRanks:
    """Implements `framework.cluster.pod_groups.NodeRanks`."""

    def __init__(
        self, units: Sequence[VictimUnit], broken: Sequence[int], row_of: Callable[[PodInfo], int], capacity: int
    ) -> None:
        """`units`: those that may go, most important first. `broken`: how many pods of each break a budget."""
        self._units = units
        self._broken = broken
        self._rows_of = [sorted({row for pod in unit.pods if (row := row_of(pod)) >= 0}) for unit in units]
        self._on_row: dict[int, list[int]] = {}
        """By row its units, as indices, most important first."""
        for number, rows in enumerate(self._rows_of):
            for row in rows:
                self._on_row.setdefault(row, []).append(number)
        self._condemned: set[int] = set()
        costs = {row: self._cost(row) for row in self._on_row}
        self._costs = sorted(set(costs.values()))
        """Each cost that there was, once: its rank is its place, from 1 on."""
        places = {cost: place for place, cost in enumerate(self._costs, start=1)}
        self._ranks = np.zeros(capacity, dtype=np.int64)
        for row, cost in costs.items():
            self._ranks[row] = places[cost]

    def of(self, rows: Rows) -> Scores:
        """A rank per row; only their order means anything."""
        return self._ranks[rows]

    def take(self, row: int) -> Hashable:
        """Condemn the units of the row."""
        taken = tuple(number for number in self._on_row.get(row, ()) if number not in self._condemned)
        self._condemned.update(taken)
        self._changed(taken)
        return taken

    def give_back(self, taken: Hashable) -> None:
        """These units are not condemned any more."""
        if isinstance(taken, tuple):
            self._condemned.difference_update(taken)
            self._changed(taken)

    def _changed(self, units: Sequence[int]) -> None:
        for row in {row for number in units for row in self._rows_of[number]}:
            is_free = all(number in self._condemned for number in self._on_row[row])
            self._ranks[row] = 0 if is_free else self._rank(self._cost(row))

    def _rank(self, cost: _Cost) -> int:
        place = bisect_left(self._costs, cost)
        if place == len(self._costs) or self._costs[place] != cost:
            self._costs.insert(place, cost)
            self._ranks[self._ranks > place] += 1  # those that cost more
        return place + 1

    def _cost(self, row: int) -> _Cost:
        left = [number for number in self._on_row[row] if number not in self._condemned]
        units = [self._units[number] for number in left]
        by_priority = tuple(
            (priority, sum(len(unit.pods) for unit in same))
            for priority, same in groupby(units, lambda unit: unit.priority)
        )
        sizes = tuple((unit.is_group + unit.is_composite, len(unit.pods)) for unit in units)
        return sum(self._broken[number] for number in left), by_priority, sum(size for _, size in sizes), sizes
