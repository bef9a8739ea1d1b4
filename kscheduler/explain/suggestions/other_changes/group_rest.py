"""The rest of the pod's group: a gang is not tried before it has as many members as it needs at least."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS
from kscheduler.explain.suggestions.changed import (
    ADD,
    CONSTRAINTS,
    REMOVE,
    REPLACE,
    ObjectChange,
    Operation,
    group_resource,
)
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step
from kscheduler.explain.suggestions.trials.trial import Trials
from kscheduler.framework.cluster.pod_groups import GroupKey

_MINIMUM: Final = "/spec/schedulingPolicy/gang/minCount"
# Of scheduler-plugins' and Volcano's groups.
_MIN_MEMBER: Final = "/spec/minMember"
# A group that lacks more is told what it lacks by its gate; so many objects help nobody.
_MOST_MEMBERS: Final = 1_000


def group_changes(trials: Trials) -> Iterator[Step]:
    """Proposals: a group of fewer, and the members that are missing. They are not tried yet."""
    groups, pod = trials.cache.pod_groups, trials.pod.pod
    key = groups.key_of(pod)
    group = groups.definition(key) if key is not None else None
    if key is None or group is None or group.min_count is None:
        return
    there = groups.count_all(key)
    missing = group.min_count - there
    if missing <= 0:
        return
    facts = {"group": key.text, "members": there, "minCount": group.min_count}
    if there:
        change = smaller_gang(key, there)
        yield Step(ChangeKind.GROUP_MIN_COUNT, (change,), missing / group.min_count, {**facts, "to": there})
    if missing <= _MOST_MEMBERS:
        taken = {name.rpartition("/")[2] for name in groups.unscheduled_keys(key)}
        changes = tuple(_another(pod, number, taken) for number in range(1, missing + 1))
        yield Step(ChangeKind.GROUP_MEMBERS, changes, 1.0, {**facts, "missing": missing})


def smaller_gang(key: GroupKey, count: int) -> ObjectChange:
    """The group with another minimum, which each API keeps elsewhere."""
    patch = (Operation(REPLACE, _MINIMUM if key.api == POD_GROUPS.group else _MIN_MEMBER, count),)
    return ObjectChange(group_resource(key), key.namespace, key.name, patch)


def without_topology(key: GroupKey) -> ObjectChange:
    """The group of Kubernetes without its topology constraint."""
    return ObjectChange(group_resource(key), key.namespace, key.name, (Operation(REMOVE, CONSTRAINTS),))


def _another(pod: Pod, number: int, taken: set[str]) -> ObjectChange:
    name = f"{pod.metadata.name}-more-{number}"
    while name in taken:
        name += "-more"
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name, resource_version="")
    copy = msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
    return ObjectChange("pods", metadata.namespace, name, (Operation(ADD, "", copy),))
