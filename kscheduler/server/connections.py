"""A guard around each connection: how many, how slow, how large.

The problem: aiohttp waits for a half-sent request as long as it would keep an idle connection, waits for ever for a
client that does not read its answer, and takes any number of connections. The idea: a protocol that stands in front of
aiohttp's, counts bytes and watches the time; the application tells it when a request begins and ends.

    accepted --> HEAD --request begins--> BUSY --answer written--> IDLE --a byte--> HEAD
    each phase has its time; when it is over, the connection is aborted, and unsent bytes with it.

When all places are taken, a new connection takes the place of the one that has been idle or half-sent the longest, so
that a probe gets through while somebody holds a hundred sockets open; only when every place is busy is it turned away.
Limits: hardly an endpoint reads a body; bodies count towards no phase but their request's.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import cast

_END_OF_HEAD = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may cost."""

    connections: int = 100
    """At the same time."""
    head_seconds: float = 10.0
    """From the first byte (or from connecting) until the request's head is complete."""
    idle_seconds: float = 75.0
    """Between an answer and the next request: above a usual scrape interval of 60 s, so that connections are reused."""
    answer_seconds: float = 30.0
    """From the request's head until the client has taken the answer."""
    head_bytes: int = 16 * 1024
    """Request line and headers together."""
    body_bytes: int = 64 * 1024
    """A body that says it is longer is refused unread."""


class Phase(Enum):
    """What a connection is waiting for."""

    HEAD = auto()
    BUSY = auto()
    IDLE = auto()


class ServedConnection(asyncio.Protocol):
    """One connection; hands everything on to aiohttp's protocol and watches it pass."""

    def __init__(self, handler: asyncio.Protocol, places: "ConnectionPlaces") -> None:
        self._handler = handler
        self._places = places
        self.transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._head_ended = False
        self._tail = b""
        self._early_bytes = False
        self.phase = Phase.HEAD

    # ---- asyncio calls these ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place, or the connection ends here."""
        self.transport = cast("asyncio.Transport", transport)
        self._enter(Phase.HEAD)
        self._handler.connection_made(transport)
        if not self._places.admit(self, transport):
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Count, and hand on."""
        if self.phase is Phase.BUSY:
            self._early_bytes = True
        else:
            if self.phase is Phase.IDLE:
                self._enter(Phase.HEAD)
            if self._is_too_large(data):
                self._refuse()
                return
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """Handed on."""
        return self._handler.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back, and hand on."""
        if self._timer is not None:
            self._timer.cancel()
        self._places.leave(self)
        self.transport = None
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        """Handed on: the client reads too slowly."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Handed on."""
        self._handler.resume_writing()

    # ---- the application calls these ----

    def request_begins(self) -> None:
        """The head is complete."""
        self._enter(Phase.BUSY)

    def request_ends(self) -> None:
        """The answer has been written."""
        self._enter(Phase.HEAD if self._early_bytes else Phase.IDLE)
        self._early_bytes = False

    def abort(self) -> None:
        """Close at once, unsent bytes included: a client that does not read could hold them for ever."""
        if self.transport is not None:
            self.transport.abort()

    def _is_too_large(self, data: bytes) -> bool:
        """Whether the head has grown too long. Past its end nothing is counted: what follows is a body."""
        if self._head_ended:
            return False
        end = (self._tail + data).find(_END_OF_HEAD)
        self._head_ended = end >= 0
        self._head_bytes += end if self._head_ended else len(data)
        self._tail = (self._tail + data)[-len(_END_OF_HEAD) + 1 :]
        return self._head_bytes > self._places.limits.head_bytes

    def _refuse(self) -> None:
        self._places.too_large += 1
        transport = self.transport
        if transport is not None:
            transport.write(_TOO_LARGE)
            transport.close()

    def _enter(self, phase: Phase) -> None:
        if self.transport is None:
            return  # lost while its request was answered
        self.phase = phase
        self._head_bytes, self._head_ended, self._tail = 0, False, b""
        self._places.changed(self)
        if self._timer is not None:
            self._timer.cancel()
        seconds = self._places.seconds_in(phase)
        self._timer = asyncio.get_running_loop().call_later(seconds, self._time_is_over)

    def _time_is_over(self) -> None:
        self._places.timed_out += 1
        self.abort()


class ConnectionPlaces:
    """All connections of a server, those first that changed their phase longest ago."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.timed_out = 0
        """Connections that were closed because their time was over."""
        self.too_large = 0
        """Connections that were closed because their head was too long."""
        self.displaced = 0
        """Connections that gave their place to a newer one, or found none."""
        self._taken: dict[asyncio.BaseTransport, ServedConnection] = {}
        self._seconds = {
            Phase.HEAD: limits.head_seconds,
            Phase.BUSY: limits.answer_seconds,
            Phase.IDLE: limits.idle_seconds,
        }

    def __len__(self) -> int:
        return len(self._taken)

    def factory(self, make_handler: Callable[[], asyncio.Protocol]) -> Callable[[], ServedConnection]:
        """For `loop.create_server`."""
        return lambda: ServedConnection(make_handler(), self)

    def of(self, transport: asyncio.BaseTransport | None) -> ServedConnection | None:
        """The connection of a request; None when it has been lost meanwhile."""
        return None if transport is None else self._taken.get(transport)

    def seconds_in(self, phase: Phase) -> float:
        """How long a connection may stay in a phase."""
        return self._seconds[phase]

    def admit(self, connection: ServedConnection, transport: asyncio.BaseTransport) -> bool:
        """Give a connection its place; False when every place is busy."""
        if len(self._taken) >= self.limits.connections:
            self.displaced += 1
            waiting = next((other for other in self._taken.values() if other.phase is not Phase.BUSY), None)
            if waiting is None:
                return False
            self.leave(waiting)
            waiting.abort()
        self._taken[transport] = connection
        return True

    def leave(self, connection: ServedConnection) -> None:
        """The connection is lost, or displaced; its place is free at once."""
        if connection.transport is not None:
            self._taken.pop(connection.transport, None)

    def changed(self, connection: ServedConnection) -> None:
        """The connection entered a phase: among those that wait it is now the newest."""
        transport = connection.transport
        if transport is not None and transport in self._taken:
            self._taken[transport] = self._taken.pop(transport)

    def abort_all(self) -> None:
        """Close whatever is left."""
        for connection in tuple(self._taken.values()):
            connection.abort()
