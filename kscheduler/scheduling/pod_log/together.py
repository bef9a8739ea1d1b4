"""Pods that are turned down with their class, told in one line.

A hundred thousand pods that fit nowhere are one verdict. The pod that was judged has a line of its own; those that were
turned down in its words are counted here, and a line per class tells of them when somebody asks, once a second:
how many, the first few names, and like whom.
"""

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

FIRST_NAMES: Final = 5
MOST_CLASSES: Final = 100
"""That wait to be told: beyond that they are told at once."""


@dataclass(slots=True)
class _Together:
    """Pods with one verdict."""

    message: str
    plugins: list[str]
    like: str
    pods: int = 0
    first: list[str] = field(default_factory=list)


class TurnedDownTogether:
    """Counts them between two tellings."""

    def __init__(self) -> None:
        self._classes: dict[tuple[Hashable, str], _Together] = {}

    @property
    def is_full(self) -> bool:
        """Whether it is time to tell."""
        return len(self._classes) >= MOST_CLASSES

    def add(self, name: Hashable, keys: Collection[str], message: str, plugins: Collection[str], like: str) -> None:
        """These pods of the class were turned down as the pod `like` was. `keys` is not kept."""
        together = self._classes.get((name, message))
        if together is None:
            together = self._classes[name, message] = _Together(message, sorted(plugins), like)
        others = (key for key in keys if key != like)
        while len(together.first) < FIRST_NAMES and (key := next(others, None)) is not None:
            together.first.append(key)
        together.pods += len(keys) - (like in keys)

    def take(self) -> Iterator[dict[str, Any]]:
        """The fields of a line per class, and begin anew."""
        classes, self._classes = self._classes, {}
        for one in classes.values():
            fields = {"pods": one.pods, "first": one.first, "message": one.message}
            yield {**fields, "plugins": one.plugins, "like": one.like}
