"""Waiting for something to happen, with a time limit and without a task: a future, set by a caller or by an alarm.

`finishes_within` is for work and costs two tasks, too much for a thousand pods a second that each wait briefly for
their volumes.
"""

import asyncio

from kscheduler.aio.clock import Clock


class Bell:
    """Any caller may ring it, one task waits for it. Must be created inside a running loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._rung: asyncio.Future[None] = self._loop.create_future()

    def ring(self) -> None:
        """Something has happened: wake the task that waits, or let the next wait return at once."""
        if not self._rung.done():
            self._rung.set_result(None)

    async def heard(self, seconds: float) -> None:
        """Return once the bell has been rung since the last call, or after `seconds`."""
        if not self._rung.done():
            alarm = self._clock.call_later(seconds, self.ring)
            try:
                await self._rung
            finally:
                alarm.cancel()
        self._rung = self._loop.create_future()
