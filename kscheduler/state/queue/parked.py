"""Parked elements, by who turned them down.

An event is asked only of those whose rejectors registered it. Most events (a pod that was bound) are registered by none
of them, and of the sets of rejectors there are a handful however many elements wait: so the others are passed over
without a look at each.
"""

from collections.abc import Callable, Hashable, Iterator

from kscheduler.state.queue.bundles import Element

_Kind = tuple[str, frozenset[str], frozenset[str]]
"""Profile, plugins that turned it down, and plugins that wait for something outside the cluster."""


class Parked:
    """The unschedulable ones, in the order in which they were parked; filed by who had turned them down then."""

    def __init__(self) -> None:
        self._kind_of: dict[Hashable, _Kind] = {}
        self._of_kind: dict[_Kind, dict[Hashable, Element]] = {}

    def __len__(self) -> int:
        return len(self._kind_of)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kind_of

    def __iter__(self) -> Iterator[Element]:
        return (self._of_kind[kind][key] for key, kind in self._kind_of.items())

    def get(self, key: Hashable) -> Element | None:
        """The element with this key."""
        kind = self._kind_of.get(key)
        return self._of_kind[kind][key] if kind is not None else None

    def put(self, element: Element) -> None:
        """Park an element; it must not be here."""
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
        """Those whose rejectors are asked: by profile, and all plugins that turned them down."""
        kinds = {kind for kind in self._of_kind if is_asked(kind[0], kind[1] | kind[2])}
        if len(kinds) < 2:
            return [one for kind in kinds for one in self._of_kind[kind].values()]
        return [self._of_kind[kind][key] for key, kind in self._kind_of.items() if kind in kinds]
