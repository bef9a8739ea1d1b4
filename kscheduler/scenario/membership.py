"""Members of pod groups: one that waits is explained with its group, any other one by itself.

Whether a member that waits gets a node is decided for the group as a whole; one of a file is asked about with its group
(`explain.queries.new_groups`). A member that has a node is explained as if it were in none. Where Kubernetes' groups
are not followed, a note says it of the pods that name one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.assembly import group_apis
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.serving import Serving
from kscheduler.state.group_apis import KUBERNETES, OTHER_APIS, GroupAPI
from kscheduler.state.pod_groups import PodGroupTable

# The flags with which Kubernetes' groups are followed.
TO_FOLLOW: Final = "--feature-gates GenericWorkload=true"
_APIS: Final = (KUBERNETES, *OTHER_APIS.values())


def group_of(pod: Pod, config: LoadedConfig) -> GroupKey | None:
    """The group that the pod names; `None`: it is in none, or groups are off."""
    return PodGroupTable(group_apis(config)).key_of(pod)


def waiting_group_of(pod: Pod, served: Serving) -> GroupKey | None:
    """The group that the pod waits with."""
    waits = not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp)
    return group_of(pod, served.config) if waits and pod.spec.scheduler_name in served.names else None


def queried_group_of(pod: Pod, served: Serving, *, is_named: bool) -> GroupKey | None:
    """The group that is asked about: of a pod the one that it waits with; `is_named`: the group of a member, itself."""
    if not is_named:
        return waiting_group_of(pod, served)
    return group_of(pod, served.config) if pod.spec.scheduler_name in served.names else None


def by_itself(pod: Pod, config: LoadedConfig) -> tuple[Pod, LoadedConfig, tuple[str, ...]]:
    """Pod and configuration without groups, with a note if the pod is in one."""
    key = group_of(pod, config)
    if key is None:
        return pod, config, ()
    alone = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=None))
    without = replace(config, configuration=msgspec.structs.replace(config.configuration, pod_group_apis=()))
    return alone, without, (f"{pod.key} is a member of pod group {key.text}; it is explained as if it were in none",)


def unfollowed(pods: Iterable[Pod], config: LoadedConfig) -> tuple[str, ...]:
    """For each API whose groups the configuration does not follow a note, if pods name a group of it."""
    listed, notes = list(pods), []
    for api in _unfollowed_apis(group_apis(config)):
        members = [(pod.key, name) for pod in listed if (name := api.name_in(pod))]
        if members:
            first, name = members[0]
            others = len(members) - 1
            more = f" ({others} more {'pod names one' if others == 1 else 'pods name one'})" if others else ""
            notes.append(f"pod {first} is in group {name}{more}, and {how_to_follow(api)}")
    return tuple(notes)


def unfollowed_group_of(pod: Pod, apis: Sequence[GroupAPI]) -> tuple[str, GroupAPI] | None:
    """The name of a group that the pod names and that is of an API which is not followed, and the API."""
    return next(((name, api) for api in _unfollowed_apis(apis) if (name := api.name_in(pod))), None)


def how_to_follow(api: GroupAPI) -> str:
    """That groups of the API are not followed, and with what they would be."""
    if api is KUBERNETES:
        return f"groups are not followed here: {TO_FOLLOW}"
    setting = f"`podGroupAPIs: [{api.name}]` in the configuration, which --config names"
    return f"groups of {api.name} are not followed here: {setting}"


def _unfollowed_apis(apis: Sequence[GroupAPI]) -> Iterator[GroupAPI]:
    return (api for api in _APIS if all(followed.kind is not api.kind for followed in apis))


def groups_not_followed(
    groups: Iterable[GroupDefinition], pods: Sequence[Pod], config: LoadedConfig
) -> tuple[str, ...]:
    """A note for each API of given groups that the configuration does not follow; `pods` say it where they name one."""
    given, notes = list(groups), []
    for api in _unfollowed_apis(group_apis(config)):
        names = [group.key.text for group in given if group.key.api == api.kind.group]
        if names and not any(api.name_in(pod) for pod in pods):
            more = " ..." if names[3:] else ""
            notes.append(f"pod groups {', '.join(names[:3])}{more}: {how_to_follow(api)}")
    return tuple(notes)
