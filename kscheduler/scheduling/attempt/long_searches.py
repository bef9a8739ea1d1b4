"""Pods whose cycle must search for longer than it may hold the event loop: they are searched for in the background.

The pod has left its worker, nothing is assumed for it, and others are decided meanwhile. One search runs at a time,
in slices, in the order in which pods were popped: mostly those behind it ask for the same, and find it done. The last
cycle and what follows from it are one synchronous step, as for every other pod.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kscheduler.aio.clock import Clock
from kscheduler.framework.nodes.search_budget import SearchTimeBudget
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Fault, error
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt_events import STEP_BEGAN, PodDecidedLater
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache

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
