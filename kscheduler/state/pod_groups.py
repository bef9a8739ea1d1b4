"""Pod groups as the API server has them, and their members in the cache; groups of groups are a forest."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.groups import DEEPEST_TREE
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.pod_groups import Absence, GroupDefinition, GroupKey, absence_of
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.group_apis import COMPOSITE, GroupAPI

# The groups as trees: each names its parent, a composite group that may come later, or never.
#
# A link is kept from the moment when the child is known, so the parent finds its children when it comes. Whether a
# group belongs to a whole tree is looked up from below: `root_of`. Groups without a parent are trees of their own, and
# with the gate CompositePodGroup off there are no others.


class GroupForest:
    """All groups that the watch has shown."""

    def __init__(self) -> None:
        self._levels = DEEPEST_TREE
        self._definitions: dict[GroupKey, GroupDefinition] = {}
        self._children: dict[GroupKey, set[GroupKey]] = {}
        """By composite group, known or not; none is empty."""
        self._sorted: dict[GroupKey, tuple[GroupDefinition, ...]] = {}
        """The same in their order, where somebody has asked since it changed."""
        self._leaves_of: dict[GroupKey, Sequence[GroupKey]] = {}
        """Likewise by composite group all leaves; empty after any change."""

    @property
    def levels(self) -> int:
        """How many levels of a tree are followed."""
        return self._levels

    @levels.setter
    def levels(self, levels: int) -> None:
        self._levels = levels
        self._leaves_of.clear()

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        """What the group asks for; `None`: the watch has not shown it."""
        return self._definitions.get(key)

    def definitions(self) -> Iterator[GroupDefinition]:
        return iter(self._definitions.values())

    def put(self, definition: GroupDefinition) -> None:
        """Add a group, or replace it."""
        self.remove(definition.key)
        self._definitions[definition.key] = definition
        self._leaves_of.clear()
        if definition.parent is not None:
            self._children.setdefault(definition.parent, set()).add(definition.key)
            self._sorted.pop(definition.parent, None)

    def remove(self, key: GroupKey) -> None:
        """The group is gone; the groups below it still name it."""
        gone = self._definitions.pop(key, None)
        self._leaves_of.clear()
        if gone is None or gone.parent is None:
            return
        self._sorted.pop(gone.parent, None)
        siblings = self._children[gone.parent]
        siblings.discard(key)
        if not siblings:
            del self._children[gone.parent]

    def note_condition(self, key: GroupKey, condition: Condition) -> None:
        """The group has this condition from now on."""
        definition = self._definitions.get(key)
        if definition is not None:
            others = tuple(known for known in definition.conditions if known.type != condition.type)
            self.put(replace(definition, conditions=(*others, condition)))

    def root_of(self, key: GroupKey) -> GroupKey | None:
        """The group at the top of the tree; `None` where a group on the way is unknown or the way is too long.

        A circle is a way that is too long.
        """
        at: GroupKey | None = key
        for _ in range(self._levels):
            definition = self._definitions.get(at) if at is not None else None
            if definition is None:
                return None
            if definition.parent is None:
                return definition.key
            at = definition.parent
        return None

    def ancestry(self, key: GroupKey) -> Iterator[GroupDefinition]:
        """The group and those above it, as far as they are known, and no group twice."""
        at: GroupKey | None = key
        seen: set[GroupKey] = set()
        while at is not None and at not in seen and len(seen) < self._levels:
            seen.add(at)
            definition = self._definitions.get(at)
            if definition is None:
                return
            yield definition
            at = definition.parent

    def children(self, key: GroupKey) -> Sequence[GroupDefinition]:
        """The groups of a composite group: the oldest first, then by name. On the deepest level there are none."""
        known = self._sorted.get(key)
        if known is None:
            found = (self._definitions[child] for child in self._children.get(key, ()))
            known = tuple(sorted(found, key=lambda child: (child.created, child.key.name, not child.key.is_composite)))
            if known:
                self._sorted[key] = known
        # A recursive walk down a tree must come to an end, whatever users have created.
        return known if known and len(list(self.ancestry(key))) < self._levels else ()

    def leaves(self, key: GroupKey) -> Sequence[GroupKey]:
        """The groups of pods below a group, in order; levels that are too deep have none."""
        if not key.is_composite:
            return (key,)
        known = self._leaves_of.get(key)
        if known is None:
            known = self._leaves_of[key] = tuple(self._leaves(key, self._levels))
        return known

    def _leaves(self, key: GroupKey, levels: int) -> list[GroupKey]:
        if not key.is_composite:
            return [key]
        if levels <= 1:
            return []
        return [leaf for child in self.children(key) for leaf in self._leaves(child.key, levels - 1)]


# All pod groups with their members, by state.
#
#     add_member ---> unscheduled ---assumed---> scheduled ---confirmed---> scheduled
#                         ^   |                     |
#                         |   | remove_member       | forgotten: its binding has failed
#                         +---|---------------------+
#                             v
#                          (unknown)
#
# A member may come before its group, and stay after it. `Cache` moves members between the two states as it counts them
# on nodes, the handler of pods adds and removes those without a node. With no API, nothing is kept and no pod is in a
# group.
#
# Members are those of groups of pods; a composite group has the members of all leaves below it.


@dataclass(slots=True)
class _Members:
    unscheduled: dict[str, PodInfo] = field(default_factory=dict)
    scheduled: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)
    """With the node's name. Both by UID; a member is in one of them."""

    def __bool__(self) -> bool:
        return bool(self.unscheduled or self.scheduled)


