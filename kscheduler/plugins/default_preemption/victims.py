"""Which pods would have to be evicted, on many nodes at once.

    remove all pods of lower priority -> does the preemptor fit? -> put them back one by one, while it still fits

Pods whose eviction would break a budget are put back first, then the others, in both groups the most important first.
Step k puts back the k-th pod of every row and runs the filters once over all rows that still have pods left: the cost
is a pass over arrays per pod of the fullest node, not per pod of all nodes. Plugins that count pods beyond their own
row (spread, affinity) keep the moves on a row apart from the counts of all rows. Where a plugin cannot do that, rows
whose victims it counts are judged one by one, each with its own state; all other rows are still judged together.

A failing plugin affects its row only: if it failed on several rows at once, they are judged again one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

import msgspec
import numpy as np

from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.dry_run import DryRun
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows, stable_hash
from kscheduler.framework.nodes.pod_columns import Items, PodColumns, Removable, started_at
from kscheduler.framework.nodes.trial_table import TrialTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.rules.scoring import mix
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.plugins.default_preemption.budgets import BudgetRules, reprieve_order
from kscheduler.plugins.default_preemption.choice import Candidates, candidates, without_victims

# Choosing among candidates that somebody has reviewed: few of them, as values and not as columns.
#
# A review is about the victims that were shown. While it took place pods may have come and gone; a node whose victims
# are others now must be reviewed again. A reviewer may have named other victims: they must still be on the node.

_OFFSET: Final = 2**31


def still_allowed(
    reviewed: Mapping[str, ReviewedCandidate], found: Sequence[Candidate], nodes: NodeTable
) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
    """The candidates that may be chosen, and, if there is none, those that must be reviewed next."""
    allowed: list[Candidate] = []
    unreviewed: list[Candidate] = []
    for candidate in found:
        review = reviewed.get(candidate.node_name)
        if review is None or review.proposed != {victim.uid for victim in candidate.victims}:
            unreviewed.append(candidate)
        elif review.allowed is not None and _are_there(review.allowed, nodes):
            allowed.append(review.allowed)
    return tuple(allowed), () if allowed else tuple(unreviewed)


def _are_there(candidate: Candidate, nodes: NodeTable) -> bool:
    row = nodes.row_of(candidate.node_name)
    return row >= 0 and all(victim.uid in nodes.info(row).pods for victim in candidate.victims)


def choose_listed(candidates: Sequence[Candidate], nodes: NodeTable, preemptor: PodInfo) -> Candidate:
    """The best of the candidates (at least one), by the criteria of `choice`."""
    seed = stable_hash(preemptor.uid)

    def badness(candidate: Candidate) -> tuple[float, ...]:
        priorities = [victim.priority for victim in candidate.victims]
        highest = max(priorities)
        started = min(started_at(victim) for victim in candidate.victims if victim.priority == highest)
        mixed = mix(nodes.name_hash[[nodes.row_of(candidate.node_name)]], seed)
        raised = sum(priority + _OFFSET for priority in priorities)
        return candidate.broken_budgets, highest, raised, len(priorities), -started, -int(mixed[0])

    return min(candidates, key=badness)


NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


class NoneNeeded(Enum):
    """What a node is where the preemptor fits once all less important pods are out, and with all of them back, too."""

    ERROR = auto()
    REJECTED = auto()
    CANDIDATE = auto()
    """An extender may name victims: what it holds back for them no filter has seen."""


@dataclass(slots=True)
class Tried:
    """The result of trying some rows."""

    found: list[Candidates] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    reports_all: bool = True
    """Whether `rejections` holds every row that is no candidate."""


class VictimSearch(msgspec.Struct, frozen=True):
    """The search for a preemptor's victims."""

    pod: PodInfo
    nodes: NodeTable
    state: CycleState
    filters: DryRun
    pod_columns: PodColumns
    budgets: BudgetRules
    none_needed: NoneNeeded = NoneNeeded.ERROR

    def on(self, rows: Rows) -> Tried:
        """Try the rows, which must be ascending."""
        tried = Tried()
        kinds = self.filters.counts_pods or bool(self.budgets.listed())
        pods = self.pod_columns.below(self.nodes, rows, self.pod.priority, kinds=kinds)
        if len(pods.rows) < len(rows):
            without = np.setdiff1d(rows, pods.rows, assume_unique=True)
            tried.rejections.append(rejection(without, NO_VICTIMS))
        if len(pods.rows):
            self._judge(pods, tried)
        return tried

    def _judge(self, pods: Removable, tried: Tried) -> None:
        broken = self.budgets.breaking(pods)
        trial = _Trial(self, TrialTable(self.nodes, pods), pods, reprieve_order(pods, broken))
        fits = np.zeros(len(pods.rows), dtype=np.bool_)
        again: list[int] = []
        for group in self._groups(trial, tried):
            passing = trial.judge(group, tried)
            if passing is None:
                again.extend(group.rows.tolist())
            else:
                fits[np.searchsorted(pods.rows, passing)] = True
        if fits.any():
            found = candidates(pods, trial.table.is_out, broken, fits)
            if len(found):
                tried.found.append(found)
            unneeded = np.setdiff1d(pods.rows[fits], found.rows, assume_unique=True)
            if len(unneeded):
                self.note_unneeded(unneeded, tried)
        for row in again:
            self._alone(row, tried)

    def note_unneeded(self, rows: Rows, tried: Tried) -> None:
        """The rows, ascending, need no victims."""
        match self.none_needed:
            case NoneNeeded.ERROR:
                names = map(self.nodes.name_of, rows.tolist())
                tried.errors += [f'expected at least one victim pod on node "{name}"' for name in names]
            case NoneNeeded.REJECTED:
                tried.rejections.append(rejection(rows, NO_VICTIMS))
            case NoneNeeded.CANDIDATE:
                tried.found.append(without_victims(rows))

    def _alone(self, row: int, tried: Tried) -> None:
        result = self.on(np.array([row], dtype=np.intp))
        tried.found += result.found
        tried.rejections += result.rejections
        tried.errors += result.errors

    def _groups(self, trial: "_Trial", tried: Tried) -> Iterator["_Group"]:
        """Rows that can be judged together. Rows where a plugin fails to count are in no group; the error is noted."""
        pods = trial.pods
        if not self.filters.counts_pods:
            yield _Group(pods.rows, self.state, is_counted=False)
            return
        emptied = trial.emptied()
        if emptied is not None:
            yield _Group(pods.rows, emptied, is_counted=not emptied.holds_the_same(self.state))
            return
        together: list[int] = []
        for place, row in enumerate(pods.rows.tolist()):
            state = self.state.copy()
            status = trial.without(state, place)
            if not status.is_success:
                tried.errors.append(status.message)
            elif state.holds_the_same(self.state):
                together.append(row)
            else:
                yield _Group(np.array([row], dtype=np.intp), state, is_counted=True)
        if together:
            yield _Group(np.array(together, dtype=np.intp), self.state, is_counted=False)


