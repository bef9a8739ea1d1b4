"""Python's cyclic collector, kept from walking what lives long.

The problem: a full collection walks every object, and a cache of a hundred thousand pods is tens of millions of them:
the loop stands still for a quarter of a second, whenever the cache has grown by some share. The idea: what has survived
a full collection is set aside (frozen), so the next one walks only what is new. Objects are still freed the moment
nobody refers to them; only cycles among the frozen wait, for a walk over everything that comes twice a day. The young
are walked less often than Python does: of the 700 objects since the last walk nearly all are still in use, those of a
hundred pods.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock

WHOLE_WALK_SECONDS: Final = 12 * 3600.0
THRESHOLDS: Final = 4000, 4, 3
"""New objects to a walk over the young, such walks to one over the middle-aged, and those to a full one: about 80,000
objects, as many as by default (700, 10, 10), so that no walk takes longer than it did."""


@contextmanager
def setting_aside() -> Iterator[None]:
    """Set aside what is there now, and then whatever survives a full collection."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_collected)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(_collected)
        gc.unfreeze()


class LongLived:
    """Sets aside what lives long, from `run` on until it is cancelled. One for a process."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock

    async def run(self) -> None:
        """Set aside until cancelled; walk over everything twice a day."""
        with setting_aside():
            while True:
                await self._clock.sleep(WHOLE_WALK_SECONDS)
                gc.unfreeze()
                gc.collect()


def _collected(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
