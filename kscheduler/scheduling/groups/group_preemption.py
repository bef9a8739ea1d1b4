"""Preemption by a pod group, when no placement was found: whose eviction would make room for all of it.

What is built: who may preempt at all, that a preemption is under way already, and that there is nobody to evict. A
group that could evict somebody is told so by name and waits: choosing victims for a group as a whole is not built.
"""

from collections.abc import Collection
from typing import Final

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable
from kscheduler.scheduling.groups.group_checks import policy_of
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult

_PREFIX: Final = "pod group preemption: "
NO_VICTIMS: Final = unresolvable(f"{_PREFIX}No preemption victims found for incoming preemptor")
NEVER: Final = unschedulable(f"{_PREFIX}not eligible due to preemptionPolicy=Never.")
NOT_BUILT: Final = unschedulable(
    f"{_PREFIX}kscheduler has not built the preemption by pod groups yet: pods of lower priority stay"
)
UNDER_WAY: Final = Status(SUCCESS.code, (f"{_PREFIX}ongoing preemption on nominated nodes",))
PLUGIN: Final = "DefaultPreemption"


def run_group_post_filter(inputs: GroupInputs, result: GroupResult) -> None:
    """Add to the result of a group that was turned down whether room can be made for it."""
    if result.status.is_success or not result.status.is_rejected:
        return
    status = _preempted(inputs) if PLUGIN in inputs.profile.enabled else unschedulable("")
    if status.is_success:
        result.waits_for_preemption = True
        for member in result.members:
            member.nominated_node_name = member.pod.pod.status.nominated_node_name
    result.status = Status(result.status.code, (*result.status.reasons, status.message), result.status.plugin)


def _preempted(inputs: GroupInputs) -> Status:
    first = inputs.members[0]
    if policy_of(first) == "Never":
        return NEVER
    if _is_under_way(inputs, first.priority):
        return UNDER_WAY
    return NOT_BUILT if _victims(inputs, first.priority) else NO_VICTIMS


def _is_under_way(inputs: GroupInputs, priority: int) -> bool:
    """Whether somebody of lower priority is being preempted on a node that a member is nominated to."""
    nodes = {pod.pod.status.nominated_node_name for pod in inputs.members} - {""}
    infos = [info for name in nodes if (info := inputs.cache.node_info(name)) is not None]
    return any(_is_preempted(pod) and pod.priority < priority for info in infos for pod in info.pods.values())


def _is_preempted(pod: PodInfo) -> bool:
    target = next((each for each in pod.pod.status.conditions if each.type == "DisruptionTarget"), None)
    is_target = target is not None and target.status == "True" and target.reason == "PreemptionByScheduler"
    return pod.is_terminating and is_target


def _victims(inputs: GroupInputs, priority: int) -> Collection[str]:
    """UIDs of pods with a lower priority than the group's; a member of another group counts with that group's."""
    groups = inputs.cache.pod_groups

    def priority_of(pod: PodInfo) -> int:
        key = groups.key_of(pod.pod)
        group = groups.definition(key) if key is not None else None
        return pod.priority if group is None or group.priority is None else group.priority

    infos = [inputs.cache.node_info(name) for name in inputs.cache.node_names() if inputs.cache.has_node(name)]
    return [pod.uid for info in infos if info is not None for pod in info.pods.values() if priority_of(pod) < priority]
