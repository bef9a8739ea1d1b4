"""The life of the answering copy: it takes questions from the service, and gives each a child of its own.

The problem: a fork of the service holds its event loop. The idea: a fork of the copy holds nobody, so the service
makes one copy and asks it for some seconds, and the copy is copied for each question. A child may change what it
likes, take its time or be killed, and the next question finds the copy as it was.

    service --control--> copy      the facts that the question is about, with one end of a channel
            <--channel-- copy      STALE where the copy does not know the facts; else a child of it gets the channel
            --channel--> child     the question, to its end
            <--channel-- child     the answer
            <--channel-- copy      how the child has ended

The service closes its end of the channel when it wants no answer any more: the child is killed. The end of the control
socket is the end of the copy and of its children. The copy reads little and changes nothing: the pages that it shares
with the service stay shared. To fork a child takes as long as to fork the copy, so the next one is made when the last
one has ended, and waits (`_Spare`).
"""

import os
import select
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from kscheduler.service.asking.forked import FIRST, fork_child, numbered_from

# The first byte of what is sent back; then the length in eight bytes, so many bytes, and `END`.
ANSWER, PROBLEM, NO_MEMORY, STALE, NO_CHILD = b"A", b"P", b"M", b"S", b"N"
HEAD_BYTES: Final = 9
# An answer that was cut off is followed by something else: `ENDED` and the child's exit code in decimal digits.
END: Final = b"Z"
ENDED: Final = b"E"
MAX_FACTS_BYTES: Final = 32 << 10
NO_FACTS: Final = b""
_AT_ONCE: Final = 1 << 16


class ForkedState(Protocol):
    """What the service knows, as a copy of its process answers about it."""

    def mark(self) -> object:
        """In the service: a copy that was made under another mark (compared with `==`) is asked no more."""
        ...

    def slow_mark(self) -> object:
        """In the service: where it is the same as at the fork, nothing has changed but what always changes."""
        ...

    def begin(self) -> None:
        """In a copy, once, before its first question."""
        ...

    def knows(self, facts: bytes) -> bool:
        """In a copy: whether what the service said of the things asked about is true here. Changes nothing."""
        ...

    def answer(self, query: bytes) -> bytes:
        """In a child of a copy. It may raise, and change what it likes."""
        ...


@dataclass(frozen=True, slots=True)
class _Child:
    pid: int
    channel: int


@dataclass(frozen=True, slots=True)
class _Spare:
    """A child that has no question yet."""

    pid: int
    life: int
    """The descriptor that ends with it."""
    hand: socket.socket
    """Gives it the channel; its end is the end of the child."""


def framed(kind: bytes, body: bytes = b"") -> bytes:
    """A message as it stands in a channel."""
    return kind + len(body).to_bytes(HEAD_BYTES - 1) + body + END


def serve_queries(state: ForkedState, free: int) -> None:
    """Answer anyone who asks through descriptor 3, until it is closed. `free`: as for `forked.fork`."""
    with socket.socket(fileno=FIRST) as control:
        state.begin()
        _Answering(state, control, free).run()


