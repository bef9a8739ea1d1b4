"""Questions answered with the help of HTTP extenders (`--ask-extenders`), which are never given a pod to bind."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.client.extenders.whole_objects import ObjectReader, ObjectReadError, WholeObjects
from kscheduler.config.types import Extender
from kscheduler.scheduling.extenders.answers import Extenders
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace
from kscheduler.scheduling.extenders.building import ExtenderSet
from kscheduler.whatif.asking import decide_asking, decide_group_asking
from kscheduler.whatif.decide import Decision, Prepared
from kscheduler.whatif.decide_group import GroupDecision, decide_group
from kscheduler.whatif.scenario import ClusterObjects, GroupScenario

_ENCODER = msgspec.json.Encoder()


class DecidingWithExtenders:
    """Decides scenarios, and asks their extenders. Implements `Decides`."""

    def __init__(self, reader: ObjectReader | None) -> None:
        """`reader` reads whole objects of a live cluster; without it extenders are sent what the files say, as far as
        scheduling reads it.
        """
        self._reader = reader

    async def __call__(self, prepared: Prepared) -> Decision:
        """Decide about a pod."""
        scenario = prepared.scenario
        async with self._extenders(scenario.config.configuration.extenders, scenario.objects) as asking:
            return prepared.decide() if asking is None else await decide_asking(prepared, asking)

    async def group(self, scenario: GroupScenario) -> GroupDecision:
        """Decide about a pod group."""
        async with self._extenders(scenario.config.configuration.extenders, scenario.objects) as asking:
            return decide_group(scenario) if asking is None else await decide_group_asking(scenario, asking)

    @asynccontextmanager
    async def _extenders(
        self, configured: Sequence[Extender], objects: ClusterObjects
    ) -> AsyncIterator[Extenders | None]:
        if not configured:
            yield None
            return
        whole = _ScenarioObjects(objects, self._reader)
        extender_set = ExtenderSet(configured, whole, may_bind=lambda: False, place_of=_unknown, logs=False)
        try:
            yield extender_set.asking
        finally:
            await extender_set.close()


async def _unknown(_pod: Pod) -> PodPlace:
    return UNKNOWN_PLACE


class _ScenarioObjects:
    """Objects as the live cluster has them, or as the scenario has them."""

    def __init__(self, objects: ClusterObjects, reader: ObjectReader | None) -> None:
        self._nodes: dict[str, Node] = {node.metadata.name: node for node in objects.nodes}
        self._whole = WholeObjects(reader, self._nodes.get) if reader is not None else None

    async def pod(self, pod: Pod) -> msgspec.Raw:
        """The pod; one that does not exist yet is known from its manifest only."""
        if self._whole is not None:
            try:
                return await self._whole.pod(pod)
            except ObjectReadError:
                pass
        return msgspec.Raw(_ENCODER.encode(pod))

    async def nodes(self, names: Sequence[str]) -> Sequence[msgspec.Raw]:
        """The nodes."""
        if self._whole is not None:
            return await self._whole.nodes(names)
        return [msgspec.Raw(_ENCODER.encode(self._nodes[name])) for name in names]
