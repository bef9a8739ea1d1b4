"""How many more pods like the first new one fit in the end, or how many more gangs like its own, if it is in one.

None of them preempts anybody. Gangs are counted whole: all members that the first one has must get a node. What is
shown for the count is like the first one but for its names, so each gang is a group of its own, as in a cluster; of a
composite group that is the whole tree. Members of a group without a minimum are counted pod by pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from kscheduler.api.core import Pod, PodSchedulingGroup, PodStatus
from kscheduler.api.groups import (
    POD_GROUPS,
    SCHEDULER_PLUGINS_LABEL,
    SCHEDULER_PLUGINS_POD_GROUPS,
    VOLCANO_ANNOTATION,
)
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.simulate.simulated_cluster import SimulatedCluster
from kscheduler.simulate.simulation_result import Capacity
from kscheduler.state.pod_groups import PodGroupTable

_ORIGIN: Final = "capacity"
_AT_ONCE: Final = 100
# Pods after which counting ends.
_MOST: Final = 10_000
_NEVER: Final = "Never"


@dataclass(frozen=True, slots=True)
class _Unit:
    """What is counted: a pod, or pods in the groups of one gang."""

    pods: tuple[Pod, ...]
    groups: tuple[GroupDefinition, ...] = ()
    name: str = ""
    """Of the gang, `namespace/name`; empty where pods are counted."""


async def capacity(cluster: SimulatedCluster, new_pods: Sequence[Pod]) -> Capacity:
    """Show more and more of them until one does not fit. `new_pods`: the first of them says what is counted."""
    unit = _unit(cluster, new_pods)
    size, at_once = len(unit.pods), max(1, _AT_ONCE // len(unit.pods))
    count, is_more = 0, False
    while not is_more:
        shown = [_shown(cluster, unit, number) for number in range(count, count + at_once)]
        await cluster.until_settled()
        fitting = sum(all(map(cluster.is_placed, keys)) for keys in shown)
        count += fitting
        if cluster.is_out_of_time:
            is_more = True
        elif fitting < at_once:
            break
        else:
            is_more = count * size >= _MOST
    return Capacity(pods=count * size, groups=count if unit.name else None, group=unit.name or None, is_more=is_more)


def _shown(cluster: SimulatedCluster, unit: _Unit, number: int) -> list[str]:
    """Another unit appears; returns the keys of its pods."""
    names = {group.key: group.key._replace(name=f"{group.key.name}-more-{number}") for group in unit.groups}
    for group in unit.groups:
        policy = _NEVER if group.preemption_policy else ""
        parent = None if group.parent is None else names.get(group.parent)
        cluster.groups.put(
            msgspec.structs.replace(
                group, key=names[group.key], uid=f"uid-{names[group.key].text}", parent=parent, preemption_policy=policy
            )
        )
    keys = []
    for place, pod in enumerate(unit.pods):
        name = f"{pod.metadata.name}-more-{number}" + (f"-{place}" if place else "")
        metadata = msgspec.structs.replace(pod.metadata, name=name, uid=f"uid-{pod.metadata.namespace}/{name}")
        spec = msgspec.structs.replace(pod.spec, node_name="", preemption_policy=_NEVER)
        another = msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus())
        key = cluster.groups.key_of(pod)
        if key is not None and key in names:
            another = _in_group(another, names[key])
        cluster.show(another, _ORIGIN)
        keys.append(another.key)
    return keys


def _unit(cluster: SimulatedCluster, new_pods: Sequence[Pod]) -> _Unit:
    first = new_pods[0]
    key = cluster.groups.key_of(first)
    tree = () if key is None else _tree(cluster.groups, key)
    if not tree:
        return _Unit((first,))
    if all(
        group.min_count is None for group in tree
    ):  # each pod in a group of its own: they do not wait for each other
        return _Unit((first,), tuple(tree))
    members = tuple(pod for group in tree if not group.key.is_composite for pod in _members(cluster, group, new_pods))
    return _Unit(members, tuple(tree), tree[0].key.text)


def _tree(groups: PodGroupTable, key: GroupKey) -> Sequence[GroupDefinition]:
    """The group with all groups of its tree, from the root on; empty if the tree is not whole."""
    root = groups.root_of(key)
    found = [] if root is None else [root]
    for each in found:  # grows meanwhile
        found.extend(child.key for child in groups.children(each) if each.is_composite)
    return [definition for each in found if (definition := groups.definition(each)) is not None]


def _members(cluster: SimulatedCluster, group: GroupDefinition, new_pods: Sequence[Pod]) -> Iterator[Pod]:
    """The new members of a group of pods, with those that it has already if it takes them to reach the minimum."""
    found = [pod for pod in new_pods if cluster.groups.key_of(pod) == group.key]
    if len(found) < group.least:
        known = {pod.key for pod in found}
        found += [
            pod
            for pod in cluster.pods()
            if not pod.is_terminal and pod.key not in known and cluster.groups.key_of(pod) == group.key
        ]
    yield from found
    yield from found[:1] * max(group.least - len(found), 0)


def _in_group(pod: Pod, key: GroupKey) -> Pod:
    """The pod as a member of another group of the same API."""
    meta = pod.metadata
    if key.api == POD_GROUPS.group:
        group = PodSchedulingGroup(pod_group_name=key.name)
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=group))
    if key.api == SCHEDULER_PLUGINS_POD_GROUPS.group:
        named = msgspec.structs.replace(meta, labels={**meta.labels, SCHEDULER_PLUGINS_LABEL: key.name})
    else:
        named = msgspec.structs.replace(meta, annotations={**meta.annotations, VOLCANO_ANNOTATION: key.name})
    return msgspec.structs.replace(pod, metadata=named)
