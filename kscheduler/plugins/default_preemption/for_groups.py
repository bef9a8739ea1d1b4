"""Preemption by a pod group as a whole, when no placement was found for it.

    may it preempt? -> is one under way? -> take out all units of lower priority -> place the group, once
                                                                                        |
    victims: the units that do not fit beside the placed members  <-- put units back <--+

Units whose eviction would break a disruption budget are put back first, then the others, both from the most important
one. The members keep the nodes of that one placement; the group's cycle is not run again while units are put back.

From 1.38 on the first two questions change places, and members prefer the nodes with the cheapest victims
(`node_ranks`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.framework.cluster.preemption import GroupTrial, PodGroupPostFilterResult, PreemptingGroup, Preemption
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.pod_columns import PodColumns
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.choice import NEVER, is_preempted
from kscheduler.plugins.default_preemption.node_ranks import VictimRanks
from kscheduler.plugins.default_preemption.unit_search import (
    UnitRules,
    VictimUnit,
    most_important_first,
    pods_of,
    units_of,
    worth,
)

# Stands for the node in the instruction: victims may be anywhere.
DOMAIN: Final = "cluster"
_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
_NOT_ELIGIBLE: Final = unschedulable("not eligible due to preemptionPolicy=Never.")
_UNDER_WAY: Final = Status(SUCCESS.code, ("ongoing preemption on nominated nodes",))


class GroupVictimSearch(msgspec.Struct, frozen=True):
    """The search for victims for one group. Only reports the choice: evicts nothing."""

    trial: GroupTrial
    rules: UnitRules
    pod_columns: PodColumns
    """They know what a pod is `worth`."""
    budgets: BudgetRules
    handle: Handle
    plugin: str

    def search(self) -> PodGroupPostFilterResult:
        """Whom to evict, or why nobody."""
        trial, by_cost = self.trial, self.handle.behaviours.ranks_nodes_by_victims
        group, members = trial.group, trial.members
        may_not = policy_of(group, members) == NEVER
        priority = members[0].priority if group.priority is None else group.priority
        if may_not and not by_cost:
            return PodGroupPostFilterResult(_NOT_ELIGIBLE)
        if _is_under_way(trial, self.rules, priority):
            nominations = {pod.uid: pod.pod.status.nominated_node_name for pod in members}
            return PodGroupPostFilterResult(_UNDER_WAY, nominations)
        if may_not:
            return PodGroupPostFilterResult(_NOT_ELIGIBLE)
        units, unconfirmed = self._units_below(priority)
        if not units:
            none = unschedulable if by_cost else unresolvable
            return PodGroupPostFilterResult(none(_NO_VICTIMS))
        broken = self.budgets.broken_by([unit.pods for unit in units])
        ranks = self._ranks(units, broken, unconfirmed) if trial.uses_ranks else None
        trial.take_out(pods_of(units))
        status = trial.place(ranks)
        if not status.is_success:
            return PodGroupPostFilterResult(status)
        return self._reprieved(units, broken, priority)

    def _units_below(self, priority: int) -> tuple[list[VictimUnit], dict[str, int]]:
        """The units of lower priority in the whole cluster, the most important first; and by UID the rows of those pods
        that do not name their node yet: they are being bound.
        """
        nodes = self.trial.nodes
        below: list[PodInfo] = []
        unconfirmed: dict[str, int] = {}
        for row in self.pod_columns.with_lower(nodes, nodes.rows(), priority).tolist():
            found = [pod for pod in nodes.info(row).pods.values() if worth(self.rules, pod) < priority]
            unconfirmed |= {pod.uid: row for pod in found if not pod.node_name}
            below += found
        return most_important_first(units_of(self.rules, below)), unconfirmed

    def _ranks(self, units: Sequence[VictimUnit], broken: Sequence[int], unconfirmed: Mapping[str, int]) -> VictimRanks:
        nodes = self.trial.nodes

        def row_of(pod: PodInfo) -> int:
            return nodes.row_of(pod.node_name) if pod.node_name else unconfirmed.get(pod.uid, -1)

        return VictimRanks(units, broken, row_of, nodes.capacity)

    def _reprieved(self, units: Sequence[VictimUnit], broken: Sequence[int], priority: int) -> PodGroupPostFilterResult:
        """Put back whatever fits beside the placed members."""
        trial = self.trial
        victims: list[VictimUnit] = []
        broken_budgets = 0
        for breaks in (True, False):
            for unit, count in zip(units, broken, strict=True):
                if bool(count) is not breaks:
                    continue
                status = trial.put_back(unit.pods)
                if status.is_rejected:
                    victims.append(unit)
                    broken_budgets += count
                elif not status.is_success:
                    return PodGroupPostFilterResult(status)
        chosen = most_important_first(victims)
        pods, assignments, group = pods_of(chosen), tuple(trial.assignments()), trial.group
        found = Status(SUCCESS.code, (f"found a placement for podgroup, preempting {len(pods)} victims",))
        nominations = {pod.uid: node_name for pod, node_name in assignments}
        if not pods:
            return PodGroupPostFilterResult(found, nominations)
        preempting = PreemptingGroup(group.uid or group.key.text, group.key, assignments, tuple(trial.members))
        preemption = Preemption(
            trial.members[0],
            DOMAIN,
            pods,
            self.plugin,
            outbid=self._outbid(assignments, priority),
            group=preempting,
            broken_budgets=broken_budgets,
            disrupted_groups=sum(unit.is_group for unit in chosen),
            disrupted=Counter(unit.kind for unit in chosen),
        )
        return PodGroupPostFilterResult(found, nominations, preemption)

    def _outbid(self, assignments: Sequence[tuple[PodInfo, str]], priority: int) -> tuple[PodInfo, ...]:
        """Others that lose their nomination to the group's nodes (1.38; before, kube-scheduler looks at none)."""
        nominator = self.handle.nominator
        if nominator is None or not self.handle.behaviours.ranks_nodes_by_victims:
            return ()
        own = {pod.uid for pod in self.trial.members}
        nodes = dict.fromkeys(node_name for _, node_name in assignments)
        others = (pod for node_name in nodes for pod in nominator.nominated_pods(node_name))
        return tuple(pod for pod in others if pod.priority < priority and pod.uid not in own)


def policy_of(group: GroupDefinition, members: Sequence[PodInfo]) -> str:
    """The preemption policy: the group's own, or else Never if any member says so."""
    if group.preemption_policy:
        return group.preemption_policy
    return NEVER if any(pod.pod.spec.preemption_policy == NEVER for pod in members) else ""


def _is_under_way(trial: GroupTrial, rules: UnitRules, priority: int) -> bool:
    """Whether somebody of lower priority is being preempted on a node that a member is nominated to."""
    nodes = {pod.pod.status.nominated_node_name for pod in trial.members} - {""}
    rows = [row for node in nodes if (row := trial.nodes.row_of(node)) >= 0]
    pods = (pod for row in rows for pod in trial.nodes.info(row).pods.values())
    return any(is_preempted(pod) and worth(rules, pod) < priority for pod in pods)
