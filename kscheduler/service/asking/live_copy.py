"""Asks the running service by making a copy of its process: what the cache, the queue and the plugins know.

The problem: a question costs 5 to 1,000 ms, a decision 0.1, and both would want the one event loop; a copy of 5,000
nodes and 50,000 pods made in Python costs more than the answer. The idea: `fork`. The kernel copies the page tables (a
few ms for the whole process), both sides share the pages, and the copy is exact: it computes with the same code on the
same objects, changes what it likes, and whatever it does, it has no descriptor to do it to (`forked`).

    asked -> waits for its turn -> a copy that is young enough and knows what is asked about? -> a child of it answers
                                   `-> no: [the loop stands still: fork], and that copy is kept for the next questions

Even a few ms are long beside a decision, and after them each page that the service writes is copied once. So a copy
answers for as long as forking takes `DUTY` of the loop's time; for a shorter time, as `CHANGED_DUTY` allows, once
something else than pods has changed, and where the question is about all pods. It is replaced before that where the
service has moved on in what the question is about (`ForkedState`), but then, too, no more often than `MAX_DUTY`
allows: anyone who asks in a loop about what changes waits longer, and pods do not. Where questions come again and
again, the next copy is made at the end of the last one's life, and not when somebody asks and would wait for it. A copy
that dies harms nobody: who was asking asks the next.

What else bounds the cost for the service: the niceness of a copy and its children, deadline, memory and size of each
answer (`CopyLimits`); how many questions are worked on, and how many wait.

Limits: POSIX. A copy shares the cgroup's CPU and memory: where the limit is near, nobody is answered.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from kscheduler.service.asking.answering_fork import NO_FACTS, ForkedState
from kscheduler.service.asking.kept_copy import KeptCopy
from kscheduler.service.asking.memory_headroom import NO_LIMIT, MemoryHeadroom
from kscheduler.service.asking.query_errors import (
    CopyBusyError,
    CopyDiedError,
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyStoppedError,
    CopyTimeoutError,
    QueryFailedError,
    StaleCopyError,
)

# The share of the event loop's time that forking takes, while nothing changes but pods, and the copies know what they
# are asked about.
#
# At 5,000 nodes a fork of 7 ms serves 7 s. The pages that are copied after it cost as much again, so of 1,000 decisions
# 2 meet a copy: few beside the 10 that make the p99.
DUTY: Final = 0.001
# Of a copy, however slow its fork was.
LONGEST_LIFE_SECONDS: Final = 10.0
# The same where a node, a claim or anything else has changed that is no pod: who tries what helps is not told for long
# what was before. At 5,000 nodes a copy then serves 2.3 s.
CHANGED_DUTY: Final = 0.003
# Of a copy, after such a change, however slow its fork was.
LONGEST_CHANGED_SECONDS: Final = 3.0
# A copy that was asked so short a time before the end of its life is followed by another at once.
_RENEWED_SECONDS: Final = 3.0
# The share of the event loop's time that forking may take, whatever is asked.
MAX_DUTY: Final = 0.05
# Between two forks, however slow the last one was.
_LONGEST_REST_SECONDS: Final = 2.0
# Between two looks at the memory while nobody asks: a copy then grows only as the service changes pages, 32 MB in all
# at 5,000 nodes, and a look costs the loop a tenth of a millisecond.
_IDLE_LOOK_SECONDS: Final = 0.5
# Copies that die while one question is asked, before that is called the question's fault.
_MAX_DEATHS: Final = 2


@dataclass(frozen=True, slots=True)
class LiveResponse:
    """What a copy has answered."""

    body: bytes
    age_seconds: float
    """How old the state is that it tells."""
    is_older_than_query: bool
    """Whether the copy was there before the question."""


class LiveCopy:
    """The one place that copies the process. `await ask(question)` calls `state.answer(question)` in a child of a copy.

    The answer may read and change whatever it finds; the service never sees it. It must not await on the service's
    loop; what needs an event loop begins one of its own (`asyncio.run`).
    """

    def __init__(self, state: ForkedState, room: MemoryHeadroom = NO_LIMIT, limits: CopyLimits | None = None) -> None:
        self._state, self._room = state, room
        self._limits = limits or CopyLimits()
        self._turns = asyncio.Semaphore(self._limits.at_once)
        self._choosing = asyncio.Lock()
        self._waiting = 0
        self._is_stopping = False
        self._next_fork_at = 0.0
        self._current: KeptCopy | None = None
        """The copy that is asked next."""
        self._alive: set[KeptCopy] = set()
        """Those that have not been reaped."""
        self.fork_seconds = 0.0
        """How long the loop has stood still for copies, in sum."""
        self.forks = 0

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn or for their answer."""
        return self._waiting

    async def ask(self, query: bytes, facts: bytes = NO_FACTS, *, fresh: bool = False) -> LiveResponse:
        """The answer of a copy in which `facts` are true, or of one made from now on. Raises `QueryFailedError`.

        Without facts the question is about the cluster with all its pods, which always change.
        `fresh`: only of one made from now on.
        """
        if self._is_stopping:
            raise CopyStoppedError
        if self._waiting >= self._limits.waiting + self._limits.at_once:
            raise CopyBusyError(f"{self._waiting} questions wait already")
        self._waiting += 1
        try:
            async with self._turn():
                return await self._answered(query, facts, fresh=fresh)
        except QueryFailedError:
            if self._is_stopping:
                raise CopyStoppedError from None
            raise
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Kill the copies, and answer nobody any more: the service must not wait for an answer."""
        self._is_stopping = True
        for copy in self._alive:
            copy.kill()

    async def aclose(self) -> None:
        """Stop, and see the copies end."""
        self.stop()
        if self._alive:
            await asyncio.wait([copy.ended for copy in self._alive])

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise CopyBusyError(f"{self._waiting - 1} questions are before it") from None
        try:
            yield
        finally:
            self._turns.release()

    async def _answered(self, query: bytes, facts: bytes, *, fresh: bool) -> LiveResponse:
        youngest = self.forks
        """Copies with a larger number are younger than the question: they need not be asked whether they know."""
        least = youngest + 1 if fresh else 0
        deaths = 0
        while True:
            copy = await self._chosen(least, of_cluster=not facts)
            try:
                is_older = copy.number <= youngest
                body = await copy.ask(query, facts if is_older else NO_FACTS, self._room)
                return LiveResponse(body, copy.age_seconds, is_older)
            except StaleCopyError:
                pass
            except CopyTimeoutError:
                self._let_go(copy)  # if not the question but the copy is stuck, the next one finds another
                raise
            except CopyDiedError:
                deaths += 1
                if deaths == _MAX_DEATHS:
                    message = f"{deaths} copies of the process died, one after the other, while they were asked"
                    raise CopyFailedError(message) from None
            least = copy.number + 1

    async def _chosen(self, least: int, *, of_cluster: bool) -> KeptCopy:
        """A copy with at least this number, which is young enough; made if there is none."""
        copy = self._usable(least, of_cluster=of_cluster)  # without waiting for those who need another one
        if copy is not None:
            return copy
        async with self._choosing:  # else all that wait would fork
            copy = self._usable(least, of_cluster=of_cluster)
            if copy is not None:
                return copy
            await asyncio.sleep(self._next_fork_at - perf_counter())
            return await self._forked()

    def _usable(self, least: int, *, of_cluster: bool) -> KeptCopy | None:
        """The copy that is there, if it may be asked. Raises `QueryFailedError` where nobody may be asked."""
        if self._is_stopping:  # while it waited for its turn
            raise CopyStoppedError
        obstacle = self._room.obstacle()
        if obstacle:
            self._let_go(self._current)
            raise CopyRefusedError(obstacle)
        copy = self._current
        if copy is None or copy.number < least or copy.has_ended or copy.mark != self._state.mark():
            return None
        return copy if self._left(copy, of_cluster=of_cluster) > 0 else None

    def _left(self, copy: KeptCopy, *, of_cluster: bool = False) -> float:
        """How long the copy may still be asked, in seconds; `of_cluster`: where the answer is about all pods."""
        has_changed = of_cluster or copy.slow_mark != self._state.slow_mark()
        return life_after(copy.fork_seconds, has_changed=has_changed) - copy.age_seconds

    async def _forked(self) -> KeptCopy:
        """Fork in a callback of the loop: inside a task, the copy's own event loop would find one running."""
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[KeptCopy] = loop.create_future()

        def begin() -> None:
            if begun.cancelled():
                return
            if self._is_stopping:
                begun.set_exception(CopyStoppedError())
                return
            try:
                begun.set_result(self._made())
            except OSError as failure:
                begun.set_exception(CopyRefusedError(f"no copy of the process could be made: {failure.strerror}"))
            except Exception as failure:  # noqa: BLE001  who asks must not wait forever because of a bug here
                begun.set_exception(failure)

        loop.call_soon(begin)
        return await begun

    def _made(self) -> KeptCopy:
        self._let_go(self._current)
        copy = self._current = KeptCopy(self.forks + 1, self._state, self._limits)
        self.forks += 1
        self.fork_seconds += copy.fork_seconds
        self._next_fork_at = perf_counter() + rest_after(copy.fork_seconds)
        self._alive.add(copy)
        copy.ended.add_done_callback(lambda _: self._alive.discard(copy))
        self._look_after(copy)
        return copy

    def _look_after(self, copy: KeptCopy) -> None:
        """Let the copy go when it has become too old, and see that it does not use up the memory until then."""
        if copy.has_ended or copy is not self._current:
            return
        if self._room.is_short():
            copy.kill()
            return
        left = self._left(copy)
        if left <= 0:
            self._let_go(copy)
            if perf_counter() - copy.queried_at < _RENEWED_SECONDS:
                self._renew()
            return
        asyncio.get_running_loop().call_later(min(left, _IDLE_LOOK_SECONDS), self._look_after, copy)

    def _renew(self) -> None:
        """Make the next copy before somebody asks; anyone who asks makes one where this cannot."""
        may_fork = perf_counter() >= self._next_fork_at and not self._choosing.locked()
        if may_fork and not self._is_stopping and not self._room.obstacle():
            with suppress(OSError):
                self._made()

    def _let_go(self, copy: KeptCopy | None) -> None:
        if copy is None:
            return
        if copy is self._current:
            self._current = None
        copy.let_go()


def life_after(pause: float, *, has_changed: bool) -> float:
    """How long a copy answers whose fork has taken `pause` seconds; `has_changed`: something else than pods."""
    if has_changed:
        return min(pause / CHANGED_DUTY, LONGEST_CHANGED_SECONDS)
    return min(pause / DUTY, LONGEST_LIFE_SECONDS)


def rest_after(pause: float) -> float:
    """How long nobody forks after a fork that took `pause` seconds."""
    return min(pause / MAX_DUTY - pause, _LONGEST_REST_SECONDS)
