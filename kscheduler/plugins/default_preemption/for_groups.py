"""Preemption by a pod group as a whole, when no placement was found for it.

    may it preempt? -> is one under way? -> take out all units of lower priority -> place the group, once
                                                                                        |
    victims: the units that do not fit beside the placed members  <-- put units back <--+

Units whose eviction would break a disruption budget are put back first, then the others, both from the most important
one. The members keep the nodes of that one placement; the group's cycle is not run again while units are put back.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from kscheduler.framework.cluster.pod_groups import GroupDefinition, PodGroupView
from kscheduler.framework.cluster.preemption import GroupTrial, PodGroupPostFilterResult, PreemptingGroup, Preemption
from kscheduler.framework.nodes.pod_columns import PodColumns
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable
from kscheduler.plugins.default_preemption.budgets import BudgetRules
from kscheduler.plugins.default_preemption.choice import NEVER, is_preempted
from kscheduler.plugins.default_preemption.unit_search import VictimUnit, most_important_first, pods_of, units_of, worth

# Stands for the node in the instruction: victims may be anywhere.
DOMAIN: Final = "cluster"
_NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming preemptor")
_UNDER_WAY: Final = Status(SUCCESS.code, ("ongoing preemption on nominated nodes",))


def preempt(
    trial: GroupTrial, groups: PodGroupView, pod_columns: PodColumns, budgets: BudgetRules, plugin: str
) -> PodGroupPostFilterResult:
    """Choose victims for the group. Only reports the choice: evicts nothing. `occupants` know what a pod is `worth`."""
    group, members = trial.group, trial.members
    if policy_of(group, members) == NEVER:
        return PodGroupPostFilterResult(unschedulable("not eligible due to preemptionPolicy=Never."))
    priority = members[0].priority if group.priority is None else group.priority
    if _is_under_way(trial, groups, priority):
        nominations = {pod.uid: pod.pod.status.nominated_node_name for pod in members}
        return PodGroupPostFilterResult(_UNDER_WAY, nominations)
    rows = pod_columns.with_lower(trial.nodes, trial.nodes.rows(), priority)
    pods = (pod for row in rows.tolist() for pod in trial.nodes.info(row).pods.values())
    units = units_of(groups, (pod for pod in pods if worth(groups, pod) < priority))
    if not units:
        return PodGroupPostFilterResult(_NO_VICTIMS)
    trial.take_out(pods_of(units))
    status = trial.place()
    if not status.is_success:
        return PodGroupPostFilterResult(status)
    return _reprieved(trial, most_important_first(units), budgets, plugin)


def policy_of(group: GroupDefinition, members: Sequence[PodInfo]) -> str:
    """The preemption policy: the group's own, or else Never if any member says so."""
    if group.preemption_policy:
        return group.preemption_policy
    return NEVER if any(pod.pod.spec.preemption_policy == NEVER for pod in members) else ""


def _is_under_way(trial: GroupTrial, groups: PodGroupView, priority: int) -> bool:
    """Whether somebody of lower priority is being preempted on a node that a member is nominated to."""
    nodes = {pod.pod.status.nominated_node_name for pod in trial.members} - {""}
    rows = [row for node in nodes if (row := trial.nodes.row_of(node)) >= 0]
    pods = (pod for row in rows for pod in trial.nodes.info(row).pods.values())
    return any(is_preempted(pod) and worth(groups, pod) < priority for pod in pods)


def _reprieved(
    trial: GroupTrial, units: Sequence[VictimUnit], budgets: BudgetRules, plugin: str
) -> PodGroupPostFilterResult:
    """Put back whatever fits beside the placed members."""
    broken = budgets.broken_by([unit.pods for unit in units])
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
        plugin,
        group=preempting,
        broken_budgets=broken_budgets,
        disrupted_groups=sum(unit.is_group for unit in chosen),
        disrupted=Counter(unit.kind for unit in chosen),
    )
    return PodGroupPostFilterResult(found, nominations, preemption)
