"""Parked elements, grouped by the plugins that rejected them.

An event concerns only elements whose rejecting plugins registered it. Most events (such as a bound pod) are registered
by none of them, and there are only a few distinct sets of plugins, however many elements wait. So all other elements
are skipped as a group.
"""

from collections.abc import Callable, Hashable, Iterator, KeysView

from kscheduler.state.queue.bundles import Element

_Kind = tuple[str, frozenset[str], frozenset[str]]
"""Profile, plugins that rejected it, and plugins that wait for something outside the cluster."""


class Parked:
    """The unschedulable elements in the order in which they were parked, grouped by their plugins at that time."""

    def __init__(self) -> None:
        self._kind_of: dict[Hashable, _Kind] = {}
        self._of_kind: dict[_Kind, dict[Hashable, Element]] = {}

    def __len__(self) -> int:
        return len(self._kind_of)

    def keys(self) -> KeysView[Hashable]:
        """A view of the keys, which follows later changes."""
        return self._kind_of.keys()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kind_of

    def __iter__(self) -> Iterator[Element]:
        return (self._of_kind[kind][key] for key, kind in self._kind_of.items())

    def get(self, key: Hashable) -> Element | None:
        """The element with this key."""
        kind = self._kind_of.get(key)
        return self._of_kind[kind][key] if kind is not None else None

    def put(self, element: Element) -> None:
        """Park an element; it must not be parked already."""
        kind = element.pod.pod.spec.scheduler_name, element.unschedulable_plugins, element.pending_plugins
        self._kind_of[element.key] = kind
        self._of_kind.setdefault(kind, {})[element.key] = element

    def pop(self, key: Hashable) -> Element | None:
        """Take the element with this key out."""
        kind = self._kind_of.pop(key, None)
        if kind is None:
            return None
        elements = self._of_kind[kind]
        element = elements.pop(key)
        if not elements:
            del self._of_kind[kind]
        return element

    def concerned(self, is_asked: Callable[[str, frozenset[str]], bool]) -> list[Element]:
        """The elements for which `is_asked` is true; it gets the profile and all plugins that rejected them."""
        kinds = {kind for kind in self._of_kind if is_asked(kind[0], kind[1] | kind[2])}
        if len(kinds) < 2:
            return [element for kind in kinds for element in self._of_kind[kind].values()]
        return [self._of_kind[kind][key] for key, kind in self._kind_of.items() if kind in kinds]
