"""What must hold of a pod group before it is tried; the texts are kube-scheduler's."""

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain

from kscheduler.framework.cluster.pod_groups import DEFAULT_POLICY, GroupDefinition
from kscheduler.framework.pods.pod_info import PodInfo


def problem_of(
    group: GroupDefinition,
    members: Sequence[PodInfo],
    scheduled: Iterable[PodInfo],
    profiles: Container[str],
) -> str:
    """Why the group must not be tried; empty if it may. `members` are to be tried, `scheduled` have a node."""
    checks = _checks(group, members[0])
    for pod in chain(members, scheduled):
        for check in checks:
            problem = check(pod)
            if problem:
                return problem
    name = members[0].pod.spec.scheduler_name
    return "" if name in profiles else f'profile not found for scheduler name "{name}"'


def _checks(group: GroupDefinition, first: PodInfo) -> tuple[Callable[[PodInfo], str], ...]:
    """What all members must have in common. Groups of other APIs have no priority: members agree among themselves."""
    all_pods = "all pods in a single pod group should have the same"
    priority = first.priority if group.priority is None else group.priority

    def scheduler_name(pod: PodInfo) -> str:
        own, others = pod.pod.spec.scheduler_name, first.pod.spec.scheduler_name
        return "" if own == others else f'{all_pods} .spec.schedulerName set, got: "{own}" and "{others}"'

    def same_priority(pod: PodInfo) -> str:
        if pod.priority == priority:
            return ""
        return f"{all_pods} priority as the pod group's priority, got {pod.priority} and {priority}"

    def preemption_policy(pod: PodInfo) -> str:
        own, others = policy_of(pod), group.preemption_policy or policy_of(first)
        whose = " as the pod group's preemption policy" if group.preemption_policy else ""
        return "" if own == others else f"{all_pods} preemption policy{whose}, got {own} and {others}"

    return scheduler_name, same_priority, preemption_policy


def policy_of(pod: PodInfo) -> str:
    """The pod's preemption policy."""
    return pod.pod.spec.preemption_policy or DEFAULT_POLICY
