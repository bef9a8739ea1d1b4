"""Asks the extenders about one pod, in order, and puts their answers together.

    filter       one after the other, each about what the one before left; ends when nothing is left
    prioritize   all at once, about what is left: only if that is more than one node
    preempt      one after the other, as filter

An extender that is not interested in the pod is passed over. A failure ends it all with an Error, as upstream, unless
the extender is ignorable: then the decision goes on without it. Failures to give points never count.

The answers hold for the nodes and the pod as they were sent. The caller decides again when it has them: on the nodes
that the pod fits on *then*, as far as the answers allow them.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from msgspec import Raw

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, error
from kscheduler.logs import get_logger
from kscheduler.scheduling.extenders.answers import ExtenderAnswers, ExtenderPoints
from kscheduler.scheduling.extenders.http_extender import Documents, ExtenderFailure, HTTPExtender
from kscheduler.scheduling.extenders.meaning import PodsOn, Victims
from kscheduler.scheduling.missing_rules import EXTENDER

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AllowedVictims:
    """What the extenders have said about preemption."""

    victims: Victims
    status: Status = SUCCESS


def in_order(extenders: Sequence[HTTPExtender]) -> tuple[HTTPExtender, ...]:
    """In the order in which they are asked: ignorable ones last, otherwise as configured."""
    return tuple(sorted(extenders, key=lambda each: each.settings.ignorable))


class Asking:
    """Asks a fixed set of extenders; a configuration reload makes a new one."""

    def __init__(self, extenders: Sequence[HTTPExtender], documents: Documents) -> None:
        self._extenders = in_order(extenders)
        self._documents = documents

    def judges(self, pod: PodInfo) -> bool:
        """Whether an extender filters the pod's nodes or gives them points."""
        return any(each.settings.filter_verb or each.settings.prioritize_verb for each in self._interested(pod))

    def preempts(self, pod: PodInfo) -> bool:
        """Whether an extender has a say in the pod's preemption."""
        return any(each.settings.preempt_verb for each in self._interested(pod))

    def binder(self, pod: PodInfo) -> HTTPExtender | None:
        """The extender that binds the pod."""
        return next((each for each in self._interested(pod) if each.settings.bind_verb), None)

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderAnswers:
        """Filter the nodes (at least one), and have the rest scored. Never raises for an extender's sake."""
        document = self._documents.pod(pod.pod)
        asked = frozenset(names)
        left = tuple(names)
        turned_down: dict[str, Status] = {}
        for extender in self._interested(pod):
            if not left:
                break
            try:
                found = await extender.left(document, left, self._documents)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    _log.info("extender_skipped", extender=extender.name, pod=pod.key, err=str(failure))
                    continue
                return ExtenderAnswers(asked, status=error(str(failure), plugin=EXTENDER))
            left = found.names
            turned_down.update(found.turned_down)
        points = await self._points(pod, document, left) if len(left) > 1 else ()
        return ExtenderAnswers(asked, frozenset(left), turned_down, points)

    async def about_victims(self, pod: PodInfo, proposed: Victims, pods_on: PodsOn) -> AllowedVictims:
        """Which nodes and victims the extenders leave. Never raises for an extender's sake."""
        document = self._documents.pod(pod.pod)
        victims = proposed
        for extender in self._interested(pod):
            if not victims:
                break
            try:
                victims = await extender.victims(pod, document, victims, pods_on, self._documents)
            except ExtenderFailure as failure:
                if extender.settings.ignorable:
                    _log.info("extender_skipped", extender=extender.name, pod=pod.key, err=str(failure))
                    continue
                return AllowedVictims({}, error(str(failure), plugin=EXTENDER))
        return AllowedVictims(victims)

    async def _points(self, pod: PodInfo, document: Raw, names: Sequence[str]) -> tuple[ExtenderPoints, ...]:
        calls: list[Awaitable[ExtenderPoints | None]] = [
            self._points_by(extender, pod, document, names)
            for extender in self._interested(pod)
            if extender.settings.prioritize_verb
        ]
        return tuple(points for points in await asyncio.gather(*calls) if points is not None)

    async def _points_by(
        self, extender: HTTPExtender, pod: PodInfo, document: Raw, names: Sequence[str]
    ) -> ExtenderPoints | None:
        try:
            points = await extender.points(document, names, self._documents)
        except ExtenderFailure as failure:
            _log.debug("extender_gave_no_points", extender=extender.name, pod=pod.key, err=str(failure))
            return None
        return ExtenderPoints(extender.name, extender.settings.weight, points)

    def _interested(self, pod: PodInfo) -> tuple[HTTPExtender, ...]:
        return tuple(each for each in self._extenders if each.is_interested(pod.pod))
