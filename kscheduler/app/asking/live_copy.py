"""Asks the running service by making a copy of its process: what the cache, the queue and the plugins know right now.

The problem: a question costs 5 to 1,000 ms, a decision 0.1, and both would want the one event loop; a copy of 5,000
nodes and 50,000 pods made in Python costs more than the answer. The idea: `fork`. The kernel copies the page tables (a
few ms for the whole process), both sides share the pages, and the copy is exact: it computes with the same code on the
same objects, changes what it likes, and whatever it does, it has no descriptor to do it to (`forked`).

    asked -> waits for its turn -> [the loop stands still: fork] -> the copy computes on another CPU -> pipe -> answer

One copy at a time. What bounds the cost for the service: a copy's niceness, deadline, memory and size of its answer;
how many wait for their turn; and that forking may take `DUTY` of the loop's time at most, so whoever asks in a loop
waits longer, and pods do not.

Limits: POSIX. A copy shares the cgroup's CPU and memory: where the limit is near, nobody is answered.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from kscheduler.app.asking.forked import ANSWER, HEAD_BYTES, NO_MEMORY, Question, fork
from kscheduler.app.asking.room import LOOK_SECONDS, NO_LIMIT, MemoryRoom

DUTY: Final = 0.05
"""The share of the event loop's time that forking may take."""
_LONGEST_REST_SECONDS: Final = 2.0
"""Between two forks, however slow the last one was."""
_AT_ONCE: Final = 1 << 20
"""Bytes per read."""


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """The bounds of a copy."""

    seconds: float = 10.0
    """From the fork to the end of the answer; then it is killed."""
    waiting_seconds: float = 3.0
    """How long a question waits for its turn."""
    waiting: int = 16
    """How many questions wait."""
    answer_bytes: int = 32 << 20
    growth_bytes: int = 512 << 20
    """Memory beyond what the service has."""


class NoAnswerError(Exception):
    """The question was not answered. The text says why and whom to blame."""

    outcome = "failed"
    """A word for metrics."""
    retry_after_seconds = 1


class CopyBusyError(NoAnswerError):
    """Too many questions wait already, or this one waited too long for its turn."""

    outcome = "busy"


class CopyRefusedError(NoAnswerError):
    """There is no room for a copy."""

    outcome = "refused"
    retry_after_seconds = 30


class CopyStoppedError(CopyRefusedError):
    """The service ends."""

    retry_after_seconds = 5

    def __init__(self) -> None:
        super().__init__("the service is stopping: ask again in a moment")


class CopyTimeoutError(NoAnswerError):
    """The copy was killed at its deadline."""

    outcome = "timeout"
    retry_after_seconds = 10


class CopyFailedError(NoAnswerError):
    """The copy has ended without an answer, or the question has raised: a bug, or the kernel killed it."""


class AnswerTooLargeError(NoAnswerError):
    """The answer is larger than `CopyLimits.answer_bytes`."""

    outcome = "too_large"


def _change_nothing() -> None:
    """A copy of a process without a scheduler."""


