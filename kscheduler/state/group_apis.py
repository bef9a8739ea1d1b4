"""The APIs that pod groups may come from: how a pod names its group there, and what such a group asks for.

    Kubernetes         spec.schedulingGroup.podGroupName                   scheduling.k8s.io
    scheduler-plugins  label scheduling.x-k8s.io/pod-group                 scheduling.x-k8s.io
    volcano            annotation scheduling.k8s.io/group-name             scheduling.volcano.sh

A pod that names groups in several of them is in that of Kubernetes, else in the first of the list that is followed.
No pod names a composite group: groups do (`spec.parentCompositePodGroupName`).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.groups import (
    DEEPEST_TREE,
    POD_GROUPS,
    SCHEDULER_PLUGINS_LABEL,
    SCHEDULER_PLUGINS_POD_GROUPS,
    VOLCANO_ANNOTATION,
    VOLCANO_POD_GROUPS,
    CompositePodGroup,
    KubernetesPodGroup,
    VolcanoPodGroup,
)
from kscheduler.api.kinds import Kind
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.framework.cluster.topology_request import request_in_annotations, request_of_volcano


class GroupAPI(msgspec.Struct, frozen=True):
    """An API that has pod groups."""

    name: str
    """As configurations name it."""
    kind: Kind
    name_in: Callable[[Pod], str]
    """The name of the group that a pod is in; empty: none."""
    define: Callable[[Any, GroupKey], GroupDefinition]
    """What a group object asks for."""
    levels: int = DEEPEST_TREE
    """How many levels of a tree of its groups are followed."""

    def key_of(self, group: Any) -> GroupKey:
        """The key of a group object."""
        return GroupKey(self.kind.group, group.metadata.namespace, group.metadata.name, self.is_composite)

    @property
    def is_composite(self) -> bool:
        """Whether its groups are groups of groups."""
        return self.kind.type is CompositePodGroup

    def definition_of(self, group: Any) -> GroupDefinition:
        """What a group object asks for."""
        return self.define(group, self.key_of(group))


def _kubernetes_name(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "") if group is not None else ""


def _defined_by_kubernetes(
    group: KubernetesPodGroup, key: GroupKey, *, default_policy: str | None = None, has_parent: bool = False
) -> GroupDefinition:
    gang, parent = group.spec.scheduling_policy.gang, group.spec.parent_composite_pod_group_name
    return replace(
        _common(group, key, default_policy),
        min_count=None if gang is None else gang.min_count,
        parent=_composite(key, parent) if has_parent else None,
    )


def _defined_composite(
    group: CompositePodGroup, key: GroupKey, *, default_policy: str | None = None
) -> GroupDefinition:
    gang = group.spec.scheduling_policy.gang
    return replace(
        _common(group, key, default_policy),
        min_count=None if gang is None else gang.min_group_count,
        parent=_composite(key, group.spec.parent_composite_pod_group_name),
    )


def _common(
    group: KubernetesPodGroup | CompositePodGroup, key: GroupKey, default_policy: str | None
) -> GroupDefinition:
    """What both kinds of Kubernetes have."""
    mode, constraints, workload = (
        group.spec.disruption_mode,
        group.spec.scheduling_constraints,
        group.spec.workload_ref,
    )
    return GroupDefinition(
        key,
        priority=group.spec.priority or 0,
        preemption_policy="" if default_policy is None else group.spec.preemption_policy or default_policy,
        is_taken_whole=mode is not None and mode.all is not None,
        is_taken_singly=mode is not None and mode.single is not None,
        workload="" if workload is None else workload.workload_name,
        conditions=group.status.conditions,
        topology_key=constraints.topology[0].key if constraints is not None and constraints.topology else "",
        topology=request_in_annotations(group.metadata.annotations) if group.metadata.annotations else None,
        uid=group.metadata.uid,
        generation=group.metadata.generation,
        created=group.metadata.creation_timestamp or "",
    )


def _composite(child: GroupKey, name: str | None) -> GroupKey | None:
    return GroupKey(child.api, child.namespace, name, is_composite=True) if name is not None else None


def _defined_by_min_member(group: Any, key: GroupKey) -> GroupDefinition:
    topology = request_in_annotations(group.metadata.annotations) if group.metadata.annotations else None
    return GroupDefinition(key, min_count=max(1, group.spec.min_member), uid=group.metadata.uid, topology=topology)


def _defined_by_volcano(group: VolcanoPodGroup, key: GroupKey) -> GroupDefinition:
    """Annotations say more than the field: they count where there are both."""
    definition, asked = _defined_by_min_member(group, key), group.spec.network_topology
    if asked is None or definition.topology is not None:
        return definition
    own = request_of_volcano(asked.mode, asked.highest_tier_allowed, asked.highest_tier_name)
    return replace(definition, topology=own)


KUBERNETES: Final = GroupAPI("kubernetes", POD_GROUPS, _kubernetes_name, _defined_by_kubernetes)
# The name of the API of composite groups.
COMPOSITE: Final = "kubernetes-composite"


def kubernetes_apis(
    default_policy: str | None, composites: Kind | None, levels: int = DEEPEST_TREE
) -> tuple[GroupAPI, ...]:
    """Kubernetes' own API, and that of its composite groups.

    `default_policy`: the preemption policy of groups that name none; `None`: groups have none of their own.
    `composites`: with the gate CompositePodGroup, the kind; without it a group's parent means nothing. `levels`: how
    many levels of a tree are followed.
    """
    define = partial(_defined_by_kubernetes, default_policy=default_policy, has_parent=composites is not None)
    own = replace(KUBERNETES, define=define)
    if composites is None:
        return (own,)
    define_composite = partial(_defined_composite, default_policy=default_policy)
    return own, GroupAPI(COMPOSITE, composites, lambda _: "", define_composite, levels)


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
    _defined_by_volcano,
)
# Those that a configuration may switch on by name.
OTHER_APIS: Final = {api.name: api for api in (SCHEDULER_PLUGINS, VOLCANO)}
