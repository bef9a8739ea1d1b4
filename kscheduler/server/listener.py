"""Accepts connections, and lets each in at its turn: a place first, then a byte, then TLS.

The problem: asyncio's server begins a TLS handshake for anyone who connects, with a quarter of a megabyte each, and
knows one TLS context for its whole life. The idea: sockets are accepted here. A connection costs a place and a file
descriptor until it has sent a byte and its turn has come (`connection_rate_limiter`); only then a transport is made,
with the TLS context of that moment. A client that opens connections and says nothing costs next to nothing.

Limits: a flood is accepted in batches with pauses, up to `_BATCH / _PAUSE_SECONDS` connections a second; what the
kernel's queue does not hold then has to connect again.
"""

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from kscheduler.server.connection_rate_limiter import ConnectionRateLimiter, Turn
from kscheduler.server.connections import ConnectionSlots, MakeHandler, Phase, ServedConnection
from kscheduler.telemetry.logs import get_logger

_log = get_logger("server")

_BACKLOG: Final = 256
_BATCH: Final = 20
_PAUSE_SECONDS: Final = 0.02
_SHUTDOWN_SECONDS: Final = 1.0
_NO_DESCRIPTOR_SECONDS: Final = 1.0
_GONE: Final = (ConnectionAbortedError, ConnectionResetError, InterruptedError)

_LISTENING_ADVICE: Final = {
    errno.EADDRINUSE: "another program listens there ({likely}?): `ss -ltnp 'sport = :{port}'` names it",
    errno.EACCES: "only root or a process with CAP_NET_BIND_SERVICE may listen at ports as low as {port}: take a "
    "higher one",
    errno.EADDRNOTAVAIL: "no interface of this machine has the address {host} (`ip addr` lists those it has)",
    errno.EAFNOSUPPORT: "this machine's kernel does not speak the address's version of IP",
}
_LISTENING_ADVICE[errno.EPERM] = _LISTENING_ADVICE[errno.EACCES]

ContextNow = Callable[[], ssl.SSLContext]
# Called with the client's address and the failure of its handshake.
NoteFailure = Callable[[str, BaseException], None]


class Address(msgspec.Struct, frozen=True):
    """Where to listen."""

    host: str
    port: int
    """0: any free port."""
    shares_port: bool = False
    """SO_REUSEPORT (`--permit-port-sharing`)."""

    def bind(self) -> socket.socket:
        """A listening socket. An unspecified address means both families, as in Go. Raises `OSError`."""
        address = ipaddress.ip_address(self.host)
        if address.is_unspecified and socket.has_dualstack_ipv6():
            try:
                return self._bind(socket.AF_INET6, "::", both_families=True)
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise  # otherwise: a kernel that knows IPv6, on a machine where it is switched off
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
        return self._bind(family, self.host, both_families=False)

    def _bind(self, family: socket.AddressFamily, host: str, *, both_families: bool) -> socket.socket:
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self.shares_port:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both_families else 1)
            opened.setblocking(False)  # noqa: FBT003  socket's own signature
            opened.bind((host, self.port))
            opened.listen(_BACKLOG)
        except OSError:
            opened.close()
            raise
        return opened


class CannotListenError(OSError):
    """A port that cannot be opened; number and text of the error are the system's."""

    def __init__(
        self, failure: OSError, address: Address, name: str, likely: str = "a kube-scheduler, or another kscheduler"
    ) -> None:
        """`name`: the port's, as in `http_server_listening`. `likely`: the programs that use such ports."""
        super().__init__(failure.errno, failure.strerror or str(failure))
        self.address = address
        self.name = name
        self._likely = likely

    @property
    def advice(self) -> str:
        """Where to look."""
        text = _LISTENING_ADVICE.get(self.errno or 0, "take another address or port")
        return text.format(host=self.address.host, port=self.address.port, likely=self._likely)


