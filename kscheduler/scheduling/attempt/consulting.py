"""Pods that concern extenders: their turns, and their decisions on the nodes as they are when the answers have come.

The pod has left its worker, and nothing is assumed for it, so a slow extender delays only pods that concern it; `lines`
says how many of them are asked about at a time. The last cycle and what follows from it are one synchronous step, as
for every other pod. A pod keeps the profile and the extenders under which its attempt began: none is decided by half of
a configuration.
"""

from collections.abc import Callable

from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.logs import verbose
from kscheduler.scheduling.attempt.extender_lines import ExtenderLines
from kscheduler.scheduling.attempt.judges import Judges
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings
from kscheduler.scheduling.extenders.answers import ExtenderAnswers
from kscheduler.scheduling.extenders.rounds import decide_in_rounds
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.pod_log.lines import STEPS
from kscheduler.scheduling.record import SchedulingRecord


class ExtenderConsultation:
    """Gives turns to pods that concern extenders, asks, and decides."""

    def __init__(
        self, context: Surroundings, cycles: TimedCycles, skipping: PodSkipping, judges: Callable[[], Judges]
    ) -> None:
        """`judges`: those in force; they may be exchanged while extenders think."""
        self._context = context
        self._cycles = cycles
        self._skipping = skipping
        self._judges = judges
        self.lines = ExtenderLines(now=context.clock.monotonic)
        self.lines.let_go = skipping.lets_go

    def begin(self, attempt: Attempt) -> Attempt | None:
        """The attempt, if its pod has a turn until `decide` has ended. If not, the pod stands in line, and is called.

        In line it is neither decided nor assumed, and no events are kept for it.
        """
        queued, extenders = attempt.queued, attempt.extenders
        if extenders is not None and not self.lines.begin_or_wait(extenders.line_of(queued.pod), queued):
            self._context.queue.rest(queued.pod.uid)
            return None
        if verbose(STEPS):
            self._context.log.attempt(queued)
        return attempt

    def resume(self, queued: QueuedPodInfo) -> bool:
        """A pod was called: take its newest version. False if nobody needs it any more; then its attempt is over."""
        self._context.queue.resume(queued)
        if self._skipping.lets_go(queued):
            return False
        newest = self._context.pod_of(queued.key)
        if newest is not None and newest is not queued.pod.pod:
            queued.pod = PodInfo(newest)
        return True

    async def decide(self, attempt: Attempt) -> bool:
        """Ask and decide: the attempt's record is the decision, in this instant; act before any await.

        Returns false if nobody needs the pod any more; then its attempt is over.
        """
        extenders, pod = attempt.extenders, attempt.queued.pod
        first = extenders.first_answers(pod) if extenders is not None else None
        if extenders is None or first is None:
            return True
        line = extenders.line_of(pod)  # before the attempt can take over a newer version, which may concern others
        try:
            answers = await decide_in_rounds(extenders, pod, first, lambda given: self._judge(attempt, given))
        finally:
            self.lines.end(line)
        if answers is not None and not attempt.node_name:
            attempt.objectors = answers.objectors
        return answers is not None

    def _judge(self, attempt: Attempt, answers: ExtenderAnswers) -> tuple[SchedulingRecord, NodeTable] | None:
        self._context.journal.begins()
        if self._skipping.lets_go(attempt.queued):
            self._context.journal.decided_later(attempt, has_node=False)
            return None
        attempt.record = self._record(attempt, answers)
        return attempt.record, self._context.cache.nodes

    def _record(self, attempt: Attempt, answers: ExtenderAnswers) -> SchedulingRecord:
        """Run the cycle. A profile that has gone meanwhile still decides about its pod, unmeasured."""
        judges, queued, profile = self._judges(), attempt.queued, attempt.profile
        stopwatch, sampler = judges.stopwatches.get(profile.name), judges.samplers.get(profile.name)
        if stopwatch is None:
            return self._cycles.schedule(queued, profile, sampler=sampler, answers=answers)
        stopwatch.start(queued.pod)
        return self._cycles.schedule(queued, profile, stopwatch, sampler, answers=answers)
