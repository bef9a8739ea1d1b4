"""Reviews are counted as what they became: fetched, failed, or neither if they were cut at the end."""

import asyncio

import pytest

from kscheduler.server.login.remembered import Remembered


async def test_a_review_that_is_cut_at_the_end_counts_as_nothing() -> None:
    cache: Remembered[str, int] = Remembered(10)
    begun = asyncio.Event()

    async def never() -> tuple[int, float]:
        begun.set()
        await asyncio.Event().wait()
        return 1, 1.0

    waiting = asyncio.ensure_future(cache.answer("q", never))
    await begun.wait()
    await cache.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (cache.misses, cache.fetched, cache.failures, cache.in_flight) == (1, 0, 0, 0)


async def test_an_answer_counts_as_fetched_and_an_error_as_failed() -> None:
    cache: Remembered[str, int] = Remembered(10)

    async def good() -> tuple[int, float]:
        return 1, 1.0

    async def bad() -> tuple[int, float]:
        message = "no"
        raise ValueError(message)

    assert await cache.answer("q", good) == 1
    with pytest.raises(ValueError, match="no"):
        await cache.answer("other", bad)
    await asyncio.sleep(0)
    assert (cache.fetched, cache.failures) == (1, 1)
