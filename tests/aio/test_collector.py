"""The cyclic collector does not walk what lives long, and still finds garbage."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kscheduler.aio import VirtualClock
from kscheduler.aio.collector import THRESHOLDS, WHOLE_WALK_SECONDS, LongLived


class Knot:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@asynccontextmanager
async def setting_aside() -> AsyncIterator[VirtualClock]:
    clock = VirtualClock()
    task = asyncio.ensure_future(LongLived(clock).run())
    await asyncio.sleep(0)
    try:
        yield clock
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_what_survives_a_full_collection_is_not_walked_again() -> None:
    async with setting_aside():
        kept = [Knot() for _ in range(1000)]
        gc.collect()
        walked = {id(one) for one in gc.get_objects()}
        assert not walked & {id(one) for one in kept}


async def test_a_new_knot_is_found_by_the_next_collection() -> None:
    async with setting_aside():
        gone = weakref.ref(Knot())
        gc.collect()
        assert gone() is None


async def test_an_old_knot_is_found_by_the_walk_over_everything() -> None:
    async with setting_aside() as clock:
        knot = Knot()
        gone = weakref.ref(knot)
        gc.collect()
        del knot
        gc.collect()
        assert gone() is not None, "it is among the frozen"
        await clock.advance(WHOLE_WALK_SECONDS)
        assert gone() is None


async def test_afterwards_the_collector_is_as_it_was() -> None:
    before, thresholds = len(gc.callbacks), gc.get_threshold()
    async with setting_aside():
        assert len(gc.callbacks) == before + 1
        assert gc.get_threshold() == THRESHOLDS
    assert len(gc.callbacks) == before
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
