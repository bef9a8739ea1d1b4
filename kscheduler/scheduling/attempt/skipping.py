"""Pods that must not be tried, or not any more: their attempt ends without condition and Event.

    popped                          it is being deleted, or has a node already
    called from a line, or asked    also: it is gone, was made again, has ended, or names another scheduler by now
    about while extenders thought

The old annotation can name another scheduler at any time. If that is one of ours, the pod was queued again when its
change was seen, and skipped because this attempt had it: so it is queued again here.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Fault, error
from kscheduler.scheduling.attempt.context import Attempt, AttemptContext
from kscheduler.scheduling.record import SchedulingRecord


class PodSkipping:
    """Ends the attempts of such pods."""

    def __init__(self, context: AttemptContext, profiles: Callable[[], Container[str]]) -> None:
        """`profiles`: the scheduler names that are served now."""
        self._context = context
        self._profiles = profiles

    def skips(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that was popped, if it must not be tried; whether it was so."""
        reason = self.why_skip(queued)
        if reason:
            if queued.pod.pod.metadata.deletion_timestamp is not None:
                self._context.reporter.skipped_deleting(queued.pod.pod)
            self.end(queued, reason)
        return bool(reason)

    def why_skip(self, queued: QueuedPodInfo) -> str:
        """Why a pod that was popped must not be tried, or an empty text."""
        if queued.pod.pod.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        return "it has a node" if self._context.cache.node_of(queued.pod.uid) else ""

    def lets_go(self, queued: QueuedPodInfo) -> bool:
        """End the attempt of a pod that has waited for extenders, if it needs no node of ours; whether it was so."""
        reason = self.why_let_go(queued)
        if not reason:
            return False
        newest = self._context.pod_of(queued.key)
        self.end(queued, reason)
        if newest is not None and newest.spec.scheduler_name != queued.pod.pod.spec.scheduler_name:
            self._requeue(queued, newest)
        return True

    def end(self, queued: QueuedPodInfo, reason: str) -> None:
        """The attempt is over."""
        self._context.journal.let_go(queued)
        self._context.queue.done(queued.pod.uid)
        self._context.log.skipped(queued, reason)

    def why_let_go(self, queued: QueuedPodInfo) -> str:
        """Why nobody needs the attempt any more, or an empty text. Its name may be another pod's."""
        newest = self._context.pod_of(queued.key)
        if newest is None:
            return "it was deleted"
        if newest.metadata.uid != queued.pod.uid:
            return "it was made again under its name"
        if newest.metadata.deletion_timestamp is not None:
            return "it is being deleted"
        if newest.spec.node_name or self._context.cache.node_of(queued.pod.uid):
            return "it has a node"
        if newest.is_terminal:
            return "it has ended"
        return "it names another scheduler" if _names_another(queued, newest) else ""

    def _requeue(self, queued: QueuedPodInfo, newest: Pod) -> None:
        needs_us = newest.metadata.uid == queued.pod.uid and not (newest.spec.node_name or newest.is_terminal)
        context = self._context
        if needs_us and newest.spec.scheduler_name in self._profiles() and context.queue.find(queued.key) is None:
            context.queue.add(PodInfo(newest), context.clock.time())


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
MOST_CYCLES: Final = 8
# For the search of the last cycle, which holds the event loop.
LAST_SECONDS: Final = 0.1
SEARCHED_TOO_LONG: Final = (
    f"the search for the devices of the pod's claims takes too long: retried {MOST_CYCLES} times while devices were "
    f"taken and given back, at last for {LAST_SECONDS:g} s in one go"
)


def search_budget_for(
    pod: PodInfo, context: AttemptContext, most_seconds: float = SLICE_SECONDS
) -> SearchTimeBudget | None:
    """The patience of a pod's cycle, a slice at most; `None` if nothing in it can take long."""
    # What a costly pod asks for is added up within the time of its decision.
    if not (pod.pod.spec.resource_claims or pod.is_costly or context.cache.devices.serve(pod)):
        return None
    return SearchTimeBudget(min(SLICE_SECONDS, most_seconds), context.clock.monotonic)


class LongSearchRunner:
    """Runs what cycles have left, and decides."""

    def __init__(
        self,
        context: AttemptContext,
        skipping: PodSkipping,
        judge: Callable[[Attempt, SearchTimeBudget], SchedulingRecord],
    ) -> None:
        """`judge` runs the cycle of an attempt again."""
        self._context = context
        self._skipping = skipping
        self._judge = judge
        self._turn = asyncio.Lock()

    async def decide(self, attempt: Attempt) -> bool:
        """Search and decide: the attempt's record is the decision, in this instant; act before any await.

        Returns false if nobody needs the pod any more; then its attempt is over.
        """
        has_waited = self._turn.locked()
        async with self._turn:
            if has_waited:
                attempt.rest = None  # those before it have perhaps found everything
            for cycle in range(1, MOST_CYCLES + 1):
                await self._finish(attempt)
                self._context.journal.begins()
                if self._skipping.lets_go(attempt.queued):
                    self._context.journal.decided_later(attempt, has_node=False)
                    return False
                is_last = cycle == MOST_CYCLES
                search_budget = SearchTimeBudget(
                    LAST_SECONDS if is_last else SLICE_SECONDS, self._context.clock.monotonic
                )
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
