"""The victims of a single pod on a node with members of Kubernetes groups: units instead of pods.

    remove all units of lower priority -> does the preemptor fit? -> put units back one by one, while it still fits

A unit may have pods on other nodes (a group with the disruption mode all). These count in the cycle's state (spread,
affinity), but no other row of the table changes: only the node's own row is judged, as in kube-scheduler. A group that
lies on two nodes is a candidate's victim on both, and the choice among candidates takes at most one.

Such nodes are judged one by one. All others are judged together, without units (`victims`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kscheduler.framework.cluster.pod_groups import PodGroupView
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.occupants import Removable, started_at
from kscheduler.framework.nodes.trial_table import Before, TrialTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins.default_preemption.choice import Candidates, one_candidate
from kscheduler.plugins.default_preemption.units import VictimUnit, group_of, most_important_first, pods_of, units_of
from kscheduler.plugins.default_preemption.victims import NO_VICTIMS, Tried, VictimSearch, rejection

_ALL = np.ones(1, dtype=np.bool_)


class GroupedRows:
    """Which rows have members of Kubernetes groups; looked up again when a row's pods change."""

    def __init__(self, groups: PodGroupView) -> None:
        self._groups = groups
        self._known: dict[int, tuple[int, bool]] = {}
        """By row: the version of its pods, and the answer. As many entries as the table has rows."""

    def among(self, nodes: NodeTable, rows: Rows) -> Rows:
        """Those of the rows (intp, in the given order)."""
        if not self._groups.is_followed:
            return rows[:0]
        return rows[[self._has_members(nodes, row) for row in rows.tolist()]]

    def _has_members(self, nodes: NodeTable, row: int) -> bool:
        version = int(nodes.pods_version[row])
        known = self._known.get(row)
        if known is None or known[0] != version:
            found = any(group_of(self._groups, pod) is not None for pod in nodes.info(row).pods.values())
            known = self._known[row] = version, found
        return known[1]


def search_units(search: VictimSearch, groups: PodGroupView, rows: Rows) -> Tried:
    """Try the rows, one by one."""
    tried = Tried()
    for row in rows.tolist():
        units = [unit for unit in units_of(groups, search.nodes.info(row).pods.values()) if _may_go(unit, search)]
        if units:
            _Node(search, row, tried).judge(units)
        else:
            tried.rejections.append(rejection(np.array([row], dtype=np.intp), NO_VICTIMS))
    return tried


def _may_go(unit: VictimUnit, search: VictimSearch) -> bool:
    return unit.priority < search.pod.priority


@dataclass(slots=True)
class _Node:
    """The search on one node."""

    search: VictimSearch
    row: int
    tried: Tried

    def judge(self, units: Sequence[VictimUnit]) -> None:
        """Add the node to what was tried: a candidate, a rejection or an error."""
        search, rows = self.search, np.array([self.row], dtype=np.intp)
        removable = search.occupants.below(search.nodes, rows, search.pod.priority)
        trial = _UnitTrial(search, self.row, TrialTable(search.nodes, removable), removable, search.state.copy())
        status = SUCCESS
        for unit in units:
            status = status if not status.is_success else trial.count(unit, -1)
        first = search.filters.passing(trial.table, trial.state, rows)
        problem = first.error if status.is_success else status
        if problem is not None:
            self.tried.errors.append(problem.message)
            return
        if not len(first.rows):
            self.tried.rejections += first.rejections
            return
        self._reprieve(trial, most_important_first(units))

    def _reprieve(self, trial: "_UnitTrial", units: Sequence[VictimUnit]) -> None:
        broken = self.search.budgets.broken_by([unit.pods for unit in units])
        victims: list[VictimUnit] = []
        broken_budgets = 0
        for breaks in (True, False):
            for unit, count in zip(units, broken, strict=True):
                if bool(count) is not breaks:
                    continue
                status = trial.put_back(unit)
                if status.is_rejected:
                    victims.append(unit)
                    broken_budgets += count
                elif not status.is_success:
                    self.tried.errors.append(status.message)
                    return
        if not victims:
            name = self.search.nodes.name_of(self.row)
            self.tried.errors.append(f'expected at least one victim pod on node "{name}"')
            return
        self.tried.found.append(_candidate(self.row, pods_of(most_important_first(victims)), broken_budgets))


@dataclass(frozen=True, slots=True)
class _UnitTrial:
    """The node without the removable pods; units come back one by one."""

    search: VictimSearch
    row: int
    table: TrialTable
    removable: Removable
    state: CycleState

    def count(self, unit: VictimUnit, by: int) -> Status:
        """Count the unit's pods in the state, or stop counting them."""
        filters = self.search.filters
        if not filters.counts_pods:
            return SUCCESS
        for pod in unit.pods:
            row = self._row_of(pod)
            if row >= 0:
                count = filters.add_pod if by > 0 else filters.remove_pod
                status = count(self.state, pod, self.table, row)
                if not status.is_success:
                    return status
        return SUCCESS

    def put_back(self, unit: VictimUnit) -> Status:
        """Put the unit back; if the preemptor does not fit any more, take it out again: Unschedulable."""
        uids = {pod.uid for pod in unit.pods}
        items = [item for item in range(len(self.removable)) if self.removable.pod(item).uid in uids]
        before: list[Before] = [self.table.put_back(np.array([item], dtype=np.intp)) for item in items]
        status = self.count(unit, 1)
        if not status.is_success:
            return status
        rows = np.array([self.row], dtype=np.intp)
        if len(self.search.filters.still_passing(self.table, self.state, rows).rows):
            return SUCCESS
        for each in reversed(before):
            self.table.undo(each, _ALL)
        status = self.count(unit, -1)
        return NO_VICTIMS if status.is_success else status

    def _row_of(self, pod: PodInfo) -> int:
        """The row where the pod counts: a pod that is not bound yet does not say."""
        nodes = self.search.nodes
        if pod.uid in nodes.info(self.row).pods:
            return self.row
        if pod.node_name:
            return nodes.row_of(pod.node_name)
        return next((row for row in nodes.rows().tolist() if pod.uid in nodes.info(row).pods), -1)


def _candidate(row: int, victims: Sequence[PodInfo], broken_budgets: int) -> Candidates:
    """The node as a candidate; the criteria are about pods, each with its own priority."""
    highest = max(victim.priority for victim in victims)
    started = min(started_at(victim) for victim in victims if victim.priority == highest)
    return one_candidate(row, victims, broken_budgets, victims[0].priority, started)
