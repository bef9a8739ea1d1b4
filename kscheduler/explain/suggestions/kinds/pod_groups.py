"""The pod's group: a smaller gang, the members that it lacks, or a place anywhere.

A gang is not tried before it has as many members as it needs at least; one that has them may still not fit as a whole.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS
from kscheduler.explain.suggestions.kubectl_lines import kubectl, patch_json
from kscheduler.explain.suggestions.object_changes import (
    ADD,
    CONSTRAINTS,
    REMOVE,
    REPLACE,
    ObjectChange,
    Operation,
    group_resource,
)
from kscheduler.explain.suggestions.suggestion import GroupScale, Step, SuggestionKind
from kscheduler.explain.suggestions.trials import Trials
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.scenario import ClusterObjects

_MINIMUM: Final = "/spec/schedulingPolicy/gang/minCount"
# Of scheduler-plugins' and Volcano's groups.
_MIN_MEMBER: Final = "/spec/minMember"
# A group that lacks more is told what it lacks by its gate; so many objects help nobody.
_MAX_MEMBERS: Final = 1_000


class ShrinkGang(SuggestionKind, frozen=True):
    """A gang of fewer. Proposes the members that are missing, too."""

    kind = "groupMinCount"
    is_of_the_pod = True
    is_of_group = True

    group: str
    members: int | UnsetType
    min_count: int
    to: int

    @classmethod
    def proposals(cls, trials: Trials) -> Iterator[Step]:
        groups, pod = trials.cache.pod_groups, trials.pod.pod
        key = groups.key_of(pod)
        group = groups.definition(key) if key is not None else None
        if key is None or group is None or group.min_count is None:
            return
        there = groups.count_all(key)
        missing = group.min_count - there
        if missing <= 0:
            return
        if there:
            facts = cls(key.text, there, group.min_count, there)
            yield Step(facts, (_smaller_gang(key, there),), missing / group.min_count)
        if missing <= _MAX_MEMBERS:
            taken = {name.rpartition("/")[2] for name in groups.unscheduled_keys(key)}
            changes = tuple(_another(pod, number, taken) for number in range(1, missing + 1))
            yield Step(AddMembers(key.text, there, group.min_count, missing), changes, 1.0)

    @classmethod
    def for_group(cls, group: GroupDefinition, members: int, trials: Sequence[Trials]) -> Iterator[GroupScale[Step]]:
        """A smaller minimum of a gang that has its members."""
        now = group.min_count
        if now is None:
            return

        def at(number: int) -> Step:
            facts = cls(group.key.text, UNSET, now, now - number)
            return Step(facts, (_smaller_gang(group.key, now - number),), number / now)

        yield GroupScale(now - 1, at)

    def text(self, step: Step) -> str:
        return f"let pod group {self.group} need {_members(self.to)} instead of {self.min_count}"

    def command(self, step: Step) -> str:
        (group,) = step.changes
        # The name of the kind alone may be that of another API's groups.
        kind = group.resource if "." in group.resource else POD_GROUPS.resource
        patch = ("--type=json", "-p", patch_json(group.patch))
        return kubectl("patch", kind, group.name, "-n", group.namespace, *patch)


class AddMembers(SuggestionKind, frozen=True):
    """The members that a gang lacks; proposed with a gang of fewer."""

    kind = "groupMembers"
    is_of_the_pod = True
    is_of_group = True
    by_kubectl = False

    group: str
    members: int
    min_count: int
    missing: int

    def text(self, step: Step) -> str:
        missing = _members(self.missing).replace(" ", " more ")
        return f"create {missing} of pod group {self.group}: it needs {self.min_count} and has {self.members}"


class DropGroupTopology(SuggestionKind, frozen=True):
    """A group of Kubernetes without its topology constraint."""

    kind = "groupTopology"
    is_of_the_pod = True
    is_of_group = True
    by_kubectl = False

    group: str
    key: str

    @classmethod
    def for_group(cls, group: GroupDefinition, members: int, trials: Sequence[Trials]) -> Iterator[GroupScale[Step]]:
        key = group.key
        if group.topology_key:
            change = ObjectChange(group_resource(key), key.namespace, key.name, (Operation(REMOVE, CONSTRAINTS),))
            step = Step(cls(key.text, group.topology_key), (change,), 1.0)
            yield GroupScale(1, lambda _: step)

    def text(self, step: Step) -> str:
        return f"let pod group {self.group} be placed anywhere, without its topology constraint on {self.key}"

    def no_command(self, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
        return (
            "no single command does it: a group's constraint is for good, and a group is only deleted when no pod "
            "names it any more: delete it with its members, and create them again, the group without the constraint"
        )


def _smaller_gang(key: GroupKey, count: int) -> ObjectChange:
    """The group with another minimum, which each API keeps elsewhere."""
    patch = (Operation(REPLACE, _MINIMUM if key.api == POD_GROUPS.group else _MIN_MEMBER, count),)
    return ObjectChange(group_resource(key), key.namespace, key.name, patch)


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _another(pod: Pod, number: int, taken: set[str]) -> ObjectChange:
    name = f"{pod.metadata.name}-more-{number}"
    while name in taken:
        name += "-more"
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name, resource_version="")
    copy = msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=""))
    return ObjectChange("pods", metadata.namespace, name, (Operation(ADD, "", copy),))
