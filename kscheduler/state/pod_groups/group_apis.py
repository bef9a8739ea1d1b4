"""The APIs that pod groups may come from: how a pod names its group there, and what such a group asks for.

    Kubernetes         spec.schedulingGroup.podGroupName                   scheduling.k8s.io
    scheduler-plugins  label scheduling.x-k8s.io/pod-group                 scheduling.x-k8s.io
    volcano            annotation scheduling.k8s.io/group-name             scheduling.volcano.sh

A pod that names groups in several of them is in that of Kubernetes, else in the first of the list that is followed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.groups import (
    POD_GROUPS,
    SCHEDULER_PLUGINS_LABEL,
    SCHEDULER_PLUGINS_POD_GROUPS,
    VOLCANO_ANNOTATION,
    VOLCANO_POD_GROUPS,
    KubernetesPodGroup,
)
from kscheduler.api.kinds import Kind
from kscheduler.framework.cluster.pod_groups import DEFAULT_POLICY, GroupDefinition, GroupKey


@dataclass(frozen=True, slots=True)
class GroupAPI:
    """An API that has pod groups."""

    name: str
    """As configurations name it."""
    kind: Kind
    name_in: Callable[[Pod], str]
    """The name of the group that a pod is in; empty: none."""
    define: Callable[[Any, GroupKey], GroupDefinition]
    """What a group object asks for."""

    def key_of(self, group: Any) -> GroupKey:
        """The key of a group object."""
        return GroupKey(self.kind.group, group.metadata.namespace, group.metadata.name)

    def definition_of(self, group: Any) -> GroupDefinition:
        """What a group object asks for."""
        return self.define(group, self.key_of(group))


def _kubernetes_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else ""


def _defined_by_kubernetes(group: KubernetesPodGroup, key: GroupKey) -> GroupDefinition:
    gang, mode = group.spec.scheduling_policy.gang, group.spec.disruption_mode
    constraints = group.spec.scheduling_constraints
    return GroupDefinition(
        key,
        min_count=None if gang is None else gang.min_count,
        priority=group.spec.priority or 0,
        is_taken_whole=mode is not None and mode.all is not None,
        topology_key=constraints.topology[0].key if constraints is not None and constraints.topology else "",
        uid=group.metadata.uid,
        generation=group.metadata.generation,
        conditions=group.status.conditions,
    )


def _defined_with_policy(group: KubernetesPodGroup, key: GroupKey) -> GroupDefinition:
    policy = group.spec.preemption_policy or DEFAULT_POLICY
    return replace(_defined_by_kubernetes(group, key), preemption_policy=policy)


def _defined_by_min_member(group: Any, key: GroupKey) -> GroupDefinition:
    return GroupDefinition(key, min_count=max(1, group.spec.min_member), uid=group.metadata.uid)


KUBERNETES: Final = GroupAPI("kubernetes", POD_GROUPS, _kubernetes_name, _defined_by_kubernetes)
KUBERNETES_WITH_POLICY: Final = replace(KUBERNETES, define=_defined_with_policy)
"""With the gate PodGroupPreemptionPolicy: groups have a preemption policy, which their members must share."""
SCHEDULER_PLUGINS: Final = GroupAPI(
    "scheduler-plugins",
    SCHEDULER_PLUGINS_POD_GROUPS,
    lambda pod: pod.metadata.labels.get(SCHEDULER_PLUGINS_LABEL, ""),
    _defined_by_min_member,
)
VOLCANO: Final = GroupAPI(
    "volcano",
    VOLCANO_POD_GROUPS,
    lambda pod: pod.metadata.annotations.get(VOLCANO_ANNOTATION, ""),
    _defined_by_min_member,
)
OTHER_APIS: Final = {api.name: api for api in (SCHEDULER_PLUGINS, VOLCANO)}
"""Those that a configuration may switch on by name."""