class _Answering:
    def __init__(self, state: ForkedState, control: socket.socket, free: int) -> None:
        self._state, self._control, self._free = state, control, free
        self._children: dict[int, _Child] = {}
        """By the descriptor that ends with the child: it has the other end of this pipe, and nobody else."""
        self._spare: _Spare | None = None
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)

    def run(self) -> None:
        if not self._poll.poll(0):
            self._have_spare()
        while True:
            # One at a time: what it closes and opens may give a number that stands further back another meaning.
            descriptor, _ = self._poll.poll()[0]
            if descriptor == self._control.fileno():
                if not self._take():
                    self._end()
                    return
            elif descriptor in self._children:
                self._reap(descriptor)
            elif self._spare is not None and descriptor == self._spare.life:
                self._lose_spare()
            else:  # the service has closed a channel
                self._abandon(descriptor)

    def _take(self) -> bool:
        """Take the next question; False at the end of the control socket."""
        facts, channels, _, _ = socket.recv_fds(self._control, MAX_FACTS_BYTES + 1, 1)
        if not facts:
            return False
        for received in channels:
            channel = numbered_from(self._free, received)
            # Of a closed channel no more than POLLHUP is of interest, and that is always told.
            self._poll.register(channel, 0)
            self._begin(channel, facts[1:])
        return True

    def _begin(self, channel: int, facts: bytes) -> None:
        if facts and not self._state.knows(facts):
            self._close(channel, framed(STALE))
            return
        try:
            child = self._given(channel)
        except OSError as failure:
            self._close(channel, framed(NO_CHILD, (failure.strerror or "").encode()))
            return
        child.hand.close()
        self._children[child.life] = _Child(child.pid, channel)

    def _given(self, channel: int) -> _Spare:
        """A child that has got the channel. Raises `OSError`."""
        while True:
            has_waited = self._spare is not None
            spare = self._spare = self._spare or self._forked()
            try:
                socket.send_fds(spare.hand, [b"?"], [channel])
            except OSError:  # somebody has killed it
                self._lose_spare()
                if not has_waited:
                    raise
            else:
                self._spare = None
                return spare

    def _forked(self) -> _Spare:
        """Raises `OSError`."""
        alive, life = os.pipe()
        hand, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            life = numbered_from(self._free, life)
            taken = numbered_from(self._free, theirs.detach())
            try:
                pid = fork_child(lambda: _response(self._state.answer), taken, life)
            finally:
                os.close(taken)
        except OSError:
            os.close(alive)
            hand.close()
            raise
        finally:
            with suppress(OSError):
                os.close(life)
        self._poll.register(alive, select.POLLIN)
        return _Spare(pid, alive, hand)

    def _have_spare(self) -> None:
        """Called where nobody waits for it."""
        if self._spare is None and not self._children:
            with suppress(OSError):  # the next question tells it
                self._spare = self._forked()

    def _lose_spare(self) -> None:
        """Somebody has killed it; the next question has a child made for it."""
        spare, self._spare = self._spare, None
        if spare is not None:
            self._forget(spare.life)
            spare.hand.close()
            os.waitpid(spare.pid, 0)

    def _reap(self, alive: int) -> None:
        child = self._children.pop(alive)
        self._forget(alive)
        _, status = os.waitpid(child.pid, 0)
        self._close(child.channel, ENDED + str(os.waitstatus_to_exitcode(status)).encode())
        self._have_spare()

    def _forget(self, alive: int) -> None:
        self._poll.unregister(alive)
        os.close(alive)

    def _abandon(self, channel: int) -> None:
        self._poll.unregister(channel)  # else it would be told again and again
        for child in self._children.values():
            if child.channel == channel:
                os.kill(child.pid, signal.SIGKILL)  # not reaped yet, so the id is still the child's

    def _close(self, channel: int, last_words: bytes) -> None:
        with suppress(KeyError):
            self._poll.unregister(channel)
        with suppress(OSError):  # the service may have gone
            os.write(channel, last_words)
        os.close(channel)

    def _end(self) -> None:
        pids = [child.pid for child in self._children.values()]
        if self._spare is not None:
            pids.append(self._spare.pid)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def _response(answer: Callable[[bytes], bytes]) -> None:
    """The life of a child, which gets its channel through descriptor 3."""
    with socket.socket(fileno=FIRST) as hand:
        _, channels, _, _ = socket.recv_fds(hand, 1, 1)
    if not channels:  # the copy has ended
        return
    (channel,) = channels
    query = bytearray()
    while part := os.read(channel, _AT_ONCE):
        query += part
    kind, body = _outcome(answer, bytes(query))
    left = memoryview(framed(kind, body))
    while left:
        left = left[os.write(channel, left) :]


def _outcome(answer: Callable[[bytes], bytes], query: bytes) -> tuple[bytes, bytes]:
    try:
        return ANSWER, answer(query)
    except MemoryError:
        return NO_MEMORY, b""
    except BaseException as failure:  # noqa: BLE001  the service tells it, whatever it is
        return PROBLEM, f"{type(failure).__name__}: {failure}".encode(errors="backslashreplace")
