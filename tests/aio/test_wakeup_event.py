"""A task that waits for a wakeup event sees each signal, and none waits longer than asked."""

import asyncio

import pytest

from kscheduler.aio import REAL_CLOCK, VirtualClock
from kscheduler.aio.tasks import WakeupEvent


async def test_a_ring_is_heard_at_once_and_leaves_nobody_asleep() -> None:
    clock = VirtualClock()
    wakeup = WakeupEvent(clock)
    waiting = asyncio.create_task(wakeup.wait(10))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    wakeup.notify()
    await waiting
    assert (clock.monotonic(), clock.sleepers) == (0.0, 0)


async def test_without_a_ring_the_time_ends_it_and_again_the_next_time() -> None:
    clock = VirtualClock()
    wakeup = WakeupEvent(clock)
    for seconds in (10, 20):
        waiting = asyncio.create_task(wakeup.wait(seconds))
        assert await clock.run_to_next() == seconds
        await waiting


async def test_rings_before_anybody_waits_are_one_ring() -> None:
    wakeup = WakeupEvent(VirtualClock())
    wakeup.notify()
    wakeup.notify()
    await wakeup.wait(10)
    waiting = asyncio.create_task(wakeup.wait(10))
    await asyncio.sleep(0)
    assert not waiting.done()
    wakeup.notify()
    await waiting


async def test_who_is_cancelled_leaves_no_alarm_behind() -> None:
    clock = VirtualClock()
    waiting = asyncio.create_task(WakeupEvent(clock).wait(10))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert clock.sleepers == 0


async def test_real_time_ends_it_too() -> None:
    began = REAL_CLOCK.monotonic()
    await WakeupEvent(REAL_CLOCK).wait(0.01)
    assert REAL_CLOCK.monotonic() - began >= 0.005