class LiveCopy:
    """The one place that copies the process. `await ask(question)` calls `question()` in a copy.

    The question may read and change whatever it finds; the service never sees it. It must not await on the service's
    loop; what needs an event loop begins one of its own (`asyncio.run`).
    """

    def __init__(
        self,
        room: MemoryRoom = NO_LIMIT,
        limits: CopyLimits | None = None,
        begin_copy: Callable[[], None] = _change_nothing,
    ) -> None:
        """`begin_copy`: called in each copy before its question."""
        self._room = room
        self._begin_copy = begin_copy
        self._limits = limits or CopyLimits()
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._is_stopping = False
        self._next_fork_at = 0.0
        self._ended: dict[int, asyncio.Future[int]] = {}
        """By process id of each copy that has not ended: its exit code to come."""
        self.fork_seconds = 0.0
        """How long the loop has stood still for copies, in sum."""
        self.forks = 0

    @property
    def waiting(self) -> int:
        """How many questions wait for their turn or for their answer."""
        return self._waiting

    async def ask(self, question: Question) -> bytes:
        """What the question returns in a copy of this moment. Raises `NoAnswerError`."""
        if self._is_stopping:
            raise CopyStoppedError
        if self._waiting > self._limits.waiting:
            raise CopyBusyError(f"{self._waiting} questions wait already")
        self._waiting += 1
        try:
            await self._come_to_turn()
            try:
                return await self._answered(question)
            finally:
                self._turn.release()
        finally:
            self._waiting -= 1

    def stop(self) -> None:
        """Kill the copy that is at work, and answer nobody any more: the service must not wait for an answer."""
        self._is_stopping = True
        self._kill()

    async def aclose(self) -> None:
        """Stop, and see the copy end."""
        self.stop()
        await self._ending()

    async def _ending(self) -> None:
        self._kill()
        if self._ended:
            await asyncio.wait(list(self._ended.values()))

    def _kill(self) -> None:
        for pid in self._ended:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def _come_to_turn(self) -> None:
        try:
            async with asyncio.timeout(self._limits.waiting_seconds):
                await self._turn.acquire()
        except TimeoutError:
            raise CopyBusyError(f"{self._waiting - 1} questions are before it") from None
        try:
            await asyncio.sleep(self._next_fork_at - perf_counter())
        except BaseException:
            self._turn.release()
            raise

    async def _answered(self, question: Question) -> bytes:
        if self._is_stopping:  # while it waited for its turn
            raise CopyStoppedError
        obstacle = self._room.obstacle()
        if obstacle:
            raise CopyRefusedError(obstacle)
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        try:
            try:
                ended = await self._forked(question, writer)
            finally:
                os.close(writer)
            text = await self._read(reader)
            return _unpacked(text, await ended)
        except NoAnswerError:
            await self._ending()
            if self._is_stopping:
                raise CopyStoppedError from None
            raise
        except BaseException:
            self._kill()
            raise
        finally:
            os.close(reader)

    async def _forked(self, question: Question, writer: int) -> "asyncio.Future[int]":
        """Fork in a callback of the loop: inside a task, the copy's own event loop would find one running.

        Returns its exit code to come.
        """
        loop = asyncio.get_running_loop()
        begun: asyncio.Future[asyncio.Future[int]] = loop.create_future()

        def in_copy() -> bytes:
            self._begin_copy()
            return question()

        def begin() -> None:
            if begun.cancelled():
                return
            if self._is_stopping:
                begun.set_exception(CopyStoppedError())
                return
            before = perf_counter()
            try:
                pid = fork(in_copy, writer, round(self._limits.seconds) + 1, self._limits.growth_bytes)
            except OSError as failure:
                begun.set_exception(CopyRefusedError(f"no copy of the process could be made: {failure.strerror}"))
                return
            pause = perf_counter() - before
            self.forks += 1
            self.fork_seconds += pause
            self._next_fork_at = perf_counter() + rest_after(pause)
            self._ended[pid] = self._reaped(pid)
            begun.set_result(self._ended[pid])

        loop.call_soon(begin)
        return await begun

    def _reaped(self, pid: int) -> "asyncio.Future[int]":
        """The exit code to come. The copy is reaped even if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def set_ended(status: int) -> None:
            self._ended.pop(pid, None)
            if not ended.done():
                ended.set_result(os.waitstatus_to_exitcode(status))

        try:
            handle = os.pidfd_open(pid)
        except OSError:  # an old kernel, or a sandbox that has no such call
            loop.run_in_executor(None, lambda: loop.call_soon_threadsafe(set_ended, os.waitpid(pid, 0)[1]))
            return ended

        def on_end() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            set_ended(os.waitpid(pid, 0)[1])

        loop.add_reader(handle, on_end)
        return ended

    async def _read(self, reader: int) -> bytes:
        loop, parts = asyncio.get_running_loop(), bytearray()
        ended: asyncio.Future[None] = loop.create_future()

        def on_bytes() -> None:
            part = os.read(reader, _AT_ONCE)
            parts.extend(part)
            if ended.done():
                return
            if not part:
                ended.set_result(None)
            elif len(parts) > self._limits.answer_bytes + HEAD_BYTES:
                message = f"the answer has more than {self._limits.answer_bytes >> 20} MiB: ask for less"
                ended.set_exception(AnswerTooLargeError(message))

        loop.add_reader(reader, on_bytes)
        try:
            async with asyncio.timeout(self._limits.seconds):
                while not ended.done():
                    await asyncio.wait({ended}, timeout=LOOK_SECONDS)
                    if self._room.is_short():
                        raise CopyRefusedError("the answer needs more memory than the limit of the process leaves")
            ended.result()
        except TimeoutError:
            message = f"no answer within {self._limits.seconds:g} s: ask for less, or when the machine is less busy"
            raise CopyTimeoutError(message) from None
        finally:
            loop.remove_reader(reader)
        return bytes(parts)


def rest_after(pause: float) -> float:
    """How long nobody forks after a fork that took `pause` seconds."""
    return min(pause / DUTY - pause, _LONGEST_REST_SECONDS)


def _unpacked(text: bytes, exit_code: int) -> bytes:
    """The answer. Raises `NoAnswerError`."""
    kind, length, body = text[:1], text[1:HEAD_BYTES], text[HEAD_BYTES:]
    if len(text) < HEAD_BYTES or len(body) != int.from_bytes(length):
        how = f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
        raise CopyFailedError(f"the copy of the process ended without an answer ({how})")
    if kind == NO_MEMORY:
        raise CopyRefusedError("the answer needs more memory than a copy may have")
    if kind != ANSWER:
        raise CopyFailedError(body.decode(errors="replace"))
    return body
