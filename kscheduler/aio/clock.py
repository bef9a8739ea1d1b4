"""Time as an argument.

All code that waits takes a `Clock`: the service runs on `REAL_CLOCK`, tests and simulations on a `VirtualClock` that
stands still until a test advances it. A test of a ten-minute backoff takes a millisecond and never flakes.
Limit: a virtual clock does not move real sockets; what waits for the network waits in real time.
"""

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

# Turns of the event loop that a woken task gets before virtual time moves on; chains of awaits need a few.
_SETTLING_TURNS = 25


class Alarm(Protocol):
    """A scheduled call."""

    def cancel(self) -> object:
        """Drop the call."""
        ...


class Clock(Protocol):
    """What tells the time and waits."""

    @property
    def is_real(self) -> bool:
        """Whether time passes by itself, so that what takes too long can be ended."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never steps back."""
        ...

    def time(self) -> float:
        """Wall clock, seconds since the epoch; may step. For timestamps in objects and logs, never for deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; zero or less yields to the loop once."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """Call back after `seconds`, without a sleeping task: cheap for timeouts that are nearly always cancelled."""
        ...


class RealClock:
    """The machine's clocks."""

    is_real = True
    # The functions themselves: a decision reads the clock some thirty times.
    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)

    async def sleep(self, seconds: float) -> None:
        """Sleep in real time."""
        await asyncio.sleep(max(0.0, seconds))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """Call back in real time."""
        return asyncio.get_running_loop().call_later(max(0.0, seconds), callback)


REAL_CLOCK: Clock = RealClock()


class VirtualClock:
    """A clock that stands still until `advance` moves it, waking sleepers in the order of their deadlines."""

    is_real = False

    def __init__(self, *, start: float = 0.0, wall: float = 1_790_000_000.0) -> None:
        self._now = start
        self._wall_offset = wall - start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._someone_sleeps = asyncio.Event()

    def monotonic(self) -> float:
        return self._now

    def time(self) -> float:
        """Virtual wall clock, in step with `monotonic`."""
        return self._now + self._wall_offset

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await self._sleeper(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Alarm:
        """Call back when the clock has been advanced by `seconds`."""
        sleeper = self._sleeper(max(0.0, seconds))
        sleeper.add_done_callback(lambda woken: None if woken.cancelled() else callback())
        return sleeper

    def _sleeper(self, seconds: float) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), future))
        self._someone_sleeps.set()
        return future

    @property
    def sleepers(self) -> int:
        """How many tasks are asleep."""
        self._forget_cancelled()
        return sum(not future.done() for _, _, future in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move time forward; each sleeper wakes at its own moment and runs before later ones wake."""
        end = self._now + seconds
        while (deadline := self._next_deadline()) is not None and deadline <= end:
            self._now = deadline
            _, _, future = heapq.heappop(self._sleepers)
            future.set_result(None)
            await _settle()
        self._now = end
        await _settle()

    async def next_sleep(self, within_seconds: float = math.inf) -> float:
        """Wait until a task sleeps for at most `within_seconds`; returns the seconds until the first sleeper wakes."""
        while (deadline := self._next_deadline()) is None or deadline - self._now > within_seconds:
            self._someone_sleeps.clear()
            await self._someone_sleeps.wait()
        return deadline - self._now

    async def run_to_next(self) -> float:
        """Wait until a task sleeps and wake the first sleeper; returns the virtual seconds that passed."""
        seconds = await self.next_sleep()
        await self.advance(seconds)
        return seconds

    def _next_deadline(self) -> float | None:
        self._forget_cancelled()
        return self._sleepers[0][0] if self._sleepers else None

    def _forget_cancelled(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)


async def _settle() -> None:
    for _ in range(_SETTLING_TURNS):
        await asyncio.sleep(0)


async def finishes_within(work: Coroutine[Any, Any, object], seconds: float, clock: Clock) -> bool:
    """Run `work` for at most `seconds`; whether it finished. Unfinished work is cancelled and awaited."""
    task = asyncio.create_task(work)
    alarm = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        finished = task.done()
    finally:
        alarm.cancel()
        task.cancel()
        await asyncio.wait({task, alarm})
    if finished:
        task.result()
    return finished
