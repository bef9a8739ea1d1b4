"""Several pieces of one work: all results in order, or one failure and nothing that goes on behind it."""

import asyncio

import pytest

from kscheduler.aio.tasks import all_of


async def after(turns: int, value: int) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    return value


async def test_the_results_are_in_the_order_of_the_works() -> None:
    assert await all_of("works", [after(3, 1), after(1, 2), after(2, 3)]) == [1, 2, 3]
    assert await all_of("works", []) == []


async def test_the_first_failure_is_raised_alone_and_the_others_have_ended() -> None:
    ended: list[str] = []

    async def slow() -> int:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("slow")
        return 0

    async def fails() -> int:
        await asyncio.sleep(0)
        raise LookupError("first")

    with pytest.raises(LookupError, match="first"):
        await all_of("works", [slow(), fails(), slow()])
    assert ended == ["slow", "slow"]


async def test_whoever_is_cancelled_takes_all_with_it() -> None:
    ended: list[str] = []

    async def slow() -> int:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("slow")
        return 0

    task = asyncio.create_task(all_of("works", [slow(), slow()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["slow", "slow"]
