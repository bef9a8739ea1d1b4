"""The victims of a single pod on a node with members of Kubernetes groups: units instead of pods.

    remove all units of lower priority -> does the preemptor fit? -> put units back one by one, while it still fits

A unit may have pods on other nodes (a group with the disruption mode all). These count in the cycle's state (spread,
affinity), but no other row of the table changes: only the node's own row is judged, as in kube-scheduler. A group
that lies on two nodes is a candidate's victim on both, and the choice among candidates takes at most one.

Such nodes are judged one by one. All others are judged together, without units (`victims`).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from kscheduler.api.groups import POD_GROUPS
from kscheduler.framework.cluster.pod_groups import GroupKey, PodGroupView
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.nodes.pod_columns import Removable, started_at
from kscheduler.framework.nodes.trial_table import SavedRows, TrialTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.plugins.default_preemption.choice import Candidates, one_candidate
from kscheduler.plugins.default_preemption.victims import NO_VICTIMS, Tried, VictimSearch, rejection

# Units of victims: what preemption evicts together or not at all.
#
#     a pod in no group                     itself
#     a member of a group                   itself, by the group's priority
#     a member of a `disruptionMode: all`   the group's members on all nodes
#
# In a tree the priority is that of the highest group, and the highest group with `disruptionMode: all` goes as a whole.
# More important is the higher priority, then a composite group that goes as a whole, then whatever else has to do with
# a group, then more pods, then the earlier start, then the smaller UID.
#
# From 1.38 on the priority is the pod's own, and a member that goes alone counts as a pod in no group. Only Kubernetes'
# own groups matter: those of other projects are no units.


@dataclass(frozen=True, slots=True)
class VictimUnit:
    """Pods that go together."""

    pods: tuple[PodInfo, ...]
    priority: int
    is_group: bool
    """It is a group, or a single member of one."""
    is_composite: bool = False
    """It is a composite group."""
    started: float = field(init=False)
    """The earliest start, in seconds since 1970; infinity if the kubelet has reported none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "started", min(map(started_at, self.pods)))

    @property
    def kind(self) -> str:
        """As metrics name it."""
        return "compositepodgroup" if self.is_composite else "podgroup" if self.is_group else "pod"

    @property
    def rank(self) -> tuple[int, int, int, float, str]:
        """Sorts units, the most important first."""
        kind = self.is_group + self.is_composite
        return -self.priority, -kind, -len(self.pods), self.started, self.pods[0].uid


def group_of(groups: PodGroupView, pod: PodInfo) -> GroupKey | None:
    """The Kubernetes group that the pod names."""
    key = groups.key_of(pod.pod)
    return None if key is None or key.api != POD_GROUPS.group else key


class UnitRules(msgspec.Struct, frozen=True):
    """Which pods go together, and what they are worth."""

    groups: PodGroupView
    by_themselves: bool = False
    """A pod has its own priority, and counts with its group only if that goes as a whole (1.38)."""


def worth(rules: UnitRules, pod: PodInfo) -> int:
    """The priority by which the pod may be preempted: that of the highest known group above it, or its own."""
    groups = rules.groups
    if rules.by_themselves or not groups.is_followed:
        return pod.priority
    key = group_of(groups, pod)
    known = [] if key is None else [*groups.ancestry(key)]
    priority = known[-1].priority if known else None
    return pod.priority if priority is None else priority


def units_of(rules: UnitRules, pods: Iterable[PodInfo]) -> list[VictimUnit]:
    """The units that the pods belong to, each once, in the order of their first pods."""
    groups = rules.groups
    units: list[VictimUnit] = []
    taken: set[GroupKey] = set()
    for pod in pods:
        key = group_of(groups, pod)
        whole = None if key is None else _taken_whole(groups, key)
        if whole is None:
            units.append(VictimUnit((pod,), worth(rules, pod), key is not None and not rules.by_themselves))
        elif whole not in taken:
            taken.add(whole)
            together: Collection[PodInfo] = groups.scheduled(whole) or (pod,)
            unit = VictimUnit(tuple(together), worth(rules, pod), is_group=True, is_composite=whole.is_composite)
            units.append(unit)
    return units


def _taken_whole(groups: PodGroupView, key: GroupKey) -> GroupKey | None:
    """The highest group that goes as a whole."""
    return next((group.key for group in reversed([*groups.ancestry(key)]) if group.is_taken_whole), None)


def count_groups(rules: UnitRules, victims: Sequence[PodInfo]) -> int:
    """How many of the victims' units are groups, or single members of one."""
    return sum(unit.is_group for unit in units_of(rules, victims)) if rules.groups.is_followed else 0


def most_important_first(units: Iterable[VictimUnit]) -> list[VictimUnit]:
    """The units by their rank; equal ones keep their order."""
    return sorted(units, key=lambda unit: unit.rank)


def pods_of(units: Sequence[VictimUnit]) -> tuple[PodInfo, ...]:
    """The pods of all units, in order."""
    return tuple(pod for unit in units for pod in unit.pods)


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


def search_units(search: VictimSearch, rules: UnitRules, rows: Rows) -> Tried:
    """Try the rows, one by one."""
    tried = Tried()
    for row in rows.tolist():
        units = [unit for unit in units_of(rules, search.nodes.info(row).pods.values()) if _may_go(unit, search)]
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
        removable = search.pod_columns.below(search.nodes, rows, search.pod.priority)
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
            self.search.note_unneeded(np.array([self.row], dtype=np.intp), self.tried)
            return
        self.tried.found.append(_candidate(self.row, pods_of(most_important_first(victims)), broken_budgets))


class _UnitTrial(msgspec.Struct, frozen=True):
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
        before: list[SavedRows] = [self.table.put_back(np.array([item], dtype=np.intp)) for item in items]
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
