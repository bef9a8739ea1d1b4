"""The rest of the pod's group: a gang is not tried before it has as many members as it needs at least."""

from collections.abc import Iterator
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS
from kscheduler.whatif.suggestions.changed import ADD, REPLACE, ObjectChange, Operation
from kscheduler.whatif.suggestions.suggestion import ChangeKind, Step
from kscheduler.whatif.suggestions.trials.trial import Trials

_MOST_MEMBERS: Final = 1_000
"""A group that lacks more is told what it lacks by its gate; so many objects help nobody."""


def group_changes(trials: Trials) -> Iterator[Step]:
    """Proposals: a group of fewer, and the members that are missing. They are not tried yet."""
    groups, pod = trials.cache.pod_groups, trials.pod.pod
    key = groups.key_of(pod)
    group = groups.definition(key) if key is not None else None
    if key is None or group is None or group.min_count is None or key.api != POD_GROUPS.group:
        return
    there = groups.count_all(key)
    missing = group.min_count - there
    if missing <= 0:
        return
    facts = {"group": key.text, "members": there, "minCount": group.min_count}
    if there:
        patch = (Operation(REPLACE, "/spec/schedulingPolicy/gang/minCount", there),)
        change = ObjectChange(POD_GROUPS.plural, key.namespace, key.name, patch)
        yield Step(ChangeKind.GROUP_MIN_COUNT, (change,), missing / group.min_count, {**facts, "to": there})
    if missing <= _MOST_MEMBERS:
        taken = {name.rpartition("/")[2] for name in groups.unscheduled_keys(key)}
        changes = tuple(_another(pod, number, taken) for number in range(1, missing + 1))
        yield Step(ChangeKind.GROUP_MEMBERS, changes, 1.0, {**facts, "missing": missing})


def _another(pod: Pod, number: int, taken: set[str]) -> ObjectChange:
    name = f"{pod.metadata.name}-more-{number}"
    while name in taken:
        name += "-more"
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name, resource_version="")
    copy = msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
    return ObjectChange("pods", metadata.namespace, name, (Operation(ADD, "", copy),))
