"""Pods that are rejected with their class, in one line.

A hundred thousand pods that fit nowhere may share one verdict. The pod that went through the cycle has a line of its
own. Pods that were rejected with the same verdict are counted here, and once a second a line per class is written: how
many, the first few names, and which pod went through the cycle (`like`).
"""

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

FIRST_NAMES: Final = 5
MOST_CLASSES: Final = 100
"""Classes that wait for their line: if there are more, the lines are written at once."""


@dataclass(slots=True)
class _Together:
    """Pods with one verdict."""

    message: str
    plugins: list[str]
    like: str
    pods: int = 0
    first: list[str] = field(default_factory=list)


class TurnedDownTogether:
    """Counts rejected pods by class and message."""

    def __init__(self) -> None:
        self._classes: dict[tuple[Hashable, str], _Together] = {}

    @property
    def is_full(self) -> bool:
        """Whether the lines should be written now."""
        return len(self._classes) >= MOST_CLASSES

    def add(self, name: Hashable, keys: Collection[str], message: str, plugins: Collection[str], like: str) -> None:
        """Add pods of a class that were rejected with the verdict for the pod `like`. `keys` is not kept."""
        together = self._classes.get((name, message))
        if together is None:
            together = self._classes[name, message] = _Together(message, sorted(plugins), like)
        others = (key for key in keys if key != like)
        while len(together.first) < FIRST_NAMES and (key := next(others, None)) is not None:
            together.first.append(key)
        together.pods += len(keys) - (like in keys)

    def take(self) -> Iterator[dict[str, Any]]:
        """The fields of one line per class; the counts start again at zero."""
        classes, self._classes = self._classes, {}
        for together in classes.values():
            fields = {"pods": together.pods, "first": together.first, "message": together.message}
            yield {**fields, "plugins": together.plugins, "like": together.like}