class _Group(msgspec.Struct, frozen=True):
    """Rows that share a cycle state."""

    rows: Rows
    state: CycleState
    """The state without the rows' removable pods."""
    is_counted: bool
    """Whether the state must count each pod that is put back; where it cannot for many rows, the group has one row."""


class _Trial(msgspec.Struct, frozen=True):
    """The table without the removable pods, and the order in which they are put back."""

    search: VictimSearch
    table: TrialTable
    pods: Removable
    order: Items

    def emptied(self) -> CycleState | None:
        """A state for all rows at once that no longer counts their removable pods; `None` where that is impossible."""
        move = self.search.filters.move_pods
        if move is None:
            return None
        state = self.search.state.copy()
        return state if move(state, self.pods.moving(slice(None), -1), self.table).is_success else None

    def without(self, state: CycleState, place: int) -> Status:
        """Stop counting a row's removable pods in the state."""
        start, count = int(self.pods.starts[place]), int(self.pods.counts[place])
        row = int(self.pods.rows[place])
        for item in range(start, start + count):
            status = self.search.filters.remove_pod(state, self.pods.pod(item), self.table, row)
            if not status.is_success:
                return status
        return SUCCESS

    def judge(self, group: _Group, tried: Tried) -> Rows | None:
        """The rows where the preemptor fits without the removable pods; as many pods as possible are put back.

        `None` where a plugin failed on several rows; the error of a single row is noted.
        """
        first = self.search.filters.passing(self.table, group.state, group.rows)
        if first.error is not None:
            return self._failed(first.error, group, tried)
        failure = self._reprieve(group, first.rows)
        if failure is not None:
            return self._failed(failure, group, tried)
        tried.rejections += first.rejections
        return first.rows

    def _failed(self, failure: Status, group: _Group, tried: Tried) -> Rows | None:
        if len(group.rows) > 1:
            return None
        tried.errors.append(failure.message)
        return group.rows[:0]

    def _reprieve(self, group: _Group, rows: Rows) -> Status | None:
        """Put pods back one by one, as long as the preemptor still fits. Returns the error if a plugin fails."""
        places = np.searchsorted(self.pods.rows, rows)
        starts, counts = self.pods.starts[places], self.pods.counts[places]
        for step in range(int(counts.max(initial=0))):
            items = self.order[starts[counts > step] + step]
            failure = self._put_back(group, items)
            if failure is not None:
                return failure
        return None

    def _put_back(self, group: _Group, items: Items) -> Status | None:
        rows = self.pods.row_of[items]
        before = self.table.put_back(items)
        if group.is_counted:
            status = self._count(group, items, 1)
            if not status.is_success:
                return status
        passing = self.search.filters.still_passing(self.table, group.state, rows)
        if passing.error is not None:
            return passing.error
        if len(passing.rows) < len(rows):
            fails: Mask = np.ones(len(rows), dtype=np.bool_)
            fails[np.searchsorted(rows, passing.rows)] = False
            self.table.undo(before, fails)
            if group.is_counted:
                status = self._count(group, items[fails], -1)
                return None if status.is_success else status
        return None

    def _count(self, group: _Group, items: Items, by: int) -> Status:
        filters = self.search.filters
        if filters.move_pods is not None and len(group.rows) > 1:
            return filters.move_pods(group.state, self.pods.moving(items, by), self.table)
        (item,) = items.tolist()
        count = filters.add_pod if by > 0 else filters.remove_pod
        return count(group.state, self.pods.pod(item), self.table, int(group.rows[0]))


def rejection(rows: Rows, status: Status) -> Rejection:
    """A rejection with the same status for all rows."""
    return Rejection(status.plugin, rows, np.ones(len(rows), dtype=np.int64), lambda _: status)
