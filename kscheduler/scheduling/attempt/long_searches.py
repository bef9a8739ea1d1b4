"""Pods whose cycle must search for longer than it may hold the event loop: they are searched for beside the workers.

The pod has left its worker, nothing is assumed for it, and others are decided meanwhile. One search runs at a time, in
slices, in the order in which pods were popped: mostly those behind it ask for the same, and find it done. The last
cycle and what follows from it are one synchronous step, as for every other pod.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from kscheduler.framework.nodes.patience import Patience
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Fault, error
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings
from kscheduler.scheduling.record import SchedulingRecord

SLICE_SECONDS: Final = 0.005
"""How long a search may hold the event loop: in the cycle, and in each slice after it."""
MOST_CYCLES: Final = 8
"""Where what was found is out of date again and again, the last cycle has more time, and decides."""
LAST_SECONDS: Final = 0.1
"""For the search of the last cycle, which holds the event loop."""
SEARCHED_TOO_LONG: Final = (
    f"the search for the devices of the pod's claims takes too long: tried anew {MOST_CYCLES} times while devices were "
    f"taken and given back, at last for {LAST_SECONDS:g} s in one go"
)


def patience_for(pod: PodInfo, context: Surroundings, most_seconds: float = SLICE_SECONDS) -> Patience | None:
    """The patience of a pod's cycle, a slice at most; `None` if nothing in it can take long."""
    # What a costly pod asks for is added up within the time of its decision.
    if not (pod.pod.spec.resource_claims or pod.is_costly or context.cache.devices.serve(pod)):
        return None
    return Patience(min(SLICE_SECONDS, most_seconds), context.clock.monotonic)


class LongSearches:
    """Runs what cycles have left, and decides."""

    def __init__(
        self,
        context: Surroundings,
        skipping: PodSkipping,
        judge: Callable[[Attempt, Patience], SchedulingRecord],
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
                patience = Patience(LAST_SECONDS if is_last else SLICE_SECONDS, self._context.clock.monotonic)
                record = self._judge(attempt, patience)
                if is_last and patience.rest is not None:
                    record.status = error(SEARCHED_TOO_LONG, fault=Fault.OVER_BUDGET)
                if is_last or patience.rest is None:
                    attempt.record = record
                    return True
                attempt.rest = patience.rest
        raise AssertionError  # the last cycle decides

    async def _finish(self, attempt: Attempt) -> None:
        rest, attempt.rest = attempt.rest, None
        if rest is None:
            return
        # Work, and a turn for others. Nobody searches for a pod that is gone: others wait for their turn behind it, and
        # its attempt holds all that it asks for.
        while not (self._skipping.why_let_go(attempt.queued) or rest.run(SLICE_SECONDS)):  # noqa: ASYNC110
            await asyncio.sleep(0)
