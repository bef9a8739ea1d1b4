"""All pod groups with their members, by state.

    add_member ---> unscheduled ---assumed---> scheduled ---confirmed---> scheduled
                        ^   |                     |
                        |   | remove_member       | forgotten: its binding has failed
                        +---|---------------------+
                            v
                         (unknown)

A member may come before its group, and stay after it. `Cache` moves members between the two states as it counts them on
nodes, the handler of pods adds and removes those without a node. With no API, nothing is kept and no pod is in a group.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kscheduler.api.core import Pod
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.pod_groups.group_apis import GroupAPI


@dataclass(slots=True)
class _Members:
    unscheduled: dict[str, PodInfo] = field(default_factory=dict)
    scheduled: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)
    """With the node's name. Both by UID; a member is in one of them."""

    def __bool__(self) -> bool:
        return bool(self.unscheduled or self.scheduled)


_NOBODY = _Members()


class PodGroupTable:
    """Groups and members. Implements `framework.cluster.pod_groups.PodGroupView`."""

    def __init__(self, apis: Sequence[GroupAPI] = ()) -> None:
        self.apis = tuple(apis)
        """Those that are followed; none: groups are off."""
        self._definitions: dict[GroupKey, GroupDefinition] = {}
        self._members: dict[GroupKey, _Members] = {}

    def follow(self, apis: Sequence[GroupAPI]) -> None:
        """Look for groups in these APIs from now on; before anything is in the table."""
        self.apis = tuple(apis)

    @property
    def is_followed(self) -> bool:
        """Whether any pod can be in a group."""
        return bool(self.apis)

    # --- what plugins and the queue ask -----------------------------------------------------------------------------

    def key_of(self, pod: Pod) -> GroupKey | None:
        """The group that the pod names, known or not; `None`: it is in no group."""
        for api in self.apis:
            name = api.name_in(pod)
            if name:
                return GroupKey(api.kind.group, pod.metadata.namespace, name)
        return None

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        """What the group asks for; `None`: the watch has not shown it."""
        return self._definitions.get(key)

    def count_all(self, key: GroupKey) -> int:
        """The number of members that the scheduler knows, in any state."""
        members = self._members.get(key, _NOBODY)
        return len(members.unscheduled) + len(members.scheduled)

    def count_scheduled(self, key: GroupKey) -> int:
        """The number of members that count on a node: bound, or assumed to be."""
        return len(self._members.get(key, _NOBODY).scheduled)

    def scheduled_uids(self, key: GroupKey) -> Collection[str]:
        """UIDs of the members that count on a node; do not change the table while iterating."""
        return self._members.get(key, _NOBODY).scheduled.keys()

    def scheduled(self, key: GroupKey) -> Collection[PodInfo]:
        """The members that count on a node."""
        return [pod for pod, _ in self._members.get(key, _NOBODY).scheduled.values()]

    def assignments(self, key: GroupKey) -> Collection[tuple[PodInfo, str]]:
        """The members that count on a node, with its name: an assumed pod does not say it by itself."""
        return self._members.get(key, _NOBODY).scheduled.values()

    def unscheduled_keys(self, key: GroupKey) -> Collection[str]:
        """Keys (`namespace/name`) of the members without a node."""
        return [pod.key for pod in self._members.get(key, _NOBODY).unscheduled.values()]

    def groups(self) -> Iterator[GroupDefinition]:
        """All groups that the watch has shown."""
        return iter(self._definitions.values())

    # --- what the watch shows -----------------------------------------------------------------------------------------

    def put(self, definition: GroupDefinition) -> None:
        """Add a group, or replace it."""
        self._definitions[definition.key] = definition

    def note_condition(self, key: GroupKey, condition: Condition) -> None:
        """This is being written to the group's status: the next attempt must know before the watch shows it."""
        definition = self._definitions.get(key)
        if definition is not None:
            others = tuple(known for known in definition.conditions if known.type != condition.type)
            self._definitions[key] = replace(definition, conditions=(*others, condition))

    def remove(self, key: GroupKey) -> None:
        """The group is gone; its members stay."""
        self._definitions.pop(key, None)

    def add_member(self, pod: PodInfo) -> None:
        """A pod without a node has appeared, or has changed."""
        key = self.key_of(pod.pod)
        if key is not None:
            members = self._members.setdefault(key, _Members())
            if pod.uid not in members.scheduled:
                members.unscheduled[pod.uid] = pod

    def remove_member(self, pod: PodInfo) -> None:
        """A pod is gone or has ended."""
        key = self.key_of(pod.pod)
        if key is not None:
            self._drop(key, pod.uid)

    # --- what the cache counts ----------------------------------------------------------------------------------------

    def placed(self, pod: PodInfo, node_name: str) -> None:
        """The pod counts on this node from now on."""
        key = self.key_of(pod.pod)
        if key is not None:
            members = self._members.setdefault(key, _Members())
            members.unscheduled.pop(pod.uid, None)
            members.scheduled[pod.uid] = pod, node_name

    def displaced(self, pod: PodInfo, *, is_still_there: bool) -> None:
        """The pod counts on no node any more. `is_still_there`: only its assumption was wrong."""
        key = self.key_of(pod.pod)
        if key is None:
            return
        self._drop(key, pod.uid)
        if is_still_there:
            self._members.setdefault(key, _Members()).unscheduled[pod.uid] = pod

    def _drop(self, key: GroupKey, uid: str) -> None:
        members = self._members.get(key)
        if members is None:
            return
        members.unscheduled.pop(uid, None)
        members.scheduled.pop(uid, None)
        if not members:
            del self._members[key]
