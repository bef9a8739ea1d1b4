"""A copy of the process that answers questions for some seconds, as the service sees it."""

import asyncio
import os
import signal
import socket
from contextlib import suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import Final

from kscheduler.service.asking.answering_fork import (
    ANSWER,
    END,
    ENDED,
    HEAD_BYTES,
    MAX_FACTS_BYTES,
    NO_CHILD,
    NO_MEMORY,
    STALE,
    ForkedState,
    serve_queries,
)
from kscheduler.service.asking.forked import fork
from kscheduler.service.asking.memory_headroom import LOOK_SECONDS, MemoryHeadroom
from kscheduler.service.asking.query_errors import (
    CopyDiedError,
    CopyFailedError,
    CopyLimits,
    CopyRefusedError,
    CopyTimeoutError,
    ResponseTooLargeError,
    StaleCopyError,
)
from kscheduler.service.asking.reaping import reaped

# For a copy that is asked no more to end by itself. It reaps its children, which a container without an init needs.
_GRACE_SECONDS: Final = 1.0
# Bytes per read.
_AT_ONCE: Final = 1 << 20
# At a time: all that a socket holds, and no more of a long answer than the loop has time for.
_READS: Final = 8


class KeptCopy:
    """One copy of the process.

    [fork] -> asked, also about several things at once -> let go -> [no question left] -> control closed -> reaped
                                                  killed, or dead by itself ---------------------------------^
    """

    def __init__(self, number: int, state: ForkedState, limits: CopyLimits) -> None:
        """Fork. Raises `OSError`. Called in a callback of the loop: inside a task, the copy would find one running."""
        self.number = number
        self.mark, self.slow_mark = state.mark(), state.slow_mark()
        self._limits = limits
        self._queries = 0
        self.queried_at = -inf
        """When it was asked last, by `perf_counter`."""
        self._is_let_go = False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        self._control = ours
        before = perf_counter()
        try:
            with theirs:
                cpu_seconds = round(limits.seconds) + 1
                life = partial(serve_queries, state)
                self._pid = fork(life, theirs.fileno(), cpu_seconds, limits.growth_bytes)
        except OSError:
            ours.close()
            raise
        self.forked_at = perf_counter()
        """By `perf_counter`, as of when its answers are."""
        self.fork_seconds = self.forked_at - before
        self.has_ended = False
        self.ended = reaped(self._pid, self._set_ended)
        """Done when it and its children are gone."""

    @property
    def age_seconds(self) -> float:
        """How long ago it was made."""
        return perf_counter() - self.forked_at

    def let_go(self) -> None:
        """Ask it no more: it ends after the last of its questions."""
        self._is_let_go = True
        self._end_if_idle()

    def kill(self) -> None:
        """End it and its children at once."""
        if not self.has_ended:  # else the id may be another's
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)
            with suppress(ProcessLookupError):  # before it has a group of its own
                os.kill(self._pid, signal.SIGKILL)

    async def ask(self, query: bytes, facts: bytes, room: MemoryHeadroom) -> bytes:
        """The answer of a child of the copy.

        `facts`: what must be true in the copy as well; empty: anything goes. Raises `StaleCopyError`, `CopyDiedError`
        and `QueryFailedError`. Anyone who is cancelled takes the child along.
        """
        self._queries += 1
        self.queried_at = perf_counter()
        ours, theirs = socket.socketpair()
        ours.settimeout(0)
        try:
            with theirs:
                self._hand_over(facts, theirs)
            return _understood(await self._conversation(query, ours, room))
        finally:
            ours.close()
            self._queries -= 1
            if self._is_let_go:
                self._end_if_idle()

    def _hand_over(self, facts: bytes, channel: socket.socket) -> None:
        if len(facts) > MAX_FACTS_BYTES:
            raise StaleCopyError
        try:
            # A message without a byte would look like the end.
            socket.send_fds(self._control, [b"?" + facts], [channel.fileno()])
        except OSError:
            raise CopyDiedError from None

    async def _conversation(self, query: bytes, ours: socket.socket, room: MemoryHeadroom) -> bytes:
        """All that comes back, to the end of the answer or of the channel."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.seconds):
                with suppress(ConnectionError):  # then the reason has been sent, or nothing will come
                    await loop.sock_sendall(ours, query)
                    ours.shutdown(socket.SHUT_WR)
                return await self._read(ours, room)
        except TimeoutError:
            message = f"no answer within {self._limits.seconds:g} s: ask for less, or when the machine is less busy"
            raise CopyTimeoutError(message) from None

    async def _read(self, ours: socket.socket, room: MemoryHeadroom) -> bytes:
        loop, parts = asyncio.get_running_loop(), bytearray()
        ended: asyncio.Future[None] = loop.create_future()

        def on_bytes() -> None:
            # Where the other end was closed before it had read the question, uvloop calls this once and never again.
            for _ in range(_READS):
                if ended.done() or not take():
                    return

        def take() -> bool:
            try:
                part = ours.recv(_AT_ONCE)
            except (BlockingIOError, InterruptedError):
                return False
            except ConnectionError:  # closed while there was something of the question left to read
                part = b""
            parts.extend(part)
            length = int.from_bytes(parts[1:HEAD_BYTES]) if len(parts) >= HEAD_BYTES else 0
            if length > self._limits.response_bytes:
                message = f"the answer has more than {self._limits.response_bytes >> 20} MiB: ask for less"
                ended.set_exception(ResponseTooLargeError(message))
            elif not part or len(parts) > HEAD_BYTES + length:
                ended.set_result(None)
            return True

        loop.add_reader(ours, on_bytes)
        try:
            while not ended.done():
                await asyncio.wait({ended}, timeout=LOOK_SECONDS)
                if room.is_short():
                    self.kill()
                    raise CopyRefusedError("the answer needs more memory than the limit of the process leaves")
            ended.result()
        finally:
            loop.remove_reader(ours)
        return bytes(parts)

    def _end_if_idle(self) -> None:
        if self._queries or self._control.fileno() < 0:
            return
        self._control.close()
        if not self.has_ended:
            asyncio.get_running_loop().call_later(_GRACE_SECONDS, self.kill)

    def _set_ended(self) -> None:
        self.has_ended = True
        self._control.close()


def _understood(text: bytes) -> bytes:
    """The answer in what has come back."""
    length = int.from_bytes(text[1:HEAD_BYTES])
    kind, body, rest = text[:1], text[HEAD_BYTES : HEAD_BYTES + length], text[HEAD_BYTES + length :]
    if len(text) > HEAD_BYTES and rest[:1] == END:
        return _meant(kind, body)
    _, ended, code = text.rpartition(ENDED)
    if ended and code.removeprefix(b"-").isdigit():
        how = f"signal {-int(code)}" if code.startswith(b"-") else f"exit code {int(code)}"
        raise CopyFailedError(f"the child of the copy that worked on it ended without an answer ({how})")
    raise CopyDiedError


def _meant(kind: bytes, body: bytes) -> bytes:
    if kind == ANSWER:
        return body
    if kind == STALE:
        raise StaleCopyError
    if kind == NO_MEMORY:
        raise CopyRefusedError("the answer needs more memory than a copy may have")
    text = body.decode(errors="replace")
    if kind == NO_CHILD:
        raise CopyRefusedError(f"no copy of the process could be made: {text}")
    raise CopyFailedError(text)
