"""Parked elements, grouped by the plugins that rejected them.

An event concerns only elements whose rejecting plugins registered it. Most events (such as a bound pod) are registered
by none of them, and there are only a few distinct sets of plugins, however many elements wait. So all other elements
are skipped as a group.

Where thousands wait for an event that their plugins did register, calling a hint for each of them takes milliseconds.
If all these hints have an index (`framework.hint_index`), the elements are indexed, from the first such event on, and
only those that it finds are concerned.
"""

from collections.abc import Hashable, Iterable, Iterator, KeysView
from typing import Final

from kscheduler.api.meta import KubeObject
from kscheduler.framework.events import ClusterEvent
from kscheduler.framework.hint_index import HintIndex
from kscheduler.state.queue.equivalence_groups import Element
from kscheduler.state.queue.hints import HintTable

# Profile, plugins that rejected it, and plugins that wait for something outside the cluster.
_Kind = tuple[str, frozenset[str], frozenset[str]]


# So many elements are not indexed: calling their hints costs no more than looking them up.
FEW: Final = 8


class Parked:
    """The unschedulable elements in the order in which they were parked, grouped by their plugins at that time."""

    def __init__(self, few: int = FEW) -> None:
        """`few`: so many elements of a kind are not indexed."""
        self._few = few
        self._place_of: dict[Hashable, tuple[int, _Kind]] = {}
        """By element, in the order of parking: its number in that order, and its kind."""
        self._of_kind: dict[_Kind, _ElementsOfKind] = {}
        self._parked_so_far = 0

    def __len__(self) -> int:
        return len(self._place_of)

    def keys(self) -> KeysView[Hashable]:
        """A view of the keys, which follows later changes."""
        return self._place_of.keys()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._place_of

    def __iter__(self) -> Iterator[Element]:
        return (self._of_kind[kind].elements[key] for key, (_, kind) in self._place_of.items())

    def get(self, key: Hashable) -> Element | None:
        """The element with this key."""
        place = self._place_of.get(key)
        return self._of_kind[place[1]].elements[key] if place is not None else None

    def put(self, element: Element) -> None:
        """Park an element; it must not be parked already."""
        kind = element.pod.pod.spec.scheduler_name, element.unschedulable_plugins, element.pending_plugins
        self._parked_so_far += 1
        self._place_of[element.key] = self._parked_so_far, kind
        alike = self._of_kind.get(kind)
        if alike is None:
            alike = self._of_kind[kind] = _ElementsOfKind()
        alike.elements[element.key] = element
        if alike.indexed:
            alike.add_to_indexes(element)

    def pop(self, key: Hashable) -> Element | None:
        """Take the element with this key out."""
        place = self._place_of.pop(key, None)
        if place is None:
            return None
        alike = self._of_kind[place[1]]
        element = alike.elements.pop(key)
        if not alike.elements:
            del self._of_kind[place[1]]
        elif alike.indexed:
            alike.remove_from_indexes(key)
        return element

    def renew(self, element: Element) -> None:
        """The pod of this element has changed; it stays parked, in its place."""
        place = self._place_of.get(element.key)
        if place is not None:
            self._of_kind[place[1]].remove_from_indexes(element.key)
            self._of_kind[place[1]].add_to_indexes(element)

    def concerned(
        self, hints: HintTable, event: ClusterEvent, old: KubeObject | None, new: KubeObject | None
    ) -> list[Element]:
        """The elements that the event may help, in the order of parking.

        Selected by profile and rejecting plugins and, where every hint has an index, by these indexes.
        """
        kinds = [kind for kind in self._of_kind if hints.concerns(kind[0], kind[1] | kind[2], event)]
        if not kinds:
            return []
        found: list[Element] = []
        in_order = len(kinds) < 2
        for kind in kinds:
            alike = self._of_kind[kind]
            indexes = hints.indexes(kind[0], kind[1] | kind[2], event) if len(alike.elements) > self._few else None
            narrowed = alike.found(indexes, old, new) if indexes is not None else None
            in_order &= narrowed is None
            found += alike.elements.values() if narrowed is None else narrowed.values()
        if not in_order:
            found.sort(key=lambda element: self._place_of[element.key][0])
        return found


class _ElementsOfKind:
    """The elements of one kind, in the order of parking."""

    __slots__ = ("elements", "indexed")

    def __init__(self) -> None:
        self.elements: dict[Hashable, Element] = {}
        self.indexed: dict[HintIndex, _IndexedElements] = {}
        """Made when an event first asks for the index."""

    def add_to_indexes(self, element: Element) -> None:
        """Let the indexes find an element."""
        for of_index in self.indexed.values():
            of_index.add(element)

    def remove_from_indexes(self, key: Hashable) -> None:
        """Drop it from the indexes."""
        for of_index in self.indexed.values():
            of_index.remove(key)

    def found(
        self, indexes: Iterable[HintIndex], old: KubeObject | None, new: KubeObject | None
    ) -> dict[Hashable, Element] | None:
        """By key what at least one of the indexes finds; `None`: perhaps all."""
        found: dict[Hashable, Element] = {}
        for index in indexes:
            keys = index.event_keys(old, new)
            if keys is None:
                return None
            of_index = self.indexed.get(index)
            if of_index is None:
                of_index = self.indexed[index] = _IndexedElements(index, self.elements.values())
            of_index.find(keys, found)
        for changed in (old, new):  # a running pod may wait for a resize: its hints may ask whether it is the same pod
            if changed is not None:
                key = f"{changed.metadata.namespace}/{changed.metadata.name}"
                if key in self.elements:
                    found[key] = self.elements[key]
        return found


class _IndexedElements:
    """Elements under the keys of an index."""

    __slots__ = ("_always", "_index", "_keys_of", "_under")

    def __init__(self, index: HintIndex, elements: Iterable[Element]) -> None:
        self._index = index
        self._under: dict[Hashable, dict[Hashable, Element]] = {}
        self._keys_of: dict[Hashable, tuple[Hashable, ...]] = {}
        self._always: dict[Hashable, Element] = {}
        for element in elements:
            self.add(element)

    def add(self, element: Element) -> None:
        # Hints are not called for costly pods: each event in question wakes them.
        keys = None if element.pod.is_costly else self._index.pod_keys(element.pod)
        if keys is None:
            self._always[element.key] = element
            return
        self._keys_of[element.key] = distinct = tuple(dict.fromkeys(keys))
        for key in distinct:
            self._under.setdefault(key, {})[element.key] = element

    def remove(self, name: Hashable) -> None:
        if self._always.pop(name, None) is not None:
            return
        for key in self._keys_of.pop(name):
            elements = self._under[key]
            del elements[name]
            if not elements:
                del self._under[key]

    def find(self, keys: Iterable[Hashable], found: dict[Hashable, Element]) -> None:
        """Add what is under these keys, and what always is in question."""
        found |= self._always
        for key in keys:
            elements = self._under.get(key)
            if elements is not None:
                found |= elements
