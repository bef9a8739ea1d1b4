"""Asks the extenders about one pod, in order, and puts their answers together.

    filter       one after the other, each about what the one before left; ends when nothing is left
    prioritize   all at once, about what is left: only if that is more than one node
    preempt      one after the other, as filter
    bind         by the one extender that binds, instead of the Bind plugins

An extender that is not interested in the pod is passed over. A failure ends it all with an Error, as upstream, unless
the extender is ignorable: then the decision goes on without it. Failures to give points never count.

The answers hold for the nodes and the pod as they were sent. The caller decides again when it has them: on the nodes
that the pod fits on *then*, as far as the answers allow them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from kscheduler.api.core import Pod
from kscheduler.client.extenders.messages import VictimsOnNode
from kscheduler.client.extenders.whole_objects import UnsentError
from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.preemption import Candidate, ReviewedCandidate
from kscheduler.framework.nodes.occupants import started_at
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.scheduling.extenders.answers import UNASKED, ExtenderAnswers, ExtenderPoints, VictimAnswers
from kscheduler.scheduling.extenders.http_extender import Documents, ExtenderFailure, HTTPExtender, SentPod
from kscheduler.scheduling.extenders.meaning import Victims


def _reviewed(candidate: Candidate, left: Victims, pods_on: Mapping[str, Mapping[str, PodInfo]]) -> ReviewedCandidate:
    """What the extenders made of a candidate."""
    name = candidate.node_name
    proposed = frozenset(victim.uid for victim in candidate.victims)
    if name not in left:
        return ReviewedCandidate(proposed, None)
    pods = [pods_on[name][uid] for uid in dict.fromkeys(left[name].uids)]
    pods.sort(key=lambda pod: (-pod.priority, started_at(pod)))
    return ReviewedCandidate(proposed, Candidate(name, tuple(pods), left[name].pdb_violations))


def _not_asked(failure: UnsentError) -> Status:
    return error(f"extenders cannot be asked: {failure}", plugin=EXTENDER)


def _always() -> bool:
    return True


async def _nowhere(_pod: Pod) -> str:
    return ""


def in_order(extenders: Sequence[HTTPExtender]) -> tuple[HTTPExtender, ...]:
    """In the order in which they are asked: ignorable ones last, otherwise as configured."""
    return tuple(sorted(extenders, key=lambda each: each.settings.ignorable))


class Asking:
    """Asks a fixed set of extenders; a configuration reload makes a new one."""

    def __init__(
        self,
        extenders: Sequence[HTTPExtender],
        documents: Documents,
        *,
        may_bind: Callable[[], bool] = _always,
        node_of: Callable[[Pod], Awaitable[str]] = _nowhere,
    ) -> None:
        """`may_bind`: asked in the instant before a pod is given to an extender to be bound; a write of somebody else's
        passes no fence of our client. `node_of`: the node that the API server has the pod on, or empty.
        """
        self._extenders = in_order(extenders)
        self._documents = documents
        self._may_bind = may_bind
        self._node_of = node_of

    def first_answers(self, pod: PodInfo) -> ExtenderAnswers | None:
        """What is known before the first question; `None` if a decision about the pod needs no extender."""
        judges, preempts = self.judges(pod), self.preempts(pod)
        if not (judges or preempts):
            return None
        return replace(UNASKED, is_about_nodes=judges, victims=VictimAnswers() if preempts else None)

    def judges(self, pod: PodInfo) -> bool:
        """Whether an extender filters the pod's nodes or gives them points."""
        return any(each.settings.filter_verb or each.settings.prioritize_verb for each in self._interested(pod))

    def preempts(self, pod: PodInfo) -> bool:
        """Whether an extender has a say in the pod's preemption."""
        return any(each.settings.preempt_verb for each in self._interested(pod))

    def line_of(self, pod: PodInfo) -> Hashable:
        """The names of the extenders that a decision about the pod needs."""
        return tuple(each.name for each in self._interested(pod) if each.decides)

    def binds(self, pod: Pod) -> bool:
        """Whether an extender binds the pod."""
        return self._binder_of(pod) is not None

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderAnswers:
        """Filter the nodes (at least one), and have the rest scored. Never raises for an extender's sake."""
        asked = frozenset(names)
        left = tuple(names)
        try:
            sent = await self._sent(pod)
        except UnsentError as failure:
            return ExtenderAnswers(asked, status=_not_asked(failure))
        turned_down: dict[str, Status] = {}
        by: dict[str, str] = {}
        failed: dict[str, str] = {}
        for extender in self._interested(pod):
            if not left:
                break
            try:
                found = await extender.left(sent, left, self._documents.nodes)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    failed[extender.name] = str(failure)
                    continue
                return ExtenderAnswers(asked, status=error(str(failure), plugin=EXTENDER))
            left = found.names
            turned_down.update(found.turned_down)
            by.update(dict.fromkeys(found.turned_down, extender.name))
        points = await self._points(pod, sent, left, failed) if len(left) > 1 else ()
        return ExtenderAnswers(asked, frozenset(left), turned_down, points, turned_down_by=by, passed_over=failed)

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> VictimAnswers:
        """Which nodes and victims the extenders leave. Never raises for an extender's sake.

        `pods_on`: by node and UID, as they were when the candidates were found.
        """
        try:
            sent = await self._sent(pod)
        except UnsentError as failure:
            return VictimAnswers(failure=_not_asked(failure))
        victims: Victims = {
            each.node_name: VictimsOnNode(tuple(victim.uid for victim in each.victims), each.broken_budgets)
            for each in candidates
        }
        for extender in self._interested(pod):
            if not victims:
                break
            try:
                victims = await extender.victims(pod, sent, victims, pods_on.__getitem__)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    continue
                return VictimAnswers(failure=error(str(failure), plugin=EXTENDER))
        return VictimAnswers({each.node_name: _reviewed(each, victims, pods_on) for each in candidates})

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Have the extender bind the pod that is configured for it. `None`: the profile's plugins bind it.

        After a failure (say, a timeout) the pod may be bound all the same; kube-scheduler gives its room to others
        until the watch says otherwise. Here the API server is asked first.
        """
        binder = self._binder_of(pod)
        if binder is None:
            return None
        try:
            await binder.bind(pod, node_name, self._may_bind)
        except ExtenderFailure as failure:
            return await self._after_failed_bind(binder, pod, node_name, failure)
        return SUCCESS

    async def _after_failed_bind(
        self, binder: HTTPExtender, pod: Pod, node_name: str, failure: ExtenderFailure
    ) -> Status | None:
        if not self._may_bind():
            return error(str(failure), plugin=EXTENDER)
        found = await self._node_of(pod)
        if found == node_name:
            return SUCCESS
        if found:
            return error(f"pod {pod.key} is on node {found} already: {failure}", plugin=EXTENDER)
        if binder.settings.ignorable:
            return None
        return error(str(failure), plugin=EXTENDER)

    async def _sent(self, pod: PodInfo) -> SentPod:
        """The pod, read once for all extenders. Raises `UnsentError`."""
        return SentPod(pod.key, await self._documents.pod(pod.pod))

    async def _points(
        self, pod: PodInfo, sent: SentPod, names: Sequence[str], failed: dict[str, str]
    ) -> tuple[ExtenderPoints, ...]:
        calls: list[Awaitable[ExtenderPoints | None]] = [
            self._points_by(extender, sent, names, failed)
            for extender in self._interested(pod)
            if extender.settings.prioritize_verb
        ]
        return tuple(points for points in await asyncio.gather(*calls) if points is not None)

    async def _points_by(
        self, extender: HTTPExtender, sent: SentPod, names: Sequence[str], failed: dict[str, str]
    ) -> ExtenderPoints | None:
        try:
            points = await extender.points(sent, names, self._documents.nodes)
        except ExtenderFailure as failure:
            failed.setdefault(extender.name, str(failure))
            return None
        return ExtenderPoints(extender.name, extender.settings.weight, points)

    def _binder_of(self, pod: Pod) -> HTTPExtender | None:
        return next((each for each in self._extenders if each.settings.bind_verb and each.is_interested(pod)), None)

    def _interested(self, pod: PodInfo) -> tuple[HTTPExtender, ...]:
        return tuple(each for each in self._extenders if each.is_interested(pod.pod))
