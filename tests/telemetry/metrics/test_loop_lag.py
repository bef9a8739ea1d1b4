"""The heartbeat tells by how much the event loop is late, and liveness when it has stopped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog

from kscheduler.aio import VirtualClock
from kscheduler.scheduling.plugin_reports import SlowCall
from kscheduler.service.metrics.loop_lag import LoopLag
from kscheduler.telemetry.samples import Distributions, Numbers


class LateClock(VirtualClock):
    """A clock on which each sleep ends late by `lateness` seconds, as it does on a loop that is blocked."""

    def __init__(self) -> None:
        super().__init__()
        self.lateness = 0.0

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + self.lateness)


@asynccontextmanager
async def beating(lag: LoopLag) -> AsyncIterator[None]:
    task = asyncio.create_task(lag.run(), name=lag.name)
    await asyncio.sleep(0)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


def histogram_of(lag: LoopLag) -> Distributions:
    (found,) = [sample for sample in lag.samples() if isinstance(sample, Distributions)]
    return found


async def test_a_loop_that_is_on_time_has_no_lag() -> None:
    clock = VirtualClock()
    lag = LoopLag(interval_seconds=0.125, clock=clock)
    async with beating(lag):
        await clock.advance(10.0)
        assert lag.beats == 80
        assert lag.worst_seconds == pytest.approx(0.0, abs=1e-9)
        assert lag.problem() is None


async def test_the_worst_lag_is_remembered_for_a_minute_and_forgotten_after_two() -> None:
    clock = LateClock()
    lag = LoopLag(interval_seconds=0.5, clock=clock)
    clock.lateness = 2.0
    async with beating(lag):
        await clock.run_to_next()
        clock.lateness = 0.0
        await clock.run_to_next()
        assert lag.worst_seconds == pytest.approx(2.0)
        await clock.advance(60.0)
        assert lag.worst_seconds == pytest.approx(2.0)
        await clock.advance(65.0)
        assert lag.worst_seconds == pytest.approx(0.0, abs=1e-9)


async def test_lags_are_counted_in_a_histogram() -> None:
    clock = LateClock()
    clock.lateness = 0.25
    lag = LoopLag(interval_seconds=0.5, clock=clock)
    async with beating(lag):
        for _ in range(4):
            await clock.run_to_next()
    (child,) = histogram_of(lag).children
    assert sum(child.counts) == 4
    assert child.total == pytest.approx(1.0)


async def test_an_overdue_heartbeat_shows_at_once_and_becomes_a_problem_after_the_limit() -> None:
    clock = LateClock()
    clock.lateness = 100.0
    lag = LoopLag(interval_seconds=0.5, limit_seconds=30.0, clock=clock)
    async with beating(lag):
        await clock.advance(30.0)
        assert lag.problem() is None
        assert lag.worst_seconds == pytest.approx(29.5)
        await clock.advance(1.0)
        assert lag.problem() == "no heartbeat of the event loop for 30.5 s"


async def test_a_heartbeat_whose_task_has_died_becomes_a_problem() -> None:
    clock = VirtualClock()
    lag = LoopLag(clock=clock)
    async with beating(lag):
        await clock.advance(1.0)
    await clock.advance(31.0)
    assert lag.problem() is not None


async def test_a_heartbeat_that_has_not_begun_is_no_problem() -> None:
    clock = VirtualClock()
    lag = LoopLag(clock=clock)
    await clock.advance(1000.0)
    assert lag.problem() is None
    assert [sample.values for sample in lag.samples() if isinstance(sample, Numbers)] == [{(): 0.0}]


def call(seconds: float) -> SlowCall:
    """A plugin's."""
    return SlowCall("Mine", "Filter", "default/p", seconds, ended=0.0)


async def test_a_loop_that_was_held_is_reported_with_the_plugin_that_held_it() -> None:
    clock = LateClock()
    seconds_queried: list[float] = []

    def slowest(seconds: float) -> SlowCall | None:
        seconds_queried.append(seconds)
        return call(17.5)

    lag = LoopLag(interval_seconds=0.5, clock=clock, slowest_call=slowest)
    clock.lateness = 18.0
    with structlog.testing.capture_logs() as lines:
        async with beating(lag):
            await clock.run_to_next()
    (line,) = lines
    assert (line["event"], line["log_level"], line["seconds"]) == ("event_loop_held", "warning", 18.0)
    assert (line["plugin"], line["extension_point"], line["pod"]) == ("Mine", "Filter", "default/p")
    assert line["plugin_seconds"] == 17.5
    assert seconds_queried == pytest.approx([18.5])


async def test_a_loop_that_is_held_again_and_again_is_reported_once_a_minute() -> None:
    clock = LateClock()
    lag = LoopLag(interval_seconds=0.5, clock=clock)
    clock.lateness = 2.0
    with structlog.testing.capture_logs() as lines:
        async with beating(lag):
            for _ in range(26):
                await clock.run_to_next()
    assert [one.get("times_since") for one in lines] == [None, 23]
    assert "plugin" not in lines[0]


async def test_a_loop_that_is_a_little_late_is_not_reported() -> None:
    clock = LateClock()
    lag = LoopLag(interval_seconds=0.5, clock=clock)
    clock.lateness = 0.9
    with structlog.testing.capture_logs() as lines:
        async with beating(lag):
            for _ in range(5):
                await clock.run_to_next()
    assert lines == []
