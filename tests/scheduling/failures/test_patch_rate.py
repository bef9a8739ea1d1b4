"""So many patches a second on average, fewer after a 429, and never none."""

import pytest

from kscheduler.scheduling.failures.patch_rate import LEAST_SHARE, RECOVERY_SECONDS, PatchRate


def gone_by(rate: PatchRate, began: float, seconds: float) -> int:
    """How many go in so many seconds when there is always one that wants to."""
    now, gone = began, 0
    while (delay := rate.delay(now)) + now <= began + seconds:
        now += delay
        rate.take(now)
        gone += 1
    return gone


def test_a_burst_and_then_the_average() -> None:
    rate = PatchRate(50.0, 100)
    assert gone_by(rate, 0.0, 0.0) == 100
    assert gone_by(rate, 0.0, 60.0) == pytest.approx(3000, abs=1)


def test_an_idle_hour_saves_up_no_more_than_the_burst() -> None:
    rate = PatchRate(50.0, 100)
    assert gone_by(rate, 3600.0, 0.0) == 100


def test_each_429_halves_the_rate_and_a_quiet_minute_brings_it_back() -> None:
    rate = PatchRate(100.0, 10)
    rate.slow_down(0.0)
    assert rate.delay(0.0) == pytest.approx(1 / 50)
    rate.slow_down(0.0)
    assert rate.delay(0.0) == pytest.approx(1 / 25)
    assert gone_by(rate, RECOVERY_SECONDS, 10.0) == pytest.approx(1010, abs=1)


def test_a_server_that_refuses_for_ever_is_queried_now_and_then() -> None:
    rate = PatchRate(100.0, 10)
    for _ in range(100):
        rate.slow_down(0.0)
    assert rate.delay(0.0) == pytest.approx(1 / (100.0 * LEAST_SHARE))
