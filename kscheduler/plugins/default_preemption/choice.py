"""The node where a preemption does the least harm, over columns of candidates.

Criteria in order, each among the candidates that are equal by all earlier criteria: the fewest broken budgets; the
lowest priority of the most important victim; the smallest sum of priorities (2^31 is added to each, so that negative
priorities count, too); the fewest victims; the latest start of the longest-running among the most important victims.
Among candidates that are still equal, the highest hash of the preemptor's UID and the node's name decides; upstream
chooses at random.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.framework.cluster.preemption import Candidate, Evictions
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows, stable_hash
from kscheduler.framework.nodes.pod_columns import NOT_STARTED, Items, Removable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import mix

_OFFSET: Final = 2**31


class Candidates(msgspec.Struct, frozen=True):
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


def without_victims(rows: Rows) -> Candidates:
    """Rows, ascending, that an extender may name victims on: by themselves they need none."""
    nothing = np.zeros(len(rows), dtype=np.int64)
    started = np.full(len(rows), NOT_STARTED)
    return Candidates(rows, nothing, nothing, nothing, nothing, started, _first=nothing, _pods_at=lambda _: [])


def candidates(pods: Removable, is_out: Mask, broken: Mask, fits: Mask) -> Candidates:
    """The rows where the preemptor fits without the pods that are out; rows without a victim are left out.

    `is_out` and `broken`: bool [pods]; `fits`: bool [rows of `pods`].
    """
    starts = pods.starts
    victims = np.add.reduceat(is_out, starts, dtype=np.int64)
    has_victims = fits & (victims > 0)
    out = is_out.nonzero()[0]
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


# When to stop trying nodes: enough candidates, and at least one that breaks no budget.
#
# Nodes are tried in batches, but the result depends on their order in the ring only: candidates after the point where
# there were enough are left out, so the size of a batch makes no difference.

# A search begins with at most about four times as many nodes as would be enough if all were candidates.
_LEAST_SHARE: Final = 0.25


class Shortlist:
    """Counts the candidates of one search."""

    def __init__(self, wanted: int, share: float = 1.0) -> None:
        """`share`: the share of candidates among the nodes tried in the last search, 0..1."""
        self._wanted = wanted
        self._share = share
        self._clean = 0
        """Candidates that break no budget."""
        self._breaking = 0

    @property
    def missing(self) -> int:
        """How many candidates are missing: at least this number of further nodes has to be tried."""
        return max(self._wanted - self._clean - self._breaking, 0)

    def likely_enough(self, tried: int) -> int:
        """How many further nodes are probably enough, by the share of candidates so far; without any, as many again.

        A few more than the share suggests, because each further batch costs a pass over the table.
        """
        found = self._clean + self._breaking
        if not tried:
            return (
                self.missing
                if self._share == 1.0
                else math.ceil(self.missing / max(self._share, _LEAST_SHARE) * 17 / 16)
            )
        return -(-self.missing * tried * 9 // (found * 8)) if found and self.missing else tried

    @property
    def is_full(self) -> bool:
        """Whether there are enough candidates."""
        return self._clean > 0 and not self.missing

    def take(self, batch: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """The candidates of a batch (rows in ring order) that come before there are enough.

        Candidates are put in ring order and counted; `stop` is the place after the first one with which there are
        enough. Of those that break a budget no more than wanted are kept.
        """
        if not found:
            return []
        rows = np.concatenate([part.rows for part in found])
        is_clean = np.concatenate([part.broken_budgets for part in found]) == 0
        if not self._breaking and is_clean.all():
            return self._take_clean(batch, rows, found)
        order = _places(batch, rows).argsort()
        is_clean = is_clean.take(order)
        clean, breaking = self._clean + is_clean.cumsum(), self._breaking + (~is_clean).cumsum()
        enough = ((clean > 0) & (clean + breaking >= self._wanted)).nonzero()[0]
        stop = int(enough[0]) + 1 if len(enough) else len(rows)
        in_time = order[:stop][is_clean[:stop] | (breaking[:stop] <= self._wanted)]
        self._clean, self._breaking = int(clean[stop - 1]), min(int(breaking[stop - 1]), self._wanted)
        if len(in_time) == len(rows):
            return list(found)
        is_kept = np.zeros(len(rows), dtype=np.bool_)
        is_kept[in_time] = True
        ends = np.cumsum([len(part) for part in found])
        return [part.kept(is_kept[end - len(part) : end]) for part, end in zip(found, ends.tolist(), strict=True)]

    def _take_clean(self, batch: Rows, rows: Rows, found: Sequence[Candidates]) -> list[Candidates]:
        """The same where no candidate breaks a budget: the first of them, as many as are missing."""
        room = max(self._wanted, 1) - self._clean
        self._clean += min(room, len(rows))
        if len(rows) <= room:
            return list(found)
        is_kept = np.zeros(int(batch.max()) + 1, dtype=np.bool_)
        is_kept[rows] = True
        is_kept[batch.take(is_kept.take(batch).nonzero()[0])[room:]] = False
        return [part.kept(is_kept.take(part.rows)) for part in found]


def _places(batch: Rows, rows: Rows) -> Rows:
    """The place of each row in the batch, intp [rows]."""
    places = np.zeros(int(batch.max()) + 1, dtype=np.intp)
    places[batch] = np.arange(len(batch))
    return places.take(rows)


# Which pods may preempt, and whether a preemption has left terminating pods behind.

NEVER: Final = "Never"


def not_eligible(pod: PodInfo, nominated: str, nodes: NodeTable, potential: Rows, evictions: Evictions) -> str:
    """Why the pod may not preempt; empty where it may.

    Two preemptors may be nominated to the same node: the decision about the second leaves the first its room. Until the
    second's victims are gone, the first would find both these and the second in its way, and evict pods elsewhere.
    """
    if pod.pod.spec.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never."
    row = nodes.row_of(nominated) if nominated else -1
    if row < 0 or row not in potential:  # the earlier nomination is of no use, so the pod may try again
        return ""
    others = nodes.info(row).pods.values()
    if any(other.priority < pod.priority and is_preempted(other) for other in others):
        return "not eligible due to a terminating pod on the nominated node."
    if evictions.is_clearing(nominated, pod):
        return "not eligible due to a pod on the nominated node that is about to be preempted."
    return ""


def is_preempted(pod: PodInfo) -> bool:
    """Whether the pod is terminating because the scheduler has preempted it."""
    if not pod.is_terminating:
        return False
    target = next((each for each in pod.pod.status.conditions if each.type == "DisruptionTarget"), None)
    return target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
