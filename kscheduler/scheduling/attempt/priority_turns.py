"""Turns for a bounded number of pods at a time; of those who wait, the most important goes next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from heapq import heappop, heappush


class PriorityTurns:
    """As a semaphore, but by priority, and among equals first come, first served."""

    def __init__(self, turns: int) -> None:
        self._free = turns
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0

    @property
    def waiting(self) -> int:
        """How many wait for a turn."""
        return sum(not turn.done() for _, _, turn in self._waiting)

    @asynccontextmanager
    async def turn(self, priority: int) -> AsyncIterator[None]:
        """Wait for a turn, and pass it on at the end."""
        await self._take(priority)
        try:
            yield
        finally:
            self._give()

    async def _take(self, priority: int) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heappush(self._waiting, (-priority, self._arrivals, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was given and cannot be used: the next one takes it
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            _, _, turn = heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
