"""What the extenders have said about one pod, as a value that the cycle reads, and the port to ask them.

Nothing here knows how they are asked, so that a scheduler without extenders imports no HTTP for them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from kscheduler.api.core import Pod
from kscheduler.client.extenders.messages import FilterResponse, VictimsOnNode
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable


class ExtenderPoints(msgspec.Struct, frozen=True):
    """The points of one extender."""

    extender: str
    weight: int
    by_node: Mapping[str, int]


class ExtenderResults(msgspec.Struct, frozen=True):
    """What the extenders have said about one pod."""

    asked_nodes: frozenset[str]
    """The nodes that they were asked about."""
    left: frozenset[str] = frozenset()
    rejected: Mapping[str, Status] = {}
    """Each node that was asked about and is not left, with the reason of the extender that rejected it."""
    points: tuple[ExtenderPoints, ...] = ()
    status: Status = SUCCESS
    """An Error if an extender failed without which no decision is right."""
    is_about_nodes: bool = True
    """Whether extenders have a say in which node is chosen."""
    victims: "ExtenderVictimResults | None" = None
    """`None`: extenders have no say in the pod's preemption."""
    rejected_by: Mapping[str, str] = {}
    """By node: who rejected it, for explanations; the message is kube-scheduler's, which names nobody."""
    passed_over: Mapping[str, str] = {}
    """By extender: the failure that was ignored, for explanations."""
    failed_by: str = ""
    """The extender behind an Error in `status`."""
    called_extenders: frozenset[str] = frozenset()
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
        return tuple(sorted(failed or set(self.rejected_by.values())))


class ExtenderVictimResults(msgspec.Struct, frozen=True):
    """What the extenders have said about the pod's preemption."""

    reviewed: Mapping[str, ReviewedCandidate] = {}
    """By node; empty before the first question."""
    failure: Status = SUCCESS
    """An Error if an extender failed that is not ignorable."""
    failed_by: str = ""
    """That extender."""
    called_extenders: frozenset[str] = frozenset()
    """The extenders that were called."""
    passed_over: Mapping[str, str] = {}
    """By extender: the failure that was ignored, for explanations."""


# Before the first question: a pod that extenders must be asked about.
UNASKED: Final = ExtenderResults(frozenset())


class Extenders(Protocol):
    """The extenders of a configuration: `extenders.http_extenders.HTTPExtenders`."""

    def first_answers(self, pod: PodInfo) -> ExtenderResults | None:
        """What is known before the first question; `None` if a decision about the pod needs no extender."""
        ...

    def line_of(self, pod: PodInfo) -> str:
        """The names of the extenders that the pod concerns: pods with equal ones stand in one line, and share turns."""
        ...

    def binder_of(self, pod: Pod) -> str:
        """The name of the extender that binds the pod; empty: the profile's plugins do."""
        ...

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        """Ask about these nodes. Never raises for an extender's sake."""
        ...

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        """Ask which of the candidates may be chosen. `pods_on`: by node and UID, when the candidates were found."""
        ...

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Have an extender bind the pod. `None`: the profile's plugins bind it."""
        ...


# What an extender's answer means for a decision: rules without I/O.
#
#     filter       the nodes that it leaves, in the order asked; for the others a status, from what it says about them
#     prioritize   points by node: score * weight * (100 / 10), the scales of nodes and of extenders
#     preempt      for fewer nodes, and maybe other victims on them
#
# Answers may only shrink the list. kube-scheduler believes an extender that answers with whole nodes, also about nodes
# that it was not asked about; here such an answer is an error, like a name that was not asked about. So is a victim
# that kube-scheduler would evict because an extender says so although its priority is not below the preemptor's.

# An extender gives 0 to 10. As in kube-scheduler, what it gives beyond that counts, too.
MAX_SCORE: Final = 10
# Nodes have up to 100 points, extenders give up to 10.
POINTS_PER_SCORE: Final = 10
# Where an extender's points for a node end: sums over extenders and plugins stay within int64.
MAX_POINTS: Final = 2**48

# For a node that an extender left out without a word. Upstream, too, counts it as unresolvable and tells nothing.
_NO_REASON: Final = unresolvable(plugin=EXTENDER)


class ExtenderClaimError(Exception):
    """An extender claims what cannot be, or answers that it failed. The message is kube-scheduler's if it has one."""


# --- filter -----------------------------------------------------------------------------------------------------------


