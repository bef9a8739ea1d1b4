"""The node where a preemption hurts least, over columns of candidates.

In this order, each criterion among those that the ones before leave over: fewest broken budgets; the least important
"most important victim"; the smallest sum of priorities (each raised by 2^31, so that negative ones add up, too); the
fewest victims; the latest start of the longest-running victim among the most important ones. Whoever is left then is
equal, and the highest mix of the preemptor's UID and the node's name decides: upstream leaves it to chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.preemption import Candidate
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows, stable_hash
from kscheduler.framework.nodes.occupants import Items, Removable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.ties import mix

_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows where evicting victims makes room, with what decides among them; one entry per row, rows ascending."""

    rows: Rows
    broken_budgets: NDArray[np.int64]
    highest_priority: NDArray[np.int64]
    sum_of_priorities: NDArray[np.int64]
    victims: NDArray[np.int64]
    started: NDArray[np.float64]
    """When the longest-running of the most important victims began."""
    _first: Items
    """Where the first victim is; the others follow it."""
    _pods_at: Callable[[Items], list[PodInfo]]

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, place: int, nodes: NodeTable) -> Candidate:
        """One of them, with its victims as pods."""
        first = int(self._first[place])
        victims = tuple(self._pods_at(np.arange(first, first + int(self.victims[place]))))
        return Candidate(nodes.name_of(int(self.rows[place])), victims, int(self.broken_budgets[place]))

    def all_victims(self) -> list[PodInfo]:
        """Those of the first row, then those of the next one."""
        before = np.cumsum(self.victims) - self.victims
        return self._pods_at(np.repeat(self._first - before, self.victims) + np.arange(int(self.victims.sum())))

    def kept(self, where: Mask) -> "Candidates":
        """Some of them."""
        return Candidates(
            self.rows[where],
            self.broken_budgets[where],
            self.highest_priority[where],
            self.sum_of_priorities[where],
            self.victims[where],
            self.started[where],
            self._first[where],
            self._pods_at,
        )


def candidates(pods: Removable, is_out: Mask, broken: Mask, fits: Mask) -> Candidates:
    """The rows that fit (one entry per row of `pods`) once the pods that are out are gone; those with none are none."""
    starts = pods.starts
    victims = np.add.reduceat(is_out, starts, dtype=np.int64)
    has_victims = fits & (victims > 0)
    out = np.flatnonzero(is_out)
    place = np.searchsorted(out, starts[has_victims])
    first = out[place]
    raised = np.where(is_out, pods.priorities + _OFFSET, 0)
    return Candidates(
        rows=pods.rows[has_victims],
        broken_budgets=np.add.reduceat(is_out & broken, starts, dtype=np.int64)[has_victims],
        highest_priority=pods.priorities[first],
        sum_of_priorities=np.add.reduceat(raised, starts)[has_victims],
        victims=victims[has_victims],
        started=pods.started[first],
        _first=place,
        _pods_at=lambda items: pods.pods_at(out.take(items)),
    )


def choose(found: Sequence[Candidates], nodes: NodeTable, preemptor: PodInfo) -> Candidate:
    """The best of them all (at least one)."""
    left: Items | None = None
    for criterion in zip(*(_criteria(one) for one in found), strict=True):
        values = criterion[0] if len(criterion) == 1 else np.concatenate(criterion)
        values = values if left is None else values.take(left)
        (best_ones,) = (values == values[values.argmin()]).nonzero()
        if len(best_ones) < len(values):
            left = best_ones if left is None else left.take(best_ones)
        if len(best_ones) == 1:
            break
    if left is None:
        left = np.arange(sum(map(len, found)))
    best = int(left[0]) if len(left) == 1 else _among_equals(left, found, nodes, preemptor)
    for one in found:
        if best < len(one):
            return one.at(best, nodes)
        best -= len(one)
    raise IndexError(best)


def _criteria(one: Candidates) -> tuple[NDArray[Any], ...]:
    """What the smallest of is best, the first one first."""
    return one.broken_budgets, one.highest_priority, one.sum_of_priorities, one.victims, -one.started


def _among_equals(left: Items, found: Sequence[Candidates], nodes: NodeTable, preemptor: PodInfo) -> int:
    rows = np.concatenate([one.rows for one in found]).take(left)
    mixed = mix(nodes.name_hash.take(rows), stable_hash(preemptor.uid))
    return int(left[mixed.argmax()])
