"""Keeps Python's cyclic garbage collector from walking long-lived objects.

The problem: a full collection walks every object, and a cache of a hundred thousand pods is tens of millions of them:
the loop stands still for a quarter of a second each time the cache has grown by a quarter. The idea: objects that
survived a full collection are frozen, so the next collection walks only newer ones. Objects are still freed as soon as
nothing refers to them; only cycles among frozen objects wait for a walk over everything, twice a day. The young
generation is walked less often than by default: the last 700 objects belong to a hundred pods, nearly all in use.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kscheduler.aio.clock import REAL_CLOCK, Clock

WHOLE_WALK_SECONDS: Final = 12 * 3600.0
# Arguments of `gc.set_threshold`. A full walk comes about every 80,000 objects, as with the default (700, 10, 10), so
# no walk takes longer than before.
THRESHOLDS: Final = 4000, 4, 3


@contextmanager
def setting_aside() -> Iterator[None]:
    """Freeze the objects that exist now, and later those that survive a full collection."""
    default_thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_collected)
    try:
        yield
    finally:
        gc.set_threshold(*default_thresholds)
        gc.callbacks.remove(_collected)
        gc.unfreeze()


class LongLived:
    """Freezes long-lived objects while `run` is running. One per process."""

    def __init__(self, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock

    async def run(self) -> None:
        """Freeze survivors until cancelled; walk over everything twice a day."""
        with setting_aside():
            while True:
                await self._clock.sleep(WHOLE_WALK_SECONDS)
                gc.unfreeze()
                gc.collect()


def _collected(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()
