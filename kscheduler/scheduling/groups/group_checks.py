"""What must hold of a pod group before it is tried; the texts are kube-scheduler's.

Up to 1.37 the members are compared with the root and with the first of them. From 1.38 on all groups of the tree are
compared with the root, too, each before its members, and what is wrong is told as an error of the group's author.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kscheduler.api.groups import DEEPEST_TREE
from kscheduler.framework.cluster.pod_groups import DEFAULT_POLICY, GroupDefinition, GroupKey, PodGroupView
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Fault, Status, error
from kscheduler.scheduling.profile import Profile


def check_group(
    groups: PodGroupView,
    root: GroupDefinition,
    members: Sequence[PodInfo],
    profiles: Mapping[str, Profile],
) -> Status:
    """Success if the group may be tried, else an Error. `members` are to be tried, at least one."""
    if any(profile.behaviours.checks_whole_trees for profile in profiles.values()):
        problem, fault = next(_TreeCheck(groups, root, members).problems(root, None, 1), ""), Fault.POD_GROUP
    else:
        problem, fault = _problem_of_members(root, members, groups.scheduled(root.key)), Fault.PASSING
    if problem:
        return error(problem, fault=fault)
    name = members[0].pod.spec.scheduler_name
    return SUCCESS if name in profiles else error(f'profile not found for scheduler name "{name}"')


def policy_of(pod: PodInfo) -> str:
    """The pod's preemption policy."""
    return pod.pod.spec.preemption_policy or DEFAULT_POLICY


# --- up to 1.37 -------------------------------------------------------------------------------------------------------


def _problem_of_members(group: GroupDefinition, members: Sequence[PodInfo], scheduled: Iterable[PodInfo]) -> str:
    checks = _checks(group, members[0])
    return next((problem for pod in chain(members, scheduled) for check in checks if (problem := check(pod))), "")


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


# --- from 1.38 on -----------------------------------------------------------------------------------------------------

_ALL_PODS = "all pods in a pod group hierarchy should have the same"
_ALL_GROUPS = "all pod groups in a hierarchy should have the same"


class _TreeCheck:
    """One walk from the root, the oldest child first; only the first problem is told."""

    def __init__(self, groups: PodGroupView, root: GroupDefinition, members: Sequence[PodInfo]) -> None:
        self._groups = groups
        self._root = root
        self._first = members[0]
        # Groups of other projects have no priority: there the first member's counts.
        self._priority = members[0].priority if root.priority is None else root.priority
        self._policy = root.preemption_policy or policy_of(members[0])
        self._members: dict[GroupKey, list[PodInfo]] = {}
        for pod in members:
            key = groups.key_of(pod.pod)
            if key is not None:
                self._members.setdefault(key, []).append(pod)

    def problems(self, group: GroupDefinition, parent: GroupDefinition | None, depth: int) -> Iterator[str]:
        """What is wrong with the group and all below it, in the order in which kube-scheduler finds it."""
        key = group.key
        # A composite group on the deepest level could have no group of pods below it.
        if key.is_composite and depth == DEEPEST_TREE:
            yield f'hierarchy depth exceeds maximum allowed depth {DEEPEST_TREE} at "{key.typed}"'
            return
        if parent is not None:
            yield from self._of_child(group, parent)
        if key.is_composite:
            for child in self._groups.children(key):
                yield from self.problems(child, group, depth + 1)
            return
        for pod in chain(self._members.get(key, ()), self._groups.scheduled(key)):
            yield from self._of_pod(pod)

    def _of_child(self, group: GroupDefinition, parent: GroupDefinition) -> Iterator[str]:
        root, own, above = self._root, group.key.typed, parent.key.typed
        if group.workload != root.workload:
            got = f'got: "{group.workload}" ("{own}") and "{root.workload}" ("{root.key.typed}")'
            yield f"pod group workload does not match root workload, {got}"
        if (group.priority or 0) != self._priority:
            got = f'got {group.priority or 0} ("{own}") and {self._priority} ("{root.key.typed}")'
            yield f"{_ALL_GROUPS} priority as the root pod group's priority, {got}"
        if group.preemption_policy and group.preemption_policy != self._policy:
            yield f'{_ALL_GROUPS} preemption policy, got {group.preemption_policy} ("{own}") and {self._policy}'
        if parent.min_count is not None and group.min_count is None:
            yield f'gang parent "{above}" cannot have basic child "{own}"'
        if parent.is_taken_whole and group.is_taken_singly:
            yield f'parent "{above}" with All disruption mode cannot have child "{own}" with Single disruption mode'

    def _of_pod(self, pod: PodInfo) -> Iterator[str]:
        name, first = pod.pod.spec.scheduler_name, self._first
        if name != first.pod.spec.scheduler_name:
            got = f'got: "{name}" ("{pod.name}") and "{first.pod.spec.scheduler_name}" ("{first.name}")'
            yield f"{_ALL_PODS} .spec.schedulerName set, {got}"
        if pod.priority != self._priority:
            got = f'got {pod.priority} ("{pod.name}") and {self._priority} ("{self._root.key.typed}")'
            yield f"{_ALL_PODS} priority as the root pod group's priority, {got}"
        if policy_of(pod) != self._policy:
            yield f'{_ALL_PODS} preemption policy, got {policy_of(pod)} ("{pod.name}") and {self._policy}'