_NO_MEMBERS = _Members()


def nothing_known(_: GroupKey) -> str:
    """The API server has all kinds of pod groups that are followed, and all groups can be read."""
    return ""


def _have_composites(apis: Sequence[GroupAPI]) -> bool:
    return any(api.name == COMPOSITE for api in apis)


class PodGroupTable:
    """Groups and members. Implements `framework.cluster.pod_groups.PodGroupView`."""

    def __init__(self, apis: Sequence[GroupAPI] = (), why_missing: Absence = nothing_known) -> None:
        """`why_missing`: how a group is missing, where it may be there all the same; empty: nothing says so."""
        self._forest = GroupForest()
        self.follow(apis)
        self.version = 0
        """Grows with each change of groups or members."""
        self._members: dict[GroupKey, _Members] = {}
        self._namesakes: dict[str, set[GroupKey]] = {}
        """By name the groups that the watch has shown."""
        self._why_missing = why_missing
        self._unseen: dict[GroupKey, tuple[GroupDefinition, Condition]] = {}
        """By group, as the watch has shown it: the condition that it does not have there yet."""

    def follow(self, apis: Sequence[GroupAPI]) -> None:
        """Look for groups in these APIs from now on. Once groups are in the table: the same APIs, as another version of
        Kubernetes has them; the groups must be put again.
        """
        self.apis = tuple(apis)
        """Those that are followed; none: groups are off."""
        self._has_composites = _have_composites(self.apis)
        self._forest.levels = max((api.levels for api in self.apis), default=DEEPEST_TREE)

    @property
    def levels(self) -> int:
        """How many levels of a tree are followed."""
        return self._forest.levels

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

    def kind_of(self, key: GroupKey) -> Kind | None:
        """The kind of a group, in the version that is followed; `None`: it is not followed."""
        found = (api.kind for api in self.apis if (api.kind.group, api.is_composite) == (key.api, key.is_composite))
        return next(found, None)

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        """What the group asks for; `None`: the watch has not shown it."""
        return self._forest.definition(key)

    def absence(self, key: GroupKey) -> str:
        """How a group is missing, with groups of the same name that are there."""
        return absence_of(key, self._namesakes.get(key.name, ()), self._why_missing(key))

    def root_of(self, key: GroupKey) -> GroupKey | None:
        """The group at the top of the tree; `None`: the tree is not whole, or too deep."""
        return self._forest.root_of(key)

    def ancestry(self, key: GroupKey) -> Iterator[GroupDefinition]:
        """The group and those above it, as far as they are known."""
        return self._forest.ancestry(key)

    def children(self, key: GroupKey) -> Sequence[GroupDefinition]:
        """The groups of a composite group, in the order in which they are tried."""
        return self._forest.children(key)

    def leaves(self, key: GroupKey) -> Sequence[GroupKey]:
        """The groups of pods below a group, in order; of a group of pods, itself."""
        return self._forest.leaves(key)

    def count_all(self, key: GroupKey) -> int:
        """The number of members that the scheduler knows, in any state."""
        return sum(len(each.unscheduled) + len(each.scheduled) for each in self._below(key))

    def count_scheduled(self, key: GroupKey) -> int:
        """The number of members that count on a node: bound, or assumed to be."""
        return sum(len(each.scheduled) for each in self._below(key))

    def scheduled_uids(self, key: GroupKey) -> Collection[str]:
        """UIDs of the members that count on a node."""
        return [uid for each in self._below(key) for uid in each.scheduled]

    def scheduled(self, key: GroupKey) -> Collection[PodInfo]:
        """The members that count on a node."""
        return [pod for each in self._below(key) for pod, _ in each.scheduled.values()]

    def assignments(self, key: GroupKey) -> Collection[tuple[PodInfo, str]]:
        """The members that count on a node, with its name: an assumed pod does not say it by itself."""
        return [assigned for each in self._below(key) for assigned in each.scheduled.values()]

    def unscheduled_keys(self, key: GroupKey, most: int | None = None) -> Collection[str]:
        """Keys (`namespace/name`) of the members without a node, the last ones first; at most so many."""
        pods = (pod for each in reversed(self._below(key)) for pod in reversed(each.unscheduled.values()))
        return [pod.key for pod in islice(pods, most)]

    def groups(self) -> Iterator[GroupDefinition]:
        """All groups that the watch has shown."""
        return self._forest.definitions()

    def _below(self, key: GroupKey) -> Sequence[_Members]:
        """The members of a group, or of all leaves below a composite one."""
        if not key.is_composite:
            return (self._members.get(key, _NO_MEMBERS),)
        return [self._members.get(leaf, _NO_MEMBERS) for leaf in self._forest.leaves(key)]

    # --- what the watch shows -----------------------------------------------------------------------------------------

    def put(self, definition: GroupDefinition) -> None:
        """Add a group, or replace it. Where composite groups are not followed, nobody has a parent."""
        if not self._has_composites:
            if definition.key.is_composite:
                return
            definition = replace(definition, parent=None) if definition.parent is not None else definition
        self.version += 1
        self._namesakes.setdefault(definition.key.name, set()).add(definition.key)
        self._forest.put(definition)
        shown, noted = self._unseen.pop(definition.key, (definition, None))
        # that it was not scheduled yet may be said again; that it was must be known
        if noted is None or noted.status != "True" or shown.uid != definition.uid:
            return
        if not any(each.type == noted.type and each.status == "True" for each in definition.conditions):
            self.note_condition(definition.key, noted)

    def note_condition(self, key: GroupKey, condition: Condition) -> None:
        """This is being written to the group's status: the next attempt must know before the watch shows it."""
        definition = self._forest.definition(key)
        if definition is not None:
            shown, _ = self._unseen.get(key, (definition, None))
            self._unseen[key] = shown, condition
            self._forest.note_condition(key, condition)

    def withdraw_condition(self, key: GroupKey, condition: Condition) -> None:
        """This was not written after all. A condition that was noted later stays."""
        shown, noted = self._unseen.get(key, (None, None))
        if shown is not None and noted == condition:
            del self._unseen[key]
            self._forest.put(shown)

    def remove(self, key: GroupKey) -> None:
        """The group is gone; its members, and the groups below it, stay."""
        self.version += 1
        self._unseen.pop(key, None)
        namesakes = self._namesakes.get(key.name, set())
        namesakes.discard(key)
        if not namesakes:
            self._namesakes.pop(key.name, None)
        self._forest.remove(key)

    def add_member(self, pod: PodInfo) -> None:
        """A pod without a node has appeared, or has changed."""
        key = self.key_of(pod.pod)
        if key is not None:
            self.version += 1
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
            self.version += 1
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
        self.version += 1
        members = self._members.get(key)
        if members is None:
            return
        members.unscheduled.pop(uid, None)
        members.scheduled.pop(uid, None)
        if not members:
            del self._members[key]
