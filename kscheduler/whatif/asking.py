"""Deciding a scenario with its HTTP extenders, as far as somebody asks them: they are never given a pod to bind."""

import asyncio
from dataclasses import replace

from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.status import Code
from kscheduler.scheduling.extenders.answers import ExtenderAnswers, Extenders
from kscheduler.scheduling.extenders.rounds import decide_in_rounds
from kscheduler.scheduling.groups.member_answers import AT_A_TIME, first_answers
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.whatif.decide import Decision, Prepared
from kscheduler.whatif.decide_group import GroupDecision, decide_group
from kscheduler.whatif.scenario import GroupScenario


async def decide_asking(prepared: Prepared, extenders: Extenders) -> Decision:
    """Judge the scenario's pod, and ask extenders what the service would ask."""
    first = extenders.first_answers(prepared.pod)
    if first is None:
        return prepared.decide()
    decisions: list[Decision] = []

    def judge(answers: ExtenderAnswers) -> tuple[SchedulingRecord, NodeTable] | None:
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


async def decide_group_asking(scenario: GroupScenario, extenders: Extenders) -> GroupDecision:
    """The same about a pod group. Raises `ScenarioError`."""
    decision = decide_group(scenario)
    members = decision.inputs.members if decision.inputs is not None else ()
    answers, turns = first_answers(extenders, members), asyncio.Semaphore(AT_A_TIME)
    while answers:
        decision = decide_group(scenario, answers)
        if answers.question is None:
            break
        await answers.ask(extenders, members, turns)
    return decision
