"""What HTTP extenders say about the members of a group in one attempt.

The group's cycle never awaits, so it is run as often as it has questions, each time on the nodes as they are then:

    try the group with what is known --> extenders must be asked about a member --> ask, and try again
              '--> no question is left: that is the decision

A question of a member ends the trial, and nothing of it stays. What was said of a node stands for the whole attempt,
and is asked once; a member may be asked about in each placement of its group, and when other nodes have become free.
Members with equal specs are asked about together, before their turn comes: an extender is not told who was placed
before in the trial, by kube-scheduler neither, so the order means nothing to it.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kscheduler.aio.tasks import all_of
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import error
from kscheduler.scheduling.extenders.extender_results import ExtenderPoints, ExtenderResults, Extenders
from kscheduler.scheduling.record import SchedulingRecord

# How often extenders are asked about a member in one attempt: in each placement, and where nodes have become free.
MAX_QUERIES: Final = 64
QUERIED_TOO_OFTEN: Final = (
    f"extenders were asked {MAX_QUERIES} times about the pod, and its group needs them to be again"
)
# Of how many members extenders are asked at a time, of all groups: as many as pods by themselves of one line.
AT_A_TIME: Final = 16
_MUST_BE_QUERIED: Final = error("extenders must be asked first", plugin=EXTENDER)


class MemberExtenderResults:
    """By key of a member; of those that concern no extender nothing is known."""

    def __init__(self, known: Mapping[str, ExtenderResults]) -> None:
        self._known = dict(known)
        self._queried: dict[str, int] = {}
        """How often, by key."""
        self.query: tuple[PodInfo, Sequence[str]] | None = None
        """A member about which extenders must be asked, with the nodes."""

    def __bool__(self) -> bool:
        return bool(self._known)

    def of(self, pod: PodInfo) -> ExtenderResults | None:
        """What is known; `None`: the pod concerns no extender."""
        return self._known.get(pod.key)

    def known(self) -> Mapping[str, ExtenderResults]:
        """All of it, by key."""
        return self._known

    def check(self, record: SchedulingRecord) -> None:
        """End the trial with an error in the member's record if extenders must be asked."""
        if not record.queries:
            return
        if self._queried.get(record.pod.key, 0) >= MAX_QUERIES:
            record.status = error(QUERIED_TOO_OFTEN, plugin=EXTENDER)
        else:
            known = self._known[record.pod.key].asked_nodes
            self.query = record.pod, [name for name in record.queries if name not in known]
            record.status = _MUST_BE_QUERIED
        record.queries = ()

    async def ask(self, extenders: Extenders, members: Iterable[PodInfo], turns: asyncio.Semaphore) -> None:
        """Ask the question, about all members that are like this one and were not asked about, each when it has a turn.

        Never raises for an extender's sake.
        """
        if self.query is None:
            return
        (pod, names), self.query = self.query, None
        alike = [each for each in members if each.key != pod.key and self._is_alike(each, pod)]
        for each in (pod, *alike):
            self._queried[each.key] = self._queried.get(each.key, 0) + 1

        async def about(member: PodInfo) -> ExtenderResults:
            async with turns:
                return await extenders.about_nodes(member, names)

        calls = [about(each) for each in (pod, *alike)]
        for each, found in zip((pod, *alike), await all_of("members of a group", calls), strict=True):
            self._known[each.key] = merged(self._known[each.key], found)

    def _is_alike(self, pod: PodInfo, asked_pod: PodInfo) -> bool:
        known = self._known.get(pod.key)
        if known is None or known.asked_nodes or pod.namespace != asked_pod.namespace:
            return False
        return pod.labels == asked_pod.labels and pod.pod.spec == asked_pod.pod.spec


def first_answers(extenders: Extenders | None, members: Iterable[PodInfo]) -> MemberExtenderResults:
    """Before the first question."""
    if extenders is None:
        return MemberExtenderResults({})
    first = {pod.key: extenders.first_answers(pod) for pod in members}
    return MemberExtenderResults({key: answers for key, answers in first.items() if answers is not None})


def merged(before: ExtenderResults, found: ExtenderResults) -> ExtenderResults:
    """What was said of some nodes, and now of others. An Error stays."""
    return replace(
        found,
        asked_nodes=before.asked_nodes | found.asked_nodes,
        left=before.left | found.left,
        rejected={**before.rejected, **found.rejected},
        points=_merged_points((*before.points, *found.points)),
        victims=before.victims,
        rejected_by={**before.rejected_by, **found.rejected_by},
        passed_over={**before.passed_over, **found.passed_over},
        called_extenders=before.called_extenders | found.called_extenders,
    )


def _merged_points(points: Iterable[ExtenderPoints]) -> tuple[ExtenderPoints, ...]:
    found: dict[tuple[str, int], dict[str, int]] = {}
    for each in points:
        found.setdefault((each.extender, each.weight), {}).update(each.by_node)
    return tuple(ExtenderPoints(extender, weight, by_node) for (extender, weight), by_node in found.items())
