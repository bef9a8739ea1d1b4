"""Answers questions about the running service in copies of its process: one fork a question.

The problem: a question costs 5 to 1,000 ms, a decision 0.1, and both would want the one event loop; a copy of 5,000
nodes and 50,000 pods made in Python costs more than the answer. The idea: `fork`. The kernel copies the page tables (a
few ms for the whole process), both sides share the pages, and the copy is exact: it computes with the same code on the
same objects, changes what it likes, and whatever it does, it has no descriptor to do it to (`forked`).

    asked -> waits for its turn -> waits until forking is allowed -> [the loop stands still: fork] -> the copy answers
                                                                                     (`answering_copy`), and is killed

What bounds the cost for the service: how many questions are worked on, and how many wait (`CopyLimits`); the share of
the loop's time that forking takes (`DUTY`), so that questions in a row wait for each other; the low priority of a copy,
and the deadline, memory and size of its answer.

Limits: POSIX. A copy shares the cgroup's CPU and memory: where the limit is near, nobody is answered.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from time import perf_counter
from typing import Final

from kscheduler.service.asking.answering_copy import AnsweringCopy, Query
from kscheduler.service.asking.memory_headroom import NO_LIMIT, MemoryHeadroom
from kscheduler.service.asking.query_errors import (
    CopyBusyError,
    CopyLimits,
    CopyRefusedError,
    CopyStoppedError,
    QueryFailedError,
)

# The share of the event loop's time that forking may take, for each question that waits: many who ask wait no longer
# than one who asks in a row.
#
# At 5,000 nodes that is a fork of 7 ms in 2.3 s for one. The pages that are copied after it cost as much again, so of
# 1,000 decisions 6 meet a fork: fewer than the 10 that make the p99.
DUTY: Final = 0.003
# After a fork, however slow it was, while one question waits.
_LONGEST_REST_SECONDS: Final = 3.0
# Time without questions that counts for later: the first few forks after it need not wait for each other.
_SAVED_SECONDS: Final = 5.0


class LiveCopies:
    """The one place that copies the process."""

    def __init__(self, room: MemoryHeadroom = NO_LIMIT, limits: CopyLimits | None = None) -> None:
        self._room, self._limits = room, limits or CopyLimits()
        self._turns = asyncio.Semaphore(self._limits.at_once)
        self._forking = asyncio.Lock()
        self._next_fork_at = 0.0
        self._stopping = asyncio.Event()
        self._alive: set[AnsweringCopy] = set()
        """Those that have not been reaped."""
        self.waiting = 0
        """How many questions wait for their turn or for their answer."""
        self.forks = 0
        self.fork_seconds = 0.0
        """How long the loop has stood still for forks, in sum."""

    async def ask(self, query: Query) -> bytes:
        """What `query` returns in a copy of the process as it is from now on. Raises `QueryFailedError`.

        It may read and change whatever it finds; the service never sees that. What needs an event loop begins its own.
        """
        if self._stopping.is_set():
            raise CopyStoppedError
        if self.waiting >= self._limits.waiting + self._limits.at_once:
            raise CopyBusyError(f"{self.waiting} questions wait already")
        self.waiting += 1
        try:
            async with AsyncExitStack() as turn:
                copy = await self._copy_in_turn(query, turn)
                return await copy.answer(self._room)
        except QueryFailedError:
            if self._stopping.is_set():
                raise CopyStoppedError from None
            raise
        finally:
            self.waiting -= 1

    def stop(self) -> None:
        """Kill the copies, and answer nobody any more: the service must not wait for an answer."""
        self._stopping.set()
        for copy in self._alive:
            copy.kill()

    async def aclose(self) -> None:
        """Stop, and see the copies end."""
        self.stop()
        if self._alive:
            await asyncio.wait([copy.end() for copy in self._alive])

    async def _copy_in_turn(self, query: Query, turn: AsyncExitStack) -> AnsweringCopy:
        """A copy, once few questions are worked on and the process may be forked; killed at the end of `turn`."""
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await turn.enter_async_context(self._turns)
                async with self._forking:
                    while not self._stopping.is_set() and (rest := self._next_fork_at - perf_counter()) > 0:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(self._stopping.wait(), rest)
                    return await self._copy(query, turn)
        except TimeoutError:
            raise CopyBusyError(f"{self.waiting - 1} questions are before it") from None

    async def _copy(self, query: Query, turn: AsyncExitStack) -> AnsweringCopy:
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[AnsweringCopy] = loop.create_future()
        turn.callback(self._end, begun)
        # In a callback, not in this task: the copy's own event loop would find the task still running.
        loop.call_soon(self._begin, query, begun)
        return await begun

    def _begin(self, query: Query, begun: "asyncio.Future[AnsweringCopy]") -> None:
        if begun.cancelled():
            return
        try:
            begun.set_result(self._forked(query))
        except Exception as failure:  # noqa: BLE001  who asks must not wait forever because of a bug here
            begun.set_exception(failure)

    def _forked(self, query: Query) -> AnsweringCopy:
        """Raises `QueryFailedError`."""
        obstacle = self._room.obstacle()
        if obstacle:
            raise CopyRefusedError(obstacle)
        if self._stopping.is_set():
            raise CopyStoppedError
        try:
            copy = AnsweringCopy(query, self._limits)
        except OSError as failure:
            raise CopyRefusedError(f"no copy of the process could be made: {failure.strerror}") from None
        self._alive.add(copy)
        self.forks += 1
        self.fork_seconds += copy.fork_seconds
        self._next_fork_at = next_fork_at(self._next_fork_at, perf_counter(), copy.fork_seconds, self.waiting)
        return copy

    def _end(self, begun: "asyncio.Future[AnsweringCopy]") -> None:
        # A client may leave before the fork (then this cancels it), or after it and before the copy was awaited.
        if not begun.cancel() and not begun.cancelled() and begun.exception() is None:
            copy = begun.result()
            copy.end().add_done_callback(lambda _: self._alive.discard(copy))


def next_fork_at(allowed: float, now: float, pause: float, waiting: int) -> float:
    """When to fork again after a fork that took `pause` seconds and was allowed from `allowed` on.

    `waiting`: how many questions wait, with the one that it was for.
    """
    return max(allowed, now - _SAVED_SECONDS) + min(pause / DUTY, _LONGEST_REST_SECONDS) / max(waiting, 1)
