"""Pods that concern extenders: their turns, and their decisions on the nodes as they are when the answers have come.

The pod has left its worker, and nothing is assumed for it, so a slow extender delays only pods that concern it;
`extender_lines` says how many of them are asked about at a time. The last cycle and what follows from it are one
synchronous step, as for every other pod. A pod keeps the profile and the extenders under which its attempt began: none
is decided by half of a configuration.
"""

from collections.abc import Callable

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt.evaluators import Evaluators
from kscheduler.scheduling.attempt.extender_lines import ExtenderWaitQueues
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt_events import STEP_BEGAN, AttemptBegun, PodDecidedLater
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.extenders.rounds import decide_in_rounds
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.pod_log.lines import STEPS
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.telemetry.logs import verbose


class ExtenderConsultation:
    """Gives turns to pods that concern extenders, asks, and decides."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        pod_of: Callable[[str], Pod | None],
        cycles: TimedCycles,
        skipping: PodSkipping,
        evaluators: Callable[[], Evaluators],
        observers: Observers,
        clock: Clock,
        wake_worker: Callable[[], None],
    ) -> None:
        """`pod_of`: the newest version of a pod by its key. `evaluators`: those in force; they may be exchanged while
        extenders think. `wake_worker` is called when a pod has a turn.
        """
        self._cache = cache
        self._queue = queue
        self._pod_of = pod_of
        self._tell = observers.tell
        self._cycles = cycles
        self._skipping = skipping
        self._evaluators = evaluators
        self.lines = ExtenderWaitQueues(now=clock.monotonic, let_go=skipping.lets_go, wake_worker=wake_worker)

    def begin(self, attempt: Attempt) -> Attempt | None:
        """The attempt, if its pod has a turn until `decide` has ended. If not, the pod stands in line, and is called.

        In line it is neither decided nor assumed, and no events are kept for it.
        """
        queued, extenders = attempt.queued, attempt.extenders
        if extenders is not None and not self.lines.begin_or_wait(extenders.line_of(queued.pod), queued):
            self._queue.rest(queued.pod.uid)
            return None
        if verbose(STEPS):
            self._tell(AttemptBegun(queued))
        return attempt

    def resume(self, queued: QueuedPodInfo) -> bool:
        """A pod was called: take its newest version. False if nobody needs it any more; then its attempt is over."""
        self._queue.resume(queued)
        if self._skipping.lets_go(queued):
            return False
        newest = self._pod_of(queued.key)
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

    def _judge(self, attempt: Attempt, answers: ExtenderResults) -> tuple[SchedulingRecord, NodeTable] | None:
        self._tell(STEP_BEGAN)
        if self._skipping.lets_go(attempt.queued):
            self._tell(PodDecidedLater(attempt, has_node=False))
            return None
        attempt.record = self._record(attempt, answers)
        return attempt.record, self._cache.nodes

    def _record(self, attempt: Attempt, answers: ExtenderResults) -> SchedulingRecord:
        """Run the cycle. A profile that has gone meanwhile still decides about its pod, unmeasured."""
        evaluators, queued, profile = self._evaluators(), attempt.queued, attempt.profile
        stopwatch, sampler = evaluators.stopwatches.get(profile.name), evaluators.samplers.get(profile.name)
        if stopwatch is None:
            return self._cycles.schedule(queued, profile, sampler=sampler, answers=answers)
        stopwatch.start(queued.pod)
        return self._cycles.schedule(queued, profile, stopwatch, sampler, answers=answers)
