"""Asks the extenders about one pod, in order, and puts their answers together.

    filter       one after the other, each about what the one before left; ends when nothing is left
    prioritize   all at once, about what is left: only if that is more than one node
    preempt      one after the other, as filter
    bind         by the one extender that binds, instead of the Bind plugins

An extender that is not interested in the pod is skipped. A failure ends it all with an Error, as upstream, unless
the extender is ignorable: then the decision goes on without it. Failures to give points never count.

What goes wrong on our side is no failure of an extender's: if the API server does not give us an object that must be
sent, or this process is ending, the attempt fails, whether the extender is ignorable or not. Otherwise a pod would be
placed without a filter because *we* could not read a node.

The answers hold for the nodes and the pod as they were sent. The caller decides again when it has them: on the nodes
that the pod fits on *then*, as far as the answers allow them.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kscheduler.aio.tasks import all_of
from kscheduler.api.core import Pod
from kscheduler.client.extenders.caller import CallGivenUpError
from kscheduler.client.extenders.messages import VictimsOnNode
from kscheduler.client.extenders.whole_objects import ObjectReadError
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.nodes.pod_columns import started_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, error
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, BindOutcomes, PodPlace, not_seen
from kscheduler.scheduling.extenders.extender_results import (
    UNASKED,
    ExtenderPoints,
    ExtenderResults,
    ExtenderVictimResults,
    Victims,
)
from kscheduler.scheduling.extenders.http_extender import (
    BindFailure,
    ExtenderFailure,
    HTTPExtender,
    ObjectSource,
    SentPod,
)


def _reviewed(candidate: Candidate, left: Victims, pods_on: Mapping[str, Mapping[str, PodInfo]]) -> ReviewedCandidate:
    """What the extenders made of a candidate."""
    name = candidate.node_name
    proposed = frozenset(victim.uid for victim in candidate.victims)
    if name not in left or not left[name].uids:
        return ReviewedCandidate(proposed, None)
    pods = [pods_on[name][uid] for uid in dict.fromkeys(left[name].uids)]
    pods.sort(key=lambda pod: (-pod.priority, started_at(pod)))
    return ReviewedCandidate(proposed, Candidate(name, tuple(pods), left[name].pdb_violations))


def _not_asked(failure: Exception) -> Status:
    return error(f"extenders cannot be asked: {failure}", plugin=EXTENDER)


def _always() -> bool:
    return True


async def _unknown(_pod: Pod) -> PodPlace:
    return UNKNOWN_PLACE


def in_order(extenders: Sequence[HTTPExtender]) -> tuple[HTTPExtender, ...]:
    """In the order in which they are asked: ignorable ones last, otherwise as configured."""
    return tuple(sorted(extenders, key=lambda each: each.settings.ignorable))


class HTTPExtenders:
    """Asks a fixed set of extenders; a configuration reload makes a new one."""

    def __init__(
        self,
        extenders: Sequence[HTTPExtender],
        objects: ObjectSource,
        *,
        may_bind: Callable[[], bool] = _always,
        outcomes: BindOutcomes | None = None,
    ) -> None:
        """`may_bind`: asked in the instant before a pod is given to an extender to be bound; a write of somebody else's
        passes no fence of our client. `outcomes`: finds out where such a pod is then.
        """
        self._extenders = in_order(extenders)
        self._objects = objects
        self._may_bind = may_bind
        self._outcomes = outcomes or BindOutcomes(_unknown, may_bind)

    def first_answers(self, pod: PodInfo) -> ExtenderResults | None:
        """What is known before the first question; `None` if a decision about the pod needs no extender."""
        judges, preempts = self.judges(pod), self.preempts(pod)
        if not (judges or preempts):
            return None
        return replace(UNASKED, is_about_nodes=judges, victims=ExtenderVictimResults() if preempts else None)

    def judges(self, pod: PodInfo) -> bool:
        """Whether an extender filters the pod's nodes or gives them points."""
        return any(each.settings.filter_verb or each.settings.prioritize_verb for each in self._interested(pod))

    def preempts(self, pod: PodInfo) -> bool:
        """Whether an extender has a say in the pod's preemption."""
        return any(each.settings.preempt_verb for each in self._interested(pod))

    def line_of(self, pod: PodInfo) -> str:
        """The names of the extenders that a decision about the pod needs."""
        return ", ".join(each.name for each in self._interested(pod) if each.decides)

    def binder_of(self, pod: Pod) -> str:
        """The name of the extender that binds the pod; empty: the profile's plugins do."""
        binder = self._binder_of(pod)
        return binder.name if binder is not None else ""

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        """Filter the nodes (at least one), and have the rest scored. Never raises for an extender's sake."""
        try:
            return await self._about_nodes(pod, names)
        except (ObjectReadError, CallGivenUpError) as failure:
            return ExtenderResults(frozenset(names), status=_not_asked(failure))

    async def _about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        """Raises `ObjectReadError` and `CallGivenUpError`."""
        asked_nodes = frozenset(names)
        left = tuple(names)
        sent = await self._sent(pod)
        rejected: dict[str, Status] = {}
        by: dict[str, str] = {}
        failed: dict[str, str] = {}
        called_extenders: set[str] = set()
        for extender in self._interested(pod):
            if not left:
                break
            if extender.settings.filter_verb:
                called_extenders.add(extender.name)
            try:
                found = await extender.left(sent, left, self._objects.nodes)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    failed[extender.name] = str(failure)
                    continue
                status, called = error(str(failure), plugin=EXTENDER), frozenset(called_extenders)
                return ExtenderResults(asked_nodes, status=status, failed_by=extender.name, called_extenders=called)
            left = found.names
            rejected.update(found.rejected)
            by.update(dict.fromkeys(found.rejected, extender.name))
        points: tuple[ExtenderPoints, ...] = ()
        if len(left) > 1:
            scoring = [each for each in self._interested(pod) if each.settings.prioritize_verb]
            called_extenders.update(each.name for each in scoring)
            points = await self._points(scoring, sent, left, failed)
        return ExtenderResults(
            asked_nodes,
            frozenset(left),
            rejected,
            points,
            rejected_by=by,
            passed_over=failed,
            called_extenders=frozenset(called_extenders),
        )

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        """Which nodes and victims the extenders leave. Never raises for an extender's sake.

        `pods_on`: by node and UID, as they were when the candidates were found.
        """
        try:
            return await self._about_victims(pod, candidates, pods_on)
        except (ObjectReadError, CallGivenUpError) as failure:
            return ExtenderVictimResults(failure=_not_asked(failure))

    async def _about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        """Raises `ObjectReadError` and `CallGivenUpError`."""
        sent = await self._sent(pod)
        victims: Victims = {
            each.node_name: VictimsOnNode(tuple(victim.uid for victim in each.victims), each.broken_budgets)
            for each in candidates
        }
        called_extenders: set[str] = set()
        passed_over: dict[str, str] = {}
        for extender in self._interested(pod):
            if not victims:
                break
            if extender.settings.preempt_verb:
                called_extenders.add(extender.name)
            try:
                victims = await extender.victims(pod, sent, victims, pods_on.__getitem__)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    passed_over[extender.name] = str(failure)
                    continue
                status, called = error(str(failure), plugin=EXTENDER), frozenset(called_extenders)
                return ExtenderVictimResults(failure=status, failed_by=extender.name, called_extenders=called)
        reviewed = {each.node_name: _reviewed(each, victims, pods_on) for each in candidates}
        return ExtenderVictimResults(reviewed, called_extenders=frozenset(called_extenders), passed_over=passed_over)

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Have the extender bind the pod that is configured for it. `None`: the profile's plugins bind it.

        Returns when it is certain where the pod is (`http_extender`).
        """
        binder = self._binder_of(pod)
        if binder is None:
            return None
        refusal: BindFailure | None = None
        try:
            await binder.bind(pod, node_name, self._may_bind)
        except BindFailure as failure:
            refusal = failure
            if not self._may_bind():
                return error(str(failure), plugin=EXTENDER)
        status = await self._outcomes.settle(binder.name, pod, node_name, refusal)
        if status is not None or binder.settings.ignorable:
            return status
        return error(str(refusal) if refusal is not None else not_seen(binder.name, node_name), plugin=EXTENDER)

    async def _sent(self, pod: PodInfo) -> SentPod:
        """The pod, read once for all extenders. Raises `ObjectReadError`."""
        return SentPod(pod.key, await self._objects.pod(pod.pod))

    async def _points(
        self, extenders: Sequence[HTTPExtender], sent: SentPod, names: Sequence[str], failed: dict[str, str]
    ) -> tuple[ExtenderPoints, ...]:
        """Raises `ObjectReadError` and `CallGivenUpError`."""
        calls: list[Coroutine[Any, Any, ExtenderPoints | None]] = [
            self._points_by(extender, sent, names, failed) for extender in extenders
        ]
        return tuple(points for points in await all_of("points of extenders", calls) if points is not None)

    async def _points_by(
        self, extender: HTTPExtender, sent: SentPod, names: Sequence[str], failed: dict[str, str]
    ) -> ExtenderPoints | None:
        try:
            points = await extender.points(sent, names, self._objects.nodes)
        except ExtenderFailure as failure:
            failed.setdefault(extender.name, str(failure))
            return None
        return ExtenderPoints(extender.name, extender.settings.weight, points)

    def _binder_of(self, pod: Pod) -> HTTPExtender | None:
        return next((each for each in self._extenders if each.settings.bind_verb and each.is_interested(pod)), None)

    def _interested(self, pod: PodInfo) -> tuple[HTTPExtender, ...]:
        return tuple(each for each in self._extenders if each.is_interested(pod.pod))
