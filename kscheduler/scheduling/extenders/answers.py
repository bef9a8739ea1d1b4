"""What the extenders have said about one pod, as a value that the cycle reads; how they are asked is above."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kscheduler.framework.status import SUCCESS, Status


@dataclass(frozen=True, slots=True)
class ExtenderPoints:
    """The points of one extender."""

    extender: str
    weight: int
    by_node: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExtenderAnswers:
    """What the extenders have said about one pod."""

    asked: frozenset[str]
    """The nodes that they were asked about."""
    left: frozenset[str] = frozenset()
    turned_down: Mapping[str, Status] = field(default_factory=dict)
    """Each node that was asked about and is not left, with the reason of the extender that turned it down."""
    points: tuple[ExtenderPoints, ...] = ()
    status: Status = SUCCESS
    """An Error if an extender failed without which no decision is right."""

    def points_of(self, name: str) -> int:
        """The sum of all extenders' points for a node."""
        return sum(points.by_node.get(name, 0) for points in self.points)


UNASKED: Final = ExtenderAnswers(frozenset())
"""Before the first question: a pod that extenders must be asked about."""
