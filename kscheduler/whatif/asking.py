"""Deciding a scenario with its HTTP extenders, as far as somebody asks them: they are never given a pod to bind."""

from dataclasses import replace

from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.status import Code
from kscheduler.scheduling.extenders.answers import ExtenderAnswers, Extenders
from kscheduler.scheduling.extenders.rounds import decide_in_rounds
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.whatif.decide import Decision, Prepared


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
