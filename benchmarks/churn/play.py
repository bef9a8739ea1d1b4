"""The scheduler of `ServiceInProcess` in a cluster that churns, in real time or as fast as it goes.

Deciding, binding and the watch go in turns as in the player of `kscheduler bench`. As fast as it goes, time is virtual:
a second of it passes with each step of the world, so backoffs end, series of Events finish and the safety net asks
as often as they would in a service.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

from benchmarks.churn.census import Census, take, take_apart
from benchmarks.churn.world import Size, World
from kscheduler.aio.clock import REAL_CLOCK, Clock, VirtualClock
from kscheduler.aio.collector import LongLived
from kscheduler.aio.tasks import BackgroundService, TaskSet, running
from kscheduler.bench.cluster import ServiceInProcess, StandIn
from kscheduler.client.events.recorder import EventRecorder
from kscheduler.client.rest import APIClient
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.telemetry.logs.caught import caught

_SLICE_SECONDS: Final = 0.005
_NET_SECONDS: Final = 30.0
_SETTLING_STEPS: Final = 50


class _TakesAll:
    """An API server that takes every Event."""

    async def post(self, path: str, body: bytes, *, joins: str = "") -> None:
        """Created."""

    async def patch(self, path: str, body: bytes, content_type: str) -> None:
        """Patched."""


class Churn:
    """A cluster and its scheduler."""

    def __init__(self, size: Size | None = None, *, clock: Clock = REAL_CLOCK, seed: int = 1) -> None:
        self.cluster = StandIn()
        self.clock = clock
        self.events = EventRecorder(
            cast("APIClient", _TakesAll()), reporting_instance="kscheduler-churn", clock=clock, queue_size=10_000
        )
        self.service = ServiceInProcess(self.cluster, clock=clock, events=self.events)
        self.world = World(self.cluster, size or Size(), seed)
        self.attempts = 0
        self._caught_before = caught()
        self._waiting = TaskSet("waiting", clock)
        self._slice_ends = 0.0
        self._flush_at = self._net_at = clock.monotonic()

    @asynccontextmanager
    async def running(self, *more: BackgroundService, collects: bool = True) -> AsyncIterator[None]:
        """Everything that runs in the background. `collects`: Python's collector is set as in the service."""
        service = self.service
        services = [
            BackgroundService("conditions", service.status_writer.run),
            BackgroundService("evictions", service.evictions.run),
            BackgroundService("events", self.events.run),
            *more,
        ]
        if collects:
            services.insert(0, BackgroundService("long-lived objects", LongLived(self.clock).run))
        async with running(*services):
            await asyncio.sleep(0)
            try:
                yield
            finally:
                await self._waiting.cancel_all()

    async def begin(self) -> None:
        """Fill the cluster."""
        self.world.begin()
        await self.schedule()
        await self.pass_time(1.0)

    async def step(self, between: Callable[[], Awaitable[None]] | None = None) -> int:
        """A step of the world and all that follows of it; how many pods it brought.

        `between`: is awaited after each thing that happens.
        """
        before = self.world.created
        for _ in self.world.step():
            while await self._try_next():
                pass
            await self._take_turn()
            if between is not None:
                await between()
        await self.schedule()
        return self.world.created - before

    async def schedule(self) -> None:
        """Try the ready pods until no pod is ready and no further event arrives on its own."""
        idle_turns = 0
        while idle_turns < _SETTLING_STEPS:
            if await self._try_next():
                idle_turns = 0
                continue
            await self._take_turn()
            is_busy = bool(len(self.service.evictions) or self._waiting.statistics().running)
            idle_turns += 5 if not is_busy else 1

    async def pass_time(self, seconds: float) -> None:
        """Virtual time goes by; with a real clock nothing is to be done."""
        if isinstance(self.clock, VirtualClock):
            await self.clock.advance(seconds)
        self._flush()
        await self.schedule()

    async def _try_next(self) -> bool:
        queued = self.service.queue.pop_nowait(self.clock.time())
        if queued is None:
            return False
        self.attempts += 1
        attempt = self.service.scheduler.decide(queued)
        if attempt is not None:
            if self.service.scheduler.must_wait(attempt):
                self._waiting.spawn(attempt.queued.key, self._prepare(attempt))
            else:
                await self.service.scheduler.bind(attempt)
        self.cluster.deliver_all()
        if time.perf_counter() >= self._slice_ends:
            await self._take_turn()
        return True

    async def _prepare(self, attempt: Attempt) -> None:
        if await self.service.scheduler.prepare(attempt):
            await self.service.scheduler.bind(attempt)

    async def _take_turn(self) -> None:
        await asyncio.sleep(0)
        self.cluster.deliver_all()
        self._slice_ends = time.perf_counter() + _SLICE_SECONDS
        self._flush()

    def _flush(self) -> None:
        now = self.clock.monotonic()
        if now >= self._flush_at:
            self._flush_at = now + 1.0
            self.service.queue.flush_backoff(self.clock.time())
        if now >= self._net_at:
            self._net_at = now + _NET_SECONDS
            self.service.queue.flush_unschedulable(self.clock.time())

    # --- looking ------------------------------------------------------------------------------------------------------

    def census(self) -> Census:
        """What every table holds."""
        return take(self.service, self.events)

    async def census_apart(self) -> Census:
        """The same, which leaves no trace in this process."""
        return await asyncio.to_thread(take_apart, self.service, self.events)

    @property
    def engines(self) -> list[ClassEngine]:
        """The class engines of all profiles."""
        return list(self.service.scheduler.engines.values())

    def problems(self) -> list[str]:
        """What must not have happened."""
        informers = self.cluster.informers.values()
        failed = sum(informer.statistics().handler_errors for informer in informers)
        before = self._caught_before  # counts are the process's
        errors = {where: count - before[where] for where, count in caught().items() if count > before[where]}
        return [f"{failed} events could not be handled"] * bool(failed) + [f"bugs: {dict(errors)}"] * bool(errors)

    def sizes(self) -> dict[str, Any]:
        """Of the cluster."""
        cache, queue = self.service.cache.statistics(), self.service.queue.statistics()
        waiting = queue.active + queue.backoff + queue.unschedulable + queue.gated
        return {"nodes": cache.nodes, "pods": cache.pods, "waiting": waiting}
