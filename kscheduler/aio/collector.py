"""Python's cyclic collector, kept from walking what lives long.

The problem: a full collection walks every object, and a cache of a hundred thousand pods is tens of millions of them:
the loop stands still for a quarter of a second, whenever the cache has grown by some share. The idea: what has survived
a full collection is set aside (frozen), so the next one walks only what is new. Objects are still freed the moment
nobody refers to them; only cycles among the frozen wait, for a walk over everything that comes twice a day.
"""

import gc
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock

WHOLE_WALK_SECONDS: Final = 12 * 3600.0


class LongLived:
    """Sets aside what lives long, from `run` on until it is cancelled. One for a process."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock

    async def run(self) -> None:
        """Set aside what is there now, then what survives; walk over everything twice a day."""
        gc.freeze()
        gc.callbacks.append(self._collected)
        try:
            while True:
                await self._clock.sleep(WHOLE_WALK_SECONDS)
                gc.unfreeze()
                gc.collect()
        finally:
            gc.callbacks.remove(self._collected)
            gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
