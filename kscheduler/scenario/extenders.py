"""Deciding a scenario with its HTTP extenders, as far as they may be called: they are never given a pod to bind."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.client.extenders.whole_objects import ObjectReader, ObjectReadError, WholeObjects
from kscheduler.config.types import Extender
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import Decision, Prepared
from kscheduler.scenario.decide_group import GroupDecision, decide_group
from kscheduler.scenario.scenario import ClusterObjects, GroupScenario
from kscheduler.scheduling.extenders.bind_outcomes import UNKNOWN_PLACE, PodPlace
from kscheduler.scheduling.extenders.extender_results import ExtenderResults, Extenders
from kscheduler.scheduling.extenders.extender_set import ExtenderSet
from kscheduler.scheduling.extenders.rounds import decide_in_rounds
from kscheduler.scheduling.groups.member_extender_results import AT_A_TIME, first_answers
from kscheduler.scheduling.record import SchedulingRecord


async def decide_with_extenders(prepared: Prepared, extenders: Extenders) -> Decision:
    """Judge the scenario's pod, and ask extenders what the service would ask."""
    first = extenders.first_answers(prepared.pod)
    if first is None:
        return prepared.decide()
    decisions: list[Decision] = []

    def judge(answers: ExtenderResults) -> tuple[SchedulingRecord, NodeTable] | None:
        decision = prepared.decide(answers)
        decisions.append(decision)
        if decision.record is None or decision.cache is None:
            return None  # an error, or a pod that may not enter the queue
        return decision.record, decision.cache.nodes

    await decide_in_rounds(extenders, prepared.pod, first, judge)
    decision = decisions[-1]
    record = decision.record
    if record is not None and record.status.code is Code.ERROR:  # still asked after the last round
        return replace(decision, record=None, error=record.status.message)
    return decision


async def decide_group_with_extenders(scenario: GroupScenario, extenders: Extenders) -> GroupDecision:
    """The same about a pod group. Raises `ScenarioError`."""
    decision = decide_group(scenario)
    members = decision.inputs.members if decision.inputs is not None else ()
    answers, turns = first_answers(extenders, members), asyncio.Semaphore(AT_A_TIME)
    while answers:
        decision = decide_group(scenario, answers)
        if answers.query is None:
            break
        await answers.ask(extenders, members, turns)
    return decision


_ENCODER = msgspec.json.Encoder()


class ExtenderDecider:
    """Decides scenarios, and asks their extenders. Implements `Decider`."""

    def __init__(self, reader: ObjectReader | None) -> None:
        """`reader` reads whole objects of a live cluster; without it extenders are sent what the files say, as far as
        scheduling reads it.
        """
        self._reader = reader

    async def __call__(self, prepared: Prepared) -> Decision:
        """Decide about a pod."""
        scenario = prepared.scenario
        async with self._extenders(scenario.config.configuration.extenders, scenario.objects) as http_extenders:
            return (
                prepared.decide() if http_extenders is None else await decide_with_extenders(prepared, http_extenders)
            )

    async def group(self, scenario: GroupScenario) -> GroupDecision:
        """Decide about a pod group."""
        async with self._extenders(scenario.config.configuration.extenders, scenario.objects) as http_extenders:
            return (
                decide_group(scenario)
                if http_extenders is None
                else await decide_group_with_extenders(scenario, http_extenders)
            )

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
            yield extender_set.http_extenders
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
        if self._whole is not None:
            return await self._whole.nodes(names)
        return [msgspec.Raw(_ENCODER.encode(self._nodes[name])) for name in names]
