"""Waiting for something to happen, with a limit, without a task: a future that others set, or else an alarm does.

`finishes_within` is for work; it takes two tasks. A thousand pods a second that each wait a moment for their volumes
should not pay for them.
"""

import asyncio

from kscheduler.aio.clock import Clock


class Bell:
    """Rung by anybody, heard by one. Made within a running loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self._loop.create_future()

    def ring(self) -> None:
        """Something has happened; whoever waits, or waits next, goes on."""
        if not self._rung.done():
            self._rung.set_result(None)

    async def heard(self, seconds: float) -> None:
        """Return when it has been rung since the last time, or after so many seconds."""
        if not self._rung.done():
            alarm = self._clock.call_later(seconds, self.ring)
            try:
                await self._rung
            finally:
                alarm.cancel()
        self._rung = self._loop.create_future()
