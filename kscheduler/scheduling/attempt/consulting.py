"""Deciding about a pod that concerns extenders: ask, and decide on the nodes as they are when the answers have come.

    cycle --> questions? --> ask --> cycle with the answers --> questions? ... at most `MOST_ROUNDS` times
       '--> no: that is the decision                '--> no: that is the decision

The pod has left its worker, and nothing is assumed for it, so a slow extender delays only pods that concern it; `lines`
says how many of them are here at a time. The last cycle and what follows from it are one synchronous step, as for every
other pod. Questions are asked again only if none of the nodes that extenders left fits any more. A pod keeps the
profile and the extenders under which its attempt began: none is decided by half of a configuration.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kscheduler.config.extenders import EXTENDER
from kscheduler.framework.cluster.preemption import Candidate
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import error
from kscheduler.scheduling.attempt.judges import Judges
from kscheduler.scheduling.attempt.surroundings import Attempt
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.extenders.answers import AsksExtenders, ExtenderAnswers, VictimAnswers
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

MOST_ROUNDS: Final = 4
"""How often extenders are asked about a pod in one attempt: about nodes, and about victims if no node is left."""
MOVED_ON: Final = f"none of the nodes that extenders left fits any more, though they were asked {MOST_ROUNDS} times"


class Consulting:
    """Decides about pods that concern extenders."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    async def judge(self, attempt: Attempt, judges: Callable[[], Judges], must_skip: Callable[[], bool]) -> bool:
        """Decide: the attempt's record is the decision, on the cache as it is in this instant; act before any await.

        Returns false if the pod must not be scheduled any more. `judges` are asked for anew: they may be exchanged.
        """
        extenders, pod = attempt.extenders, attempt.queued.pod
        answers = extenders.first_answers(pod) if extenders is not None else None
        if extenders is None or answers is None:
            return True
        for rounds in range(MOST_ROUNDS + 1):
            if must_skip():
                return False
            record = attempt.record = self._record(attempt, judges(), answers)
            if not (record.questions or record.victim_questions):
                break
            if rounds == MOST_ROUNDS:
                record.status = error(MOVED_ON, plugin=EXTENDER) if record.questions else record.status
            elif record.questions:
                found = await extenders.about_nodes(pod, record.questions)
                answers = replace(found, victims=answers.victims)
            else:
                answers = replace(answers, victims=await self._review(extenders, pod, record.victim_questions))
        return True

    async def _review(self, extenders: AsksExtenders, pod: PodInfo, candidates: Sequence[Candidate]) -> VictimAnswers:
        nodes = self._cache.nodes
        rows = {each.node_name: nodes.row_of(each.node_name) for each in candidates}
        pods_on = {name: dict(nodes.info(row).pods) for name, row in rows.items()}
        return await extenders.about_victims(pod, candidates, pods_on)

    def _record(self, attempt: Attempt, judges: Judges, answers: ExtenderAnswers) -> SchedulingRecord:
        """Run the cycle. A profile that has gone meanwhile still decides about its pod, unmeasured."""
        pod, profile = attempt.queued.pod, attempt.profile
        stopwatch, sampler = judges.stopwatches.get(profile.name), judges.samplers.get(profile.name)
        if stopwatch is None:
            return schedule(profile, pod, self._cache, sampler=sampler, answers=answers)
        stopwatch.start(pod)
        return schedule(profile, pod, self._cache, stopwatch, sampler, answers=answers)
