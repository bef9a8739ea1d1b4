"""The node where a preemption does the least harm, over columns of candidates.

Criteria in order, each among the candidates that are equal by all earlier criteria: the fewest broken budgets; the
lowest priority of the most important victim; the smallest sum of priorities (2^31 is added to each, so that negative
priorities count, too); the fewest victims; the latest start of the longest-running among the most important victims.
Among candidates that are still equal, the highest hash of the preemptor's UID and the node's name decides; upstream
chooses at random.
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
    """Rows where evicting victims makes room, with the criteria; all arrays are [candidates], by ascending row."""

    rows: Rows
    broken_budgets: NDArray[np.int64]
    highest_priority: NDArray[np.int64]
    sum_of_priorities: NDArray[np.int64]
    victims: NDArray[np.int64]
    started: NDArray[np.float64]
    """The start of the longest-running of the most important victims, in seconds since the epoch."""
    _first: Items
    """The place of the first victim; the others follow it."""
    _pods_at: Callable[[Items], list[PodInfo]]

    def __len__(self) -> int:
        return len(self.rows)

    def at(self, place: int, nodes: NodeTable) -> Candidate:
        """The candidate at this place, with its victims as pods."""
        first = int(self._first[place])
        victims = tuple(self._pods_at(np.arange(first, first + int(self.victims[place]))))
        return Candidate(nodes.name_of(int(self.rows[place])), victims, int(self.broken_budgets[place]))

    def all_victims(self) -> list[PodInfo]:
        """The victims of the first row, then those of the second, and so on."""
        before = np.cumsum(self.victims) - self.victims
        return self._pods_at(np.repeat(self._first - before, self.victims) + np.arange(int(self.victims.sum())))

    def kept(self, where: Mask) -> "Candidates":
        """The candidates where the mask, bool [candidates], is true."""
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


def one_candidate(
    row: int, victims: Sequence[PodInfo], broken_budgets: int, highest_priority: int, started: float
) -> Candidates:
    """A single row with these victims, most important first; never empty."""
    pods = list(victims)
    return Candidates(
        rows=np.array([row], dtype=np.intp),
        broken_budgets=np.array([broken_budgets], dtype=np.int64),
        highest_priority=np.array([highest_priority], dtype=np.int64),
        sum_of_priorities=np.array([sum(pod.priority + _OFFSET for pod in pods)], dtype=np.int64),
        victims=np.array([len(pods)], dtype=np.int64),
        started=np.array([started], dtype=np.float64),
        _first=np.zeros(1, dtype=np.intp),
        _pods_at=lambda items: [pods[item] for item in items.tolist()],
    )


def candidates(pods: Removable, is_out: Mask, broken: Mask, fits: Mask) -> Candidates:
    """The rows where the preemptor fits without the pods that are out; rows without a victim are left out.

    `is_out` and `broken`: bool [pods]; `fits`: bool [rows of `pods`].
    """
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
    """The best of all candidates, of which there must be at least one.

    `left` holds the places, in all of `found` put together, of the candidates that are equal so far; `None` is all.
    """
    left: Items | None = None
    for criterion in zip(*(_criteria(part) for part in found), strict=True):
        values = criterion[0] if len(criterion) == 1 else np.concatenate(criterion)
        values = values if left is None else values.take(left)
        (smallest,) = (values == values[values.argmin()]).nonzero()
        if len(smallest) < len(values):
            left = smallest if left is None else left.take(smallest)
        if len(smallest) == 1:
            break
    if left is None:
        left = np.arange(sum(map(len, found)))
    best = int(left[0]) if len(left) == 1 else _among_equals(left, found, nodes, preemptor)
    for part in found:
        if best < len(part):
            return part.at(best, nodes)
        best -= len(part)
    raise IndexError(best)


def _criteria(part: Candidates) -> tuple[NDArray[Any], ...]:
    """The criteria in order, each [candidates]; the smallest value is the best."""
    return part.broken_budgets, part.highest_priority, part.sum_of_priorities, part.victims, -part.started


def _among_equals(left: Items, found: Sequence[Candidates], nodes: NodeTable, preemptor: PodInfo) -> int:
    rows = np.concatenate([part.rows for part in found]).take(left)
    mixed = mix(nodes.name_hash.take(rows), stable_hash(preemptor.uid))
    return int(left[mixed.argmax()])
