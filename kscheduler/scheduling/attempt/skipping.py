"""Pods that must not be tried, or no longer: their attempt ends without condition and Event.

    popped                          it is being deleted, or has a node already
    called from a line, or asked    also: it is gone, was made again, has ended, or names another scheduler by now
    about while extenders thought

The old annotation can name another scheduler at any time. If that is one of ours, the pod was queued again when its
change was seen, and skipped because this attempt had it: so it is queued again here.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.api.core import Pod
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault, error
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import STEP_BEGAN, PodDecidedLater, PodSkipped
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


class PodSkipping:
    """Ends the attempts of such pods."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        pod_of: Callable[[str], Pod | None],
        profiles: Callable[[], Container[str]],
        observers: Observers,
        clock: Clock,
    ) -> None:
        """`pod_of`: the newest version of a pod by its key. `profiles`: the scheduler names that are served now."""
        self._cache = cache
        self._queue = queue
        self._pod_of = pod_of
        self._profiles = profiles
        self._tell = observers.tell
        self._clock = clock

    def skips(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that was popped, if it must not be tried. Returns whether that was so."""
        reason = self.why_skip(queued)
        if reason:
            self.end(queued, reason, is_reported=queued.pod.pod.metadata.deletion_timestamp is not None)
        return bool(reason)

    def why_skip(self, queued: QueuedPodInfo) -> str:
        """Why a pod that was popped must not be tried, or an empty text."""
        if queued.pod.pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return "it has a node" if self._cache.node_of(queued.pod.uid) else ""

    def lets_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that has waited for extenders, if it needs no node of ours; whether it was so."""
        reason = self.why_let_go(queued)
        if not reason:
            return False
        newest = self._pod_of(queued.key)
        self.end(queued, reason)
        if newest is not None and newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name:
            self._requeue(queued, newest)
        return True

    def end(self, queued: QueuedPodInfo, reason: str, *, is_reported: bool = False) -> None:
        """The attempt is over. `is_reported`: with an Event."""
        self._queue.done(queued.pod.uid)
        self._tell(PodSkipped(queued, reason, is_reported))

    def why_let_go(self, queued: QueuedPodInfo) -> str:
        """Why nobody needs the attempt any more, or an empty text. Its name may be another pod's."""
        newest = self._pod_of(queued.key)
        if newest is None:
            return "it was deleted"
        if newest.metadata.uid != queued.pod.uid:
            return "it was made again under its name"
        if newest.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if newest.spec.node_name or self._cache.node_of(queued.pod.uid):
            return "it has a node"
        if newest.is_terminal:
            return "it has ended"
        return "it names another scheduler" if _names_another(queued, newest) else ""

    def _requeue(self, queued: QueuedPodInfo, newest: Pod) -> None:
        needs_us = newest.metadata.uid == queued.pod.uid and not (newest.spec.node_name or newest.is_terminal)
        if needs_us and newest.spec.scheduler_name in self._profiles() and self._queue.find(queued.key) is None:
            self._queue.add(PodInfo(newest), self._clock.time())


def _names_another(queued: QueuedPodInfo, newest: Pod) -> bool:
    return newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name


# Pods whose cycle must search for longer than it may hold the event loop: they are searched for in the background.
#
# The pod has left its worker, nothing is assumed for it, and others are decided meanwhile. One search runs at a time,
# in slices, in the order in which pods were popped: mostly those behind it ask for the same, and find it done. The last
# cycle and what follows from it are one synchronous step, as for every other pod.

# How long a search may hold the event loop: in the cycle, and in each slice after it.
SLICE_SECONDS: Final = 0.005
# Where what was found is out of date again and again, the last cycle has more time, and decides.
MAX_CYCLES: Final = 8
# For the search of the last cycle, which holds the event loop.
LAST_SECONDS: Final = 0.1
SEARCHED_TOO_LONG: Final = (
    f"the search for the devices of the pod's claims takes too long: retried {MAX_CYCLES} times while devices were "
    f"taken and given back, at last for {LAST_SECONDS:g} s in one go"
)


def search_budget_for(
    pod: PodInfo, cache: Cache, clock: Clock, most_seconds: float = SLICE_SECONDS
) -> SearchTimeBudget | None:
    """The time budget for searches of a pod's cycle, a slice at most; `None` if nothing in it can take long."""
    # What a costly pod asks for is added up within the time of its decision.
    if not (pod.pod.spec.resource_claims or pod.is_costly or cache.devices.serve(pod)):
        return None
    return SearchTimeBudget(min(SLICE_SECONDS, most_seconds), clock.monotonic)


class LongSearchRunner:
    """Runs what cycles have left, and decides."""

    def __init__(
        self,
        skipping: PodSkipping,
        judge: Callable[[Attempt, SearchTimeBudget], SchedulingRecord],
        observers: Observers,
        clock: Clock,
    ) -> None:
        """`judge` runs the cycle of an attempt again."""
        self._skipping = skipping
        self._judge = judge
        self._tell = observers.tell
        self._now = clock.monotonic
        self._turn = asyncio.Lock()

    async def decide(self, attempt: Attempt) -> bool:
        """Search and decide: the attempt's record is the decision, in this instant; act before any await.

        Returns false if nobody needs the pod any more; then its attempt is over.
        """
        has_waited = self._turn.locked()
        async with self._turn:
            if has_waited:
                attempt.rest = None  # those before it have perhaps found everything
            for cycle in range(1, MAX_CYCLES + 1):
                await self._finish(attempt)
                self._tell(STEP_BEGAN)
                if self._skipping.lets_go(attempt.queued):
                    self._tell(PodDecidedLater(attempt, has_node=False))
                    return False
                is_last = cycle == MAX_CYCLES
                search_budget = SearchTimeBudget(LAST_SECONDS if is_last else SLICE_SECONDS, self._now)
                record = self._judge(attempt, search_budget)
                if is_last and search_budget.rest is not None:
                    record.status = error(SEARCHED_TOO_LONG, fault=Fault.OVER_BUDGET)
                if is_last or search_budget.rest is None:
                    attempt.record = record
                    return True
                attempt.rest = search_budget.rest
        raise AssertionError  # the last cycle decides

    async def _finish(self, attempt: Attempt) -> None:
        rest, attempt.rest = attempt.rest, None
        if rest is None:
            return
        # Work, and a turn for others. Nobody searches for a pod that is gone: others wait for their turn behind it, and
        # its attempt holds all that it asks for.
        while not (self._skipping.why_let_go(attempt.queued) or rest.run(SLICE_SECONDS)):  # noqa: ASYNC110
            await asyncio.sleep(0)
