"""A guard on each connection, with limits for number, time and size.

The problem: aiohttp waits for a half-sent request as long as it would keep an idle connection, waits forever for a
client that does not read its answer, and accepts any number of connections. The idea: a connection has a place from the
moment it is accepted, before TLS has cost anything; a protocol in front of aiohttp's counts bytes and time; the
application says when a request begins and ends.

    accepted --a byte--> its turn --> HANDSHAKE (TLS only) --> HEAD --request begins--> BUSY --answer written--> IDLE
    IDLE --a byte--> HEAD;  each phase has a time limit; after it the connection is cut, with its unsent bytes.

When all places are taken, a new connection replaces one: the one that has been idle the longest, which has had its
answer, and if none is idle the one that has been half-sent the longest. So a probe gets through while a client holds a
hundred sockets open; it is refused only if every place is busy. The address with most connections gives a place up
first, and no address has more than a part of them. Requests that are not for health checks may be busy in half of the
places only: the other half is the reserve of probes.

One address may hold more connections than there are requests answered at a time: a client with forty questions at once
is told of the last eight that they are too many (429), and can ask again; cut off, it would not know. Limits: a
connection without a place is cut without a word, since over TLS each word costs a handshake; a body counts towards its
request's time only, and hardly an endpoint reads one.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import cast

import msgspec

_END_OF_HEAD = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

# Makes aiohttp's protocol for a connection that is established.
MakeHandler = Callable[[], asyncio.Protocol]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits for clients."""

    connections: int = 64
    """Connections at the same time. One over TLS takes up to 0.3 MiB, so all of them stay below 20 MiB."""
    connections_per_address: int = 48
    """Of one client address, which may be a proxy for many. Above `busy_requests`, so that one address alone reaches
    that limit, which is answered, before this one, which cuts."""
    turns_per_second: float = 25.0
    """TLS handshakes, and further requests on a connection, in all; see `connection_rate_limiter`."""
    turns_at_once: int = 50
    """How many of them may come in a burst."""
    handshake_seconds: float = 10.0
    """From the first byte until TLS is established, the wait for a turn aside."""
    head_seconds: float = 10.0
    """From the first byte, or from connecting, to the complete head of the request."""
    idle_seconds: float = 75.0
    """Between an answer and the next request; above the usual scrape interval of 60 s, so that connections are
    reused."""
    answer_seconds: float = 30.0
    """From the request's head until the client has taken the answer."""
    stream_seconds: float = 120.0
    """The same for answers that are sent in parts: resources by pod, dumps, profiles."""
    head_bytes: int = 16 * 1024
    """Of request line and headers together."""
    body_bytes: int = 64 * 1024
    """A request with a larger Content-Length is refused unread."""

    @property
    def busy_requests(self) -> int:
        """How many requests may be answered at a time, health checks aside."""
        return max(1, self.connections // 2)


class Phase(Enum):
    """What a connection is doing."""

    HANDSHAKE = auto()
    HEAD = auto()
    BUSY = auto()
    IDLE = auto()


class ServedConnection(asyncio.Protocol):
    """A connection; passes all calls on to aiohttp's protocol and enforces the limits."""

    def __init__(self, make_handler: MakeHandler, connection_slots: "ConnectionSlots", peer: str) -> None:
        self._make_handler = make_handler
        self._handler: asyncio.Protocol | None = None
        self._connection_slots = connection_slots
        self.peer = peer
        """The client's address."""
        self.transport: asyncio.Transport | None = None
        self.give_up: Callable[[], None] = _nothing
        """Ends what goes on before there is a transport: the wait for a byte or a turn, the handshake."""
        self.identity: object = None
        """What `access` has found out about the client's certificate, once it `is_identified`."""
        self.is_identified = False
        self.was_used = False
        """Whether a request has begun on it."""
        self._timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._head_ended = False
        self._tail = b""
        self._early_bytes = False
        self._is_over = False  # its place is free again
        self.phase = Phase.HEAD

    # ---- asyncio calls these ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client can send its request: TLS is established, or plain HTTP is served."""
        self.transport = cast("asyncio.Transport", transport)
        self.give_up = _nothing
        self._handler = self._make_handler()
        self._handler.connection_made(transport)
        if self._is_over:  # its place was taken away in the last moment of the handshake
            self.abort()
            return
        self._connection_slots.established(self, transport)
        self.enter(Phase.HEAD)

    def data_received(self, data: bytes) -> None:
        """Count, and pass on."""
        if self.phase is Phase.BUSY:
            self._early_bytes = True
        else:
            if self.phase is Phase.IDLE:
                self.enter(Phase.HEAD)
            if self._is_too_large(data):
                self._refuse()
                return
        if self._handler is not None:
            self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._handler is None else self._handler.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place, and pass on."""
        self.end()
        self.transport = None
        if self._handler is not None:
            self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        """Passed on: the client reads too slowly."""
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    # ---- the listener and the application call these ----

    def request_begins(self) -> None:
        """The head is complete."""
        self.enter(Phase.BUSY)

    def request_ends(self) -> None:
        """The answer has been written."""
        self.enter(Phase.HEAD if self._early_bytes else Phase.IDLE)
        self._early_bytes = False

    def is_streaming(self) -> None:
        """The answer comes in parts, and may take longer."""
        if self.phase is Phase.BUSY:
            self._allow(self._connection_slots.limits.stream_seconds)

    def end(self) -> None:
        """The connection is lost or has never come about: free its place."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._connection_slots.leave(self)

    def abort(self) -> None:
        """Close at once and drop unsent bytes: a client that does not read could hold them forever."""
        if self.transport is not None:
            self.transport.abort()
        else:
            self.end()
            self.give_up()

    def _is_too_large(self, data: bytes) -> bool:
        """Whether the head is too long. Bytes after its end are not counted: they are a body."""
        if self._head_ended:
            return False
        end = (self._tail + data).find(_END_OF_HEAD)
        self._head_ended = end >= 0
        self._head_bytes += end if self._head_ended else len(data)
        self._tail = (self._tail + data)[-len(_END_OF_HEAD) + 1 :]
        return self._head_bytes > self._connection_slots.limits.head_bytes

    def _refuse(self) -> None:
        self._connection_slots.too_large += 1
        transport = self.transport
        if transport is not None:
            transport.write(_TOO_LARGE)
            transport.close()

    def enter(self, phase: Phase) -> None:
        """Begin a phase and its time."""
        if self._is_over:
            return  # lost while its request was answered
        self.phase = phase
        self._head_bytes, self._head_ended, self._tail = 0, False, b""
        self._connection_slots.changed(self)
        self._allow(self._connection_slots.seconds_in(phase))

    def _allow(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_timeout)

    def _on_timeout(self) -> None:
        self._connection_slots.timed_out += 1
        self.abort()


class ConnectionSlots:
    """All connections of a server, in the order of their last change of phase."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.timed_out = 0
        """Connections closed because a phase took too long."""
        self.too_large = 0
        """Connections closed because the head was too long."""
        self.displaced = 0
        """Connections that were replaced by a newer one, or found no place."""
        self.not_established = 0
        """Connections whose TLS handshake failed."""
        self.busy_requests = 0
        """Requests that are being answered, health checks aside."""
        self.refused_requests = 0
        """Requests that were refused because too many were being answered."""
        self._taken: dict[ServedConnection, None] = {}
        self._by_transport: dict[asyncio.BaseTransport, ServedConnection] = {}
        self._by_address: Counter[str] = Counter()
        self._seconds = {
            Phase.HANDSHAKE: limits.handshake_seconds,
            Phase.HEAD: limits.head_seconds,
            Phase.BUSY: limits.answer_seconds,
            Phase.IDLE: limits.idle_seconds,
        }

    def __len__(self) -> int:
        return len(self._taken)

    def of(self, transport: asyncio.BaseTransport | None) -> ServedConnection | None:
        """The connection of a request; `None` if it has been lost."""
        return None if transport is None else self._by_transport.get(transport)

    def seconds_in(self, phase: Phase) -> float:
        """How long a connection may stay in a phase."""
        return self._seconds[phase]

    def admit(self, connection: ServedConnection) -> bool:
        """Give a connection a place; False if every place, or every place of its address, is busy."""
        of_address = self._by_address[connection.peer] >= self.limits.connections_per_address
        if of_address or len(self._taken) >= self.limits.connections:
            self.displaced += 1
            waiting = self._replaceable(connection.peer, of_address=of_address)
            if waiting is None:
                return False
            self.leave(waiting)
            waiting.abort()
        self._taken[connection] = None
        self._by_address[connection.peer] += 1
        return True

    @contextmanager
    def answering(self, *, is_probe: bool) -> Iterator[bool]:
        """A request is being answered; yields whether it may be, or is one too many."""
        if is_probe:
            yield True
            return
        if self.busy_requests >= self.limits.busy_requests:
            self.refused_requests += 1
            yield False
            return
        self.busy_requests += 1
        try:
            yield True
        finally:
            self.busy_requests -= 1

    def _replaceable(self, newcomer: str, *, of_address: bool) -> ServedConnection | None:
        """Who gives its place up: of the newcomer's address, or of the address that has most; then of all.

        A flood so replaces its own connections, and not that of a probe which waits for its turn.
        """
        address = newcomer if of_address else max(self._by_address, key=lambda one: self._by_address[one])
        waiting = self._longest_waiting(address)
        return waiting if waiting is not None or of_address else self._longest_waiting(None)

    def _longest_waiting(self, address: str | None) -> ServedConnection | None:
        """Of an address, or of all; `None` if all are busy. Who is idle has had an answer, and loses none."""
        idle_client = None
        for known in self._taken:
            if address is not None and known.peer != address:
                continue
            if known.phase is Phase.IDLE:
                return known
            if idle_client is None and known.phase is not Phase.BUSY:
                idle_client = known
        return idle_client

    def established(self, connection: ServedConnection, transport: asyncio.BaseTransport) -> None:
        """The connection has a transport, by which its requests will be known."""
        self._by_transport[transport] = connection

    def leave(self, connection: ServedConnection) -> None:
        """The connection is lost or replaced: free its place."""
        if connection.transport is not None:
            self._by_transport.pop(connection.transport, None)
        if connection in self._taken:
            del self._taken[connection]
            self._by_address[connection.peer] -= 1
            if not self._by_address[connection.peer]:
                del self._by_address[connection.peer]

    def changed(self, connection: ServedConnection) -> None:
        """The connection entered a phase: it is now the last in the order of replacement."""
        if connection in self._taken:
            del self._taken[connection]
            self._taken[connection] = None

    def abort_all(self) -> None:
        """Close all remaining connections."""
        for connection in tuple(self._taken):
            connection.abort()


def _nothing() -> None:
    """Nothing has to be given up."""
