"""Answers that are remembered for a time, and questions that are asked once for all who wait.

The problem: Prometheus and its like send the same token every few seconds, and often several at a time. The idea: an
answer has an end; equal questions that come while one is being asked wait for the same answer. The question is a task
of its own, so that a client that goes away takes no answer from the others. Errors are not remembered.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.bounded import RecentlyUsed

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Gets the answer, and for how many seconds it holds; 0: for those who wait only.
Ask = Callable[[], Coroutine[Any, Any, tuple[V, float]]]


class Remembered(Generic[K, V]):
    """Answers by question. At most `most`: the one used longest ago goes."""

    def __init__(self, most: int, clock: Clock = REAL_CLOCK) -> None:
        self._clock = clock
        self._answers: RecentlyUsed[K, tuple[V, float]] = RecentlyUsed(most)
        self._queried: dict[K, asyncio.Task[V]] = {}
        self.hits = 0
        self.misses = 0
        self.fetched = 0
        self.failures = 0

    @property
    def in_flight(self) -> int:
        """Questions that are being asked."""
        return len(self._queried)

    def known(self, query: K) -> V | None:
        """The remembered answer, if it still holds."""
        found = self._answers.use(query)
        if found is None or found[1] <= self._clock.monotonic():
            return None
        return found[0]

    async def answer(self, query: K, ask: Ask[V]) -> V:
        """The remembered answer, or a new one. Raises what `ask` raises."""
        remembered = self.known(query)
        if remembered is not None:
            self.hits += 1
            return remembered
        self.misses += 1
        task = self._queried.get(query)
        if task is None:
            task = self._queried[query] = asyncio.create_task(self._ask(query, ask), name="login/review")
            task.add_done_callback(lambda ended: self._ended(query, ended))
        return await asyncio.shield(task)

    async def aclose(self) -> None:
        """End the questions that are being asked."""
        tasks = tuple(self._queried.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _ask(self, query: K, ask: Ask[V]) -> V:
        value, seconds = await ask()
        if seconds > 0:
            self._answers[query] = value, self._clock.monotonic() + seconds
        return value

    def _ended(self, query: K, task: asyncio.Task[V]) -> None:
        self._queried.pop(query, None)
        if task.cancelled():
            return  # `aclose`: nobody has answered
        if task.exception() is not None:  # read, so that asyncio does not complain of it
            self.failures += 1
        else:
            self.fetched += 1
