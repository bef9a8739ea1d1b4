"""Deciding in rounds: evaluate the pod, ask extenders what the cycle wants to know, evaluate again.

    cycle --> questions? --> ask --> cycle with the answers --> questions? ... at most `MAX_ROUNDS` times
       '--> no: that is the decision                '--> no: that is the decision

Each cycle runs on the nodes as they are then, and nothing is assumed while extenders think. Questions about nodes are
asked again only if none of the nodes that extenders left fits any more.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec.structs import replace

from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.preemption import Candidate
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import error
from kscheduler.scheduling.extenders.extender_results import ExtenderResults, Extenders, ExtenderVictimResults
from kscheduler.scheduling.record import SchedulingRecord

# How often extenders are asked about a pod in one attempt: about nodes, and about victims if no node is left.
MAX_ROUNDS: Final = 4
MOVED_ON: Final = f"none of the nodes that extenders left fits any more, though they were asked {MAX_ROUNDS} times"

# Runs the cycle with these answers: its record, and the nodes that were judged; `None` ends it without a decision.
Evaluate = Callable[[ExtenderResults], tuple[SchedulingRecord, NodeTable] | None]


async def decide_in_rounds(
    extenders: Extenders, pod: PodInfo, first: ExtenderResults, evaluate: Evaluate
) -> ExtenderResults | None:
    """Evaluate until no question is left. The last record of `evaluate` is the decision: act on it before any await.

    `first`: what is known before the first question. Returns the answers behind the decision; `None` if `evaluate` has
    ended it. A record that still has questions about nodes after the last round becomes an error (`MOVED_ON`); one
    about victims says that no node fits, and evicts nobody.
    """
    answers = first
    for rounds in range(MAX_ROUNDS + 1):
        judged = evaluate(answers)
        if judged is None:
            return None
        record, nodes = judged
        if not (record.queries or record.victim_queries):
            break
        if rounds < MAX_ROUNDS:
            answers = await _queried(extenders, pod, record, nodes, answers)
        elif record.queries:
            record.status = error(MOVED_ON, plugin=EXTENDER)
    return answers


async def _queried(
    extenders: Extenders, pod: PodInfo, record: SchedulingRecord, nodes: NodeTable, before: ExtenderResults
) -> ExtenderResults:
    if record.queries:
        found = await extenders.about_nodes(pod, record.queries)
        return replace(found, victims=before.victims, called_extenders=found.called_extenders | before.called_extenders)
    return replace(before, victims=await _about_victims(extenders, pod, record.victim_queries, nodes))


async def _about_victims(
    extenders: Extenders, pod: PodInfo, candidates: Sequence[Candidate], nodes: NodeTable
) -> ExtenderVictimResults:
    """Ask with the pods as they are on the candidates' nodes now: an extender may name others of them as victims."""
    infos = {each.node_name: nodes.info(nodes.row_of(each.node_name)) for each in candidates}
    return await extenders.about_victims(pod, candidates, {name: dict(info.pods) for name, info in infos.items()})
