import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.aio import VirtualClock, finishes_within


@given(st.lists(st.integers(min_value=1, max_value=1000), min_size=1, max_size=8))
def test_sleepers_wake_in_the_order_of_their_deadlines(delays: list[int]) -> None:
    async def scenario() -> list[float]:
        clock, woken = VirtualClock(), list[float]()

        async def sleeper(seconds: float) -> None:
            await clock.sleep(seconds)
            assert clock.monotonic() == seconds
            woken.append(seconds)

        async with asyncio.TaskGroup() as group:
            for delay in delays:
                group.create_task(sleeper(delay))
            await asyncio.sleep(0)
            await clock.advance(1000)
        return woken

    assert asyncio.run(scenario()) == sorted(delays)


async def test_nobody_wakes_before_time_and_wall_clock_moves_in_step() -> None:
    clock = VirtualClock(start=5.0, wall=1000.0)
    sleeper = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    await clock.advance(9.5)
    assert (sleeper.done(), clock.sleepers) == (False, 1)
    await clock.advance(0.5)
    assert sleeper.done()
    assert (clock.monotonic(), clock.time()) == (15.0, 1010.0)


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await asyncio.sleep(0)
    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    other = asyncio.create_task(clock.sleep(20))
    assert await clock.run_to_next() == 20
    await other


async def test_work_that_outlives_its_time_is_cancelled_and_awaited() -> None:
    clock, ended = VirtualClock(), asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(finishes_within(endless(), 3, clock))
    await clock.run_to_next()
    assert await waiting is False
    assert ended.is_set()


async def test_the_error_of_work_in_time_is_raised() -> None:
    async def fails() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await finishes_within(fails(), 3, VirtualClock())
