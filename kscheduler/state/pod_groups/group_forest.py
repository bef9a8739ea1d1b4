"""The groups as trees: each names its parent, a composite group that may come later, or never.

A link is kept from the moment when the child is known, so the parent finds its children when it comes. Whether a group
belongs to a whole tree is looked up from below: `root_of`. Groups without a parent are trees of their own, and with the
gate CompositePodGroup off there are no others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kscheduler.api.meta import Condition
from kscheduler.framework.cluster.pod_groups import DEEPEST_TREE, GroupDefinition, GroupKey


class GroupForest:
    """All groups that the watch has shown."""

    def __init__(self) -> None:
        self._definitions: dict[GroupKey, GroupDefinition] = {}
        self._children: dict[GroupKey, set[GroupKey]] = {}
        """By composite group, known or not; none is empty."""
        self._sorted: dict[GroupKey, tuple[GroupDefinition, ...]] = {}
        """The same in their order, where somebody has asked since it changed."""
        self._leaves_of: dict[GroupKey, Sequence[GroupKey]] = {}
        """Likewise by composite group all leaves; empty after any change."""

    def definition(self, key: GroupKey) -> GroupDefinition | None:
        """What the group asks for; `None`: the watch has not shown it."""
        return self._definitions.get(key)

    def definitions(self) -> Iterator[GroupDefinition]:
        """All groups."""
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
        for _ in range(DEEPEST_TREE):
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
        while at is not None and at not in seen and len(seen) < DEEPEST_TREE:
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
            known = tuple(sorted(found, key=lambda child: (child.created, child.key.name, child.key.is_composite)))
            if known:
                self._sorted[key] = known
        # Whoever walks down a tree recursively must come to an end, whatever somebody has made.
        return known if known and len(list(self.ancestry(key))) < DEEPEST_TREE else ()

    def leaves(self, key: GroupKey) -> Sequence[GroupKey]:
        """The groups of pods below a group, in order; levels that are too deep have none."""
        if not key.is_composite:
            return (key,)
        known = self._leaves_of.get(key)
        if known is None:
            known = self._leaves_of[key] = tuple(self._leaves(key, DEEPEST_TREE))
        return known

    def _leaves(self, key: GroupKey, levels: int) -> list[GroupKey]:
        if not key.is_composite:
            return [key]
        if levels <= 1:
            return []
        return [leaf for child in self.children(key) for leaf in self._leaves(child.key, levels - 1)]
