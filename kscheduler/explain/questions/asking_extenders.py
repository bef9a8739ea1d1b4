"""Questions answered with the help of HTTP extenders (`--ask-extenders`), which are never given a pod to bind."""

from collections.abc import Sequence

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.client.extenders.whole_objects import ObjectReader, ObjectReadError, WholeObjects
from kscheduler.explain.questions.question import Decides
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace
from kscheduler.scheduling.extenders.building import ExtenderSet
from kscheduler.whatif.asking import decide_asking
from kscheduler.whatif.decide import Decision, Prepared
from kscheduler.whatif.scenario import ClusterObjects

_ENCODER = msgspec.json.Encoder()


def deciding_with_extenders(reader: ObjectReader | None) -> Decides:
    """Decides scenarios, and asks their extenders. `reader` reads whole objects of a live cluster; without it extenders
    are sent what the files say, as far as scheduling reads it.
    """

    async def decides(prepared: Prepared) -> Decision:
        scenario = prepared.scenario
        extenders = scenario.config.configuration.extenders
        if not extenders:
            return prepared.decide()
        objects = _ScenarioObjects(scenario.objects, reader)
        extender_set = ExtenderSet(extenders, objects, may_bind=lambda: False, place_of=_unknown, logs=False)
        try:
            return await decide_asking(prepared, extender_set.asking)
        finally:
            await extender_set.close()

    return decides


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
