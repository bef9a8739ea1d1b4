"""Deciding a scenario with its HTTP extenders, as far as somebody asks them: they are never given a pod to bind."""

from dataclasses import replace

from kscheduler.scheduling.attempt.consulting import MOST_ROUNDS
from kscheduler.scheduling.extenders.answers import AsksExtenders
from kscheduler.whatif.decide import Decision, Prepared


async def decide_asking(prepared: Prepared, extenders: AsksExtenders) -> Decision:
    """Judge the scenario's pod, and ask extenders what the service would ask."""
    pod = prepared.pod
    answers = extenders.first_answers(pod)
    decision = prepared.decide(answers)
    for _ in range(MOST_ROUNDS if answers is not None else 0):
        record, cache = decision.record, decision.cache
        if answers is None or record is None or cache is None:
            break
        if record.questions:
            answers = replace(await extenders.about_nodes(pod, record.questions), victims=answers.victims)
        elif record.victim_questions:
            asked = record.victim_questions
            nodes = cache.nodes
            pods_on = {each.node_name: dict(nodes.info(nodes.row_of(each.node_name)).pods) for each in asked}
            answers = replace(answers, victims=await extenders.about_victims(pod, asked, pods_on))
        else:
            break
        decision = prepared.decide(answers)
    return decision