class Listener:
    """A listening socket and the connections that are on their way in."""

    def __init__(
        self,
        address: Address,
        connection_slots: ConnectionSlots,
        make_handler: MakeHandler,
        context_now: ContextNow | None,
        rate_limiter: ConnectionRateLimiter,
        note_failure: NoteFailure,
    ) -> None:
        """`context_now` `None` means plain HTTP. Raises `OSError` if the address is not available."""
        self._loop = asyncio.get_running_loop()
        self._socket = address.bind()
        self._connection_slots = connection_slots
        self._make_handler = make_handler
        self._context_now = context_now
        self._rate_limiter = rate_limiter
        self._note_failure = note_failure
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._socket, self._accept)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._socket.getsockname()[1])

    async def aclose(self) -> None:
        """Stop listening; connections that are not established are cut."""
        if self._pause is not None:
            self._pause.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        for task in tuple(self._handshakes):
            task.cancel()
        if self._handshakes:
            await asyncio.wait(tuple(self._handshakes))

    def _accept(self) -> None:
        for _ in range(_BATCH):
            try:
                accepted, peer = self._socket.accept()
            except BlockingIOError:
                return
            except _GONE:
                continue
            except OSError as error:  # mostly: too many open files
                _log.error("http_server_cannot_accept", err=error.strerror or str(error))
                self._rest(_NO_DESCRIPTOR_SECONDS)
                return
            self._take(accepted, str(peer[0]).removeprefix("::ffff:"))  # IPv4 on a socket for both families
        self._rest(_PAUSE_SECONDS)

    def _rest(self, seconds: float) -> None:
        """Accept nothing for a while, so that a flood leaves the loop to others."""
        self._loop.remove_reader(self._socket)
        self._pause = self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._socket, self._accept)

    def _take(self, accepted: socket.socket, peer: str) -> None:
        accepted.setblocking(False)  # noqa: FBT003  socket's own signature
        connection = ServedConnection(self._make_handler, self._connection_slots, peer)
        if not self._connection_slots.admit(connection):
            accepted.close()
            return
        connection.enter(Phase.HEAD)
        arrival = _Arrival(self, connection, accepted)
        connection.give_up = arrival.give_up
        self._loop.add_reader(accepted, arrival.on_byte)

    def first_byte(self, arrival: "_Arrival") -> Turn | None:
        """The client has sent something: its turn may come now or later. `None`: it has gone without a word."""
        self._loop.remove_reader(arrival.socket)
        try:
            has_byte = bool(arrival.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            has_byte = False
        if has_byte:
            return self._rate_limiter.ask(arrival.connection.peer, arrival.on_turn)
        arrival.socket.close()
        arrival.connection.end()
        return None

    def forget(self, arrival: "_Arrival") -> None:
        """The client is not waited for any longer."""
        self._loop.remove_reader(arrival.socket)
        arrival.socket.close()

    def establish(self, arrival: "_Arrival") -> asyncio.Task[None]:
        """Make the transport, with TLS where TLS is served."""
        task = self._loop.create_task(self._establish(arrival), name=f"handshake/{arrival.connection.peer}")
        self._handshakes.add(task)
        task.add_done_callback(arrival.on_end)  # also called if the task is cancelled before it has begun
        task.add_done_callback(self._handshakes.discard)
        return task

    async def _establish(self, arrival: "_Arrival") -> None:
        connection, limits = arrival.connection, self._connection_slots.limits
        try:
            if self._context_now is None:
                await self._loop.connect_accepted_socket(lambda: connection, arrival.socket)
                return
            connection.enter(Phase.HANDSHAKE)
            await self._loop.connect_accepted_socket(
                lambda: connection,
                arrival.socket,
                ssl=self._context_now(),
                ssl_handshake_timeout=limits.handshake_seconds,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except (OSError, TimeoutError) as error:  # ssl.SSLError is an OSError
            if connection.transport is None:
                self._connection_slots.not_established += 1
                self._note_failure(connection.peer, error)


class _Arrival:
    """A connection between its acceptance and its transport; one step at a time."""

    __slots__ = ("_listener", "_step", "connection", "socket")

    def __init__(self, listener: Listener, connection: ServedConnection, accepted: socket.socket) -> None:
        self._listener = listener
        self.connection = connection
        self.socket = accepted
        self._step: Turn | asyncio.Task[None] | None = None

    def on_byte(self) -> None:
        """Ask for a turn. The turn may come within the call, and then is the step already."""
        turn = self._listener.first_byte(self)
        if self._step is None:
            self._step = turn

    def on_turn(self) -> None:
        """Begin the handshake."""
        self._step = self._listener.establish(self)

    def on_end(self, _task: object) -> None:
        """The handshake has ended: without a transport nobody else closes the socket."""
        if self.connection.transport is None:
            self.socket.close()
            self.connection.end()

    def give_up(self) -> None:
        """Cut the connection; whatever step it is at."""
        if isinstance(self._step, asyncio.Task):
            self._step.cancel()
            return
        if self._step is not None:
            self._step.cancel()
        self._listener.forget(self)
