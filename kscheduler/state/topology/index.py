"""An index of selectors: finds the selectors that match a pod without testing each of them.

The problem: ten thousand sets of pods and held terms may be kept, and every pod that comes or goes concerns a few.
The idea: a set of pods is filed under its namespaces and the label values of a single requirement (the In requirement
with the fewest values). For a pod only the drawers of its own namespace and labels are opened, and their content is
tested in full. Sets with a namespace selector are filed under no namespace, sets without an In requirement under no
label.
"""

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from kscheduler.framework.hint_index import LabelKey, keys_of_match
from kscheduler.framework.pods.affinity_terms import PodMatch

T = TypeVar("T")


class MatchIndex(Generic[T]):
    """Values filed under sets of pods. A value is filed under a single set."""

    def __init__(self) -> None:
        self._drawers: dict[LabelKey, dict[T, PodMatch]] = {}

    def __bool__(self) -> bool:
        return bool(self._drawers)

    def add(self, match: PodMatch, value: T) -> None:
        """File a value under a set."""
        for drawer in keys_of_match(match):
            self._drawers.setdefault(drawer, {})[value] = match

    def remove(self, match: PodMatch, value: T) -> None:
        """Remove a value. Raises `KeyError` if it was not filed."""
        for drawer in keys_of_match(match):
            values = self._drawers[drawer]
            del values[value]
            if not values:
                del self._drawers[drawer]

    def selecting(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] | None
    ) -> Iterator[tuple[PodMatch, T]]:
        """The sets, with their values, that contain a pod with this namespace and labels (deletion is not checked)."""
        if not self._drawers:
            return
        for drawer in self._open(namespace, labels):
            for value, match in drawer.items():
                if match.selects(labels) and match.names(namespace, namespace_labels):
                    yield match, value

    def _open(self, namespace: str, labels: Mapping[str, str]) -> Iterator[dict[T, PodMatch]]:
        drawers = self._drawers
        for place in (namespace, None):
            if (drawer := drawers.get((place, None, None))) is not None:
                yield drawer
            for key, value in labels.items():
                if (drawer := drawers.get((place, key, value))) is not None:
                    yield drawer