class RemainingNodes(msgspec.Struct, frozen=True):
    """The result of a filter call."""

    names: tuple[str, ...]
    """In the order asked."""
    rejected: Mapping[str, Status]
    """Every other node that was asked about."""


# Characters of an extender's own text in a condition: what it says is stored with every pod that it concerns.
MAX_WORDS: Final = 1024


def shortened(text: str) -> str:
    """An extender's text without control characters, of bounded length."""
    line = "".join(each if each.isprintable() else " " for each in text[: MAX_WORDS + 1])
    return line if len(text) <= MAX_WORDS else f"{line[:MAX_WORDS]}..."


def remaining_nodes(
    extender: str, asked_nodes: Sequence[str], answer: FilterResponse, *, knows_nodes: bool
) -> RemainingNodes:
    """The nodes that an extender leaves. `knows_nodes`: it was sent names. Raises `ExtenderClaimError`.

    A node in both lists of failures is unresolvable.
    """
    if answer.error:
        raise ExtenderClaimError(answer.error)
    by_name = answer.node_names if knows_nodes else None
    named = by_name if by_name is not None else answer.nodes or ()
    known = frozenset(asked_nodes)
    for name in named:
        if name not in known:
            message = f'extender "{extender}" claims a filtered node "{name}" which is not found in the input node list'
            raise ExtenderClaimError(message)
    left = frozenset(named)
    return RemainingNodes(
        tuple(name for name in asked_nodes if name in left),
        {name: _status_of(name, answer) for name in asked_nodes if name not in left},
    )


def _status_of(name: str, answer: FilterResponse) -> Status:
    if name in answer.unresolvable:
        return unresolvable(shortened(answer.unresolvable[name]), plugin=EXTENDER)
    if name in answer.failed:
        return unschedulable(shortened(answer.failed[name]), plugin=EXTENDER)
    return _NO_REASON


# --- prioritize -------------------------------------------------------------------------------------------------------


def points_of(scores: Iterable[tuple[str, int]], weight: int, asked_nodes: Collection[str]) -> dict[str, int]:
    """The points by node; scores of one node add up, and nodes that were not asked about are ignored, as upstream."""
    known = frozenset(asked_nodes)
    factor = weight * POINTS_PER_SCORE
    points: dict[str, int] = {}
    for name, score in scores:
        if name in known:
            given = points.get(name, 0) + score * factor
            points[name] = given if -MAX_POINTS < given < MAX_POINTS else _bounded(given)
    return points


def _bounded(points: int) -> int:
    """Where Go's int64 would turn a huge score into a negative one, it ends."""
    return max(-MAX_POINTS, min(points, MAX_POINTS))


# --- preempt ----------------------------------------------------------------------------------------------------------

Victims = Mapping[str, VictimsOnNode]
# The pods on a node, by UID, as they were when the victims were chosen: it must not change between calls.
PodsOn = Callable[[str], Mapping[str, PodInfo]]


def left_victims(
    extender: str, proposed: Victims, answer: Victims, pods_on: PodsOn, preemptor: PodInfo, *, is_ignorable: bool
) -> dict[str, VictimsOnNode]:
    """The nodes and victims that an extender leaves. Raises `ExtenderClaimError`.

    It may name other victims than were proposed, as long as they are on the node and below the preemptor's priority. A
    node without victims is an error, unless it was proposed without any (from 1.38 on: another extender may name some);
    from an ignorable extender, the node is just left out.
    """
    left: dict[str, VictimsOnNode] = {}
    for name, victims in answer.items():
        if name not in proposed:
            message = f'extender "{extender}" claims a preemption on node "{name}" which is not found in the input'
            raise ExtenderClaimError(message)
        _check_victims(extender, name, victims, pods_on(name), preemptor)
        if victims.uids or not proposed[name].uids:
            left[name] = victims
        elif not is_ignorable:
            message = f'expected at least one victim pod on node "{name}"'
            raise ExtenderClaimError(message)
    return left


def _check_victims(
    extender: str, node: str, victims: VictimsOnNode, present: Mapping[str, PodInfo], preemptor: PodInfo
) -> None:
    for uid in victims.uids:
        claims = f"extender: {extender} claims to preempt pod (UID: {uid}) on node: {node}"
        pod = present.get(uid)
        if pod is None:
            message = f"{claims}, but the pod is not found on that node"
            raise ExtenderClaimError(message)
        if pod.priority >= preemptor.priority:
            message = f"{claims}, but its priority is not below that of pod {preemptor.key}"
            raise ExtenderClaimError(message)
