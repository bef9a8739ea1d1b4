"""What the extenders have said about one pod, as a value that the cycle reads, and the port to ask them.

Nothing here knows how they are asked, so whoever has no extenders imports no HTTP for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kscheduler.api.core import Pod
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.pods.pod_info import PodInfo
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
    """Each node that was asked about and is not left, with the reason of the extender that rejected it."""
    points: tuple[ExtenderPoints, ...] = ()
    status: Status = SUCCESS
    """An Error if an extender failed without which no decision is right."""
    is_about_nodes: bool = True
    """Whether extenders have a say in which node is chosen."""
    victims: "VictimAnswers | None" = None
    """`None`: extenders have no say in the pod's preemption."""
    turned_down_by: Mapping[str, str] = field(default_factory=dict)
    """By node: who rejected it, for explanations; the message is kube-scheduler's, which names nobody."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """By extender: the failure that was ignored, for explanations."""
    failed_by: str = ""
    """The extender behind an Error in `status`."""
    asked_of: frozenset[str] = frozenset()
    """The extenders that were called. One is not, if those before it have left no node."""

    def points_of(self, name: str) -> int:
        """The sum of all extenders' points for a node."""
        return sum(points.by_node.get(name, 0) for points in self.points)

    @property
    def objectors(self) -> tuple[str, ...]:
        """The extenders that stand behind a failed attempt: the one that failed, or those that rejected nodes.

        For the log; conditions and Events have kube-scheduler's texts, which name nobody.
        """
        failed = {self.failed_by, self.victims.failed_by if self.victims is not None else ""} - {""}
        return tuple(sorted(failed or set(self.turned_down_by.values())))


@dataclass(frozen=True, slots=True)
class VictimAnswers:
    """What the extenders have said about the pod's preemption."""

    reviewed: Mapping[str, ReviewedCandidate] = field(default_factory=dict)
    """By node; empty before the first question."""
    failure: Status = SUCCESS
    """An Error if an extender failed that is not ignorable."""
    failed_by: str = ""
    """That extender."""
    asked_of: frozenset[str] = frozenset()
    """The extenders that were called."""
    passed_over: Mapping[str, str] = field(default_factory=dict)
    """By extender: the failure that was ignored, for explanations."""


UNASKED: Final = ExtenderAnswers(frozenset())
"""Before the first question: a pod that extenders must be asked about."""


class Extenders(Protocol):
    """The extenders of a configuration: `extenders.asking.HTTPExtenders`."""

    def first_answers(self, pod: PodInfo) -> ExtenderAnswers | None:
        """What is known before the first question; `None` if a decision about the pod needs no extender."""
        ...

    def line_of(self, pod: PodInfo) -> str:
        """The names of the extenders that the pod concerns: pods with equal ones stand in one line, and share turns."""
        ...

    def binder_of(self, pod: Pod) -> str:
        """The name of the extender that binds the pod; empty: the profile's plugins do."""
        ...

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderAnswers:
        """Ask about these nodes. Never raises for an extender's sake."""
        ...

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> VictimAnswers:
        """Ask which of the candidates may be chosen. `pods_on`: by node and UID, when the candidates were found."""
        ...

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Have an extender bind the pod. `None`: the profile's plugins bind it."""
        ...
