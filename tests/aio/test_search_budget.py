"""Backoff and rate limit."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.aio import Backoff, TokenBucket, VirtualClock


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(0.5, cap_seconds=3.0, clock=VirtualClock())
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert backoff.next() == 0.5


@given(st.integers(), st.integers(min_value=1, max_value=30))
def test_jitter_only_ever_lengthens_and_at_most_doubles(seed: int, failures: int) -> None:
    backoff = Backoff(0.8, cap_seconds=30.0, jitter=1.0, rng=random.Random(seed), clock=VirtualClock())
    delays = [backoff.next() for _ in range(failures)]
    for index, delay in enumerate(delays):
        base = min(0.8 * 2.0**index, 30.0)
        assert base <= delay < 2 * base
    assert backoff.failures == failures


async def test_a_healthy_while_starts_the_series_anew() -> None:
    clock = VirtualClock()
    backoff = Backoff(1.0, cap_seconds=30.0, reset_after_seconds=120.0, clock=clock)
    assert [backoff.next(), backoff.next()] == [1.0, 2.0]
    await clock.advance(120.0)
    assert backoff.next() == 4.0
    await clock.advance(120.5)
    assert backoff.next() == 1.0


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    bucket = TokenBucket(10.0, 3, VirtualClock())
    assert [bucket.reserve() for _ in range(5)] == pytest.approx([0, 0, 0, 0.1, 0.2])


async def test_tokens_come_back_with_time_but_never_above_the_burst() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(10.0, 2, clock)
    assert [bucket.reserve() for _ in range(2)] == [0.0, 0.0]
    await clock.advance(0.1)
    assert [bucket.reserve() for _ in range(2)] == pytest.approx([0.0, 0.1])
    await clock.advance(100)
    assert [bucket.reserve() for _ in range(3)] == pytest.approx([0.0, 0.0, 0.1])


def test_without_qps_nothing_is_limited() -> None:
    bucket = TokenBucket(None)
    assert all(bucket.reserve() == 0.0 for _ in range(1000))


def test_a_bucket_that_never_fills_is_refused() -> None:
    with pytest.raises(ValueError, match="qps > 0"):
        TokenBucket(0.0, 1)
