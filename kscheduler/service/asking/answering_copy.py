"""A copy of the process that works out one answer: what the child does, and how the service reads it.

service --fork--> child    works on the state as it is at the fork, and may change what it likes
        <--channel--       one frame: a byte that says what it is, the length in eight bytes, so many bytes
        --SIGKILL-->       after the answer, at the deadline, or when nobody waits for it any more
"""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Final

from kscheduler.service.asking.forked import fork
from kscheduler.service.asking.memory_headroom import LOOK_SECONDS, MemoryHeadroom
from kscheduler.service.asking.query_errors import (
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyTimeoutError,
    QueryFailedError,
    ResponseTooLargeError,
)

Query = Callable[[], bytes]

# The first byte of a frame.
_ANSWER: Final = b"A"
_PROBLEM: Final = b"P"
_NO_MEMORY: Final = b"M"
_HEAD_BYTES: Final = 9
# Bytes per read: all that a socket holds.
_AT_ONCE: Final = 1 << 18


class AnsweringCopy:
    """One child, as the service sees it. Its maker must call `end`."""

    def __init__(self, query: Query, limits: CopyLimits) -> None:
        """Fork. Raises `OSError`. Called outside of any task (`forked.fork`)."""
        self._limits = limits
        self._received = bytearray()
        self._exit_code: asyncio.Future[int] | None = None
        self._channel, theirs = socket.socketpair()
        self._channel.settimeout(0)
        before = perf_counter()
        try:
            with theirs:
                cpu_seconds = round(limits.seconds) + 1
                self._pid = fork(partial(_send_answer, query), theirs, cpu_seconds, limits.growth_bytes)
        except OSError:
            self._channel.close()
            raise
        self.fork_seconds = perf_counter() - before
        """How long the event loop has stood still."""

    async def answer(self, room: MemoryHeadroom) -> bytes:
        """What the child answers. Raises `QueryFailedError`."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._until_received(room)
        except TimeoutError:
            message = f"no answer within {self._limits.seconds:g} s: ask for less, or when the machine is less busy"
            raise CopyTimeoutError(message) from None
        if not self._is_whole():
            code = await asyncio.shield(self.end())
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise CopyFailedError(f"the copy of the process that worked on it ended without an answer ({how})")
        return _answer_in(bytes(self._received))

    async def _until_received(self, room: MemoryHeadroom) -> None:
        """Until the frame is whole, too large, or cut off because the child has ended."""
        loop, channel = asyncio.get_running_loop(), self._channel
        received: asyncio.Future[None] = loop.create_future()

        def on_readable() -> None:
            try:
                part = channel.recv(_AT_ONCE)
            except BlockingIOError:
                return
            self._received += part
            if not part or self._is_whole() or self._length() > self._limits.response_bytes:
                loop.remove_reader(channel)
                received.set_result(None)

        loop.add_reader(channel, on_readable)
        try:
            while not received.done():
                await asyncio.wait({received}, timeout=LOOK_SECONDS)
                if room.is_short():
                    raise CopyRefusedError("the answer needs more memory than the limit of the process leaves")
        finally:
            loop.remove_reader(channel)
        if self._length() > self._limits.response_bytes:
            message = f"the answer has more than {self._limits.response_bytes >> 20} MiB: ask for less"
            raise ResponseTooLargeError(message)

    def _length(self) -> int:
        return int.from_bytes(self._received[1:_HEAD_BYTES]) if len(self._received) >= _HEAD_BYTES else 0

    def _is_whole(self) -> bool:
        return len(self._received) >= _HEAD_BYTES + self._length()

    def kill(self) -> None:
        """End the child now: waiting for its answer then raises `CopyFailedError`."""
        if self._exit_code is None:  # else it may have been reaped, and the id be another's
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)

    def end(self) -> "asyncio.Future[int]":
        """Kill the child if it still runs, and reap it. Done, with its exit code, when it is gone."""
        if self._exit_code is None:
            self.kill()
            self._channel.close()
            # In a thread: to take down a large address space takes the kernel some milliseconds.
            self._exit_code = asyncio.get_running_loop().run_in_executor(None, _reap, self._pid)
        return self._exit_code


def _reap(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _answer_in(frame: bytes) -> bytes:
    """Raises `QueryFailedError`."""
    kind, body = frame[:1], frame[_HEAD_BYTES:]
    if kind == _ANSWER:
        return body
    raise _failure(kind, body.decode(errors="replace"))


def _failure(kind: bytes, text: str) -> QueryFailedError:
    if kind == _NO_MEMORY:
        return CopyRefusedError("the answer needs more memory than a copy may have")
    return CopyFailedError(text)


def _send_answer(query: Query, channel: socket.socket) -> None:
    """In the child."""
    try:
        kind, body = _ANSWER, query()
    except MemoryError:
        kind, body = _NO_MEMORY, b""
    except BaseException as failure:  # noqa: BLE001  the service says it, whatever it is
        kind, body = _PROBLEM, f"{type(failure).__name__}: {failure}".encode(errors="backslashreplace")
    channel.sendall(kind + len(body).to_bytes(_HEAD_BYTES - 1))
    channel.sendall(body)
