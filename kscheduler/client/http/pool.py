"""Connections to one server that are kept open, each with one request or pipeline at a time (`http1` has the protocol).

    request --> an idle connection, the one used last --> write --> the parser fed until the answer is whole
           '--> or a new one: addresses, TCP, TLS                  '--> idle again, or closed if the server says so

Where pipelines are wanted, in a storm, requests that may join others (`pipelining`) wait for the end of the event
loop's turn, and then leave several at a time over idle connections. Without one, each opens its own.

What a failure means depends on when it happened. Before a byte was written it is `NotSentError`. After that any failure
(a reset, a close by the server that crossed our request, a cut answer, a timeout) leaves the outcome unknown, also on a
reused connection: a server that closed an idle connection looks the same as one that died while handling our request.
So nothing is sent twice here; the caller knows what may be repeated.

When a request is cancelled or times out its connection is closed: an answer that still comes would have no request.
(One of a pipeline that is cancelled has its answer dropped; one that times out takes those behind it with it.)
One timer serves all deadlines, and closes connections that have been idle for `IDLE_SECONDS`.
Limit: the number of connections is not bounded here. It never exceeds the requests in flight, which the caller bounds.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import aiohappyeyeballs
from yarl import URL

from kscheduler.client.access.connection import Connection
from kscheduler.client.errors import CredentialsError, FencedError, NotSentError
from kscheduler.client.failure_text import failure_text
from kscheduler.client.http.http1 import (
    HttpRequest,
    MalformedResponseError,
    Response,
    ResponseParser,
    UnsendableError,
    header_lines,
    request_bytes,
)
from kscheduler.client.http.pipelining import BUSY, Pipeline, Pipelining, ReadyRequest
from kscheduler.client.http.resolver import Addresses, ConnectionNews
from kscheduler.client.http.transport import CONNECT_SECONDS, USER_AGENT, check_may_leave, open_socket, reset_on_close

# kube-apiserver closes after 90 s; closing first means never writing into a connection that is being closed.
IDLE_SECONDS: Final = 60.0
# RFC 8305: after this delay the second address is tried as well.
_SECOND_ADDRESS_SECONDS: Final = 0.25
_CLOSE_SECONDS: Final = 1.0
_CLOSED: Final = "the client is being closed"
_CLOSED_BEFORE_THE_REST: Final = "the server closed the connection before it answered the rest of a pipeline"
_CLOSED_AT_ONCE: Final = "the server closed the connection at once"


class HTTPPool:
    """The connections to a `Connection`'s server."""

    def __init__(
        self,
        connection: Connection,
        *,
        idle_seconds: float = IDLE_SECONDS,
        may_write: Callable[[], bool] | None = None,
        addresses: Addresses | None = None,
        news: ConnectionNews | None = None,
        pipelining: Pipelining | None = None,
        busy: int = BUSY,
    ) -> None:
        """Opens nothing yet; is made where the event loop runs. Connections idle for `idle_seconds` are closed.

        `addresses`: of the server, where others ask for them, too. `news` hears of connections that are made.

        `may_write` is asked in the instant before a write leaves. Connections with it are reset when they are closed,
        so that the kernel sends nothing more of a process that has ended.

        `pipelining`: requests may leave together while at least `busy` are under way. By default never.
        """
        url = URL(connection.base_url)
        # It stays the same; in Python 3.11 each question costs a system call (`getpid`).
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        self._may_write = may_write
        self.idle_seconds = idle_seconds
        self._host = url.raw_host or ""
        self._port = url.port or 80
        self._prefix = url.raw_path.rstrip("/")
        self._is_tls = url.scheme == "https"
        self._contexts = connection.contexts if self._is_tls else None
        self._host_field = url.host_port_subcomponent or ""
        self._identity: Mapping[str, str] | None = None
        self._lines = ""
        self._news = news
        self._addresses = addresses or Addresses(news)
        self._pipelining = pipelining or Pipelining(1)
        self._busy = busy
        self._ready: dict[str, list[ReadyRequest]] = {}
        """Requests that leave at the end of this turn, by what they say of whom they may join."""
        self.under_way = 0
        """Requests that were sent and are not answered."""
        self._open: set[HTTPConnection] = set()
        self._idle: deque[HTTPConnection] = deque()
        self._default_context: ssl.SSLContext | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = float("inf")
        """When `_check` is called next, in seconds of the loop's clock."""
        self._connection_ended: asyncio.Event | None = None
        """Created when the pool is being closed; set each time a connection has ended."""

    @staticmethod
    def can_serve(connection: Connection) -> bool:
        """Whether the pool supports this connection: no proxy, no password in the URL."""
        url = URL(connection.base_url)
        return connection.proxy is None and url.raw_user is None and url.raw_password is None and bool(url.raw_host)

    @property
    def connections(self) -> int:
        """The number of open connections, idle ones included."""
        return len(self._open)

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        """Send and return the answer, whatever its status. `identity`: the headers that authenticate.

        Raises `NotSentError`, `CredentialsError` and `FencedError` if nothing was sent for certain; `OSError`,
        `TimeoutError` and `MalformedResponseError` if the request may have been sent.
        """
        if identity is not self._identity:
            self._take_identity(identity)
        data = request_bytes(request, self._lines, self._prefix)
        deadline = self._loop.time() + timeout_seconds
        if request.joins and self.under_way >= self._busy and self._pipelining.is_wanted:
            response = await self._leave_together(ReadyRequest(request, data, deadline, self._loop.create_future()))
            if response is not None:
                return response
        context = self._default() if self._contexts is None else self._contexts.context()
        connection = None if request.is_fresh else self._take(context)
        if connection is None:
            connection = await self._connect(context, timeout_seconds)
        # From here on nothing is awaited until the request has been written.
        if self._may_write is not None:
            try:
                check_may_leave(request, self._may_write)
            except FencedError:
                self.idle(connection)
                raise
        answer = connection.begin(data, deadline, request)
        if connection.ends_at < self._sweep_at:
            self._sweep_by(connection.ends_at)
        try:
            return await answer
        finally:
            if connection.awaited is answer:  # cancelled
                connection.awaited = None
                self.under_way -= 1
                connection.abort()

    def _leave_together(self, ready: ReadyRequest) -> "asyncio.Future[Response | None]":
        """Its answer to come, or `None` if it must leave alone. The others of this turn come before it is sent."""
        if not self._ready:
            self._loop.call_soon(self._send_ready)
        self._ready.setdefault(ready.request.joins, []).append(ready)
        return ready.answer

    def _send_ready(self) -> None:
        """The turn is over: all that became ready in it leaves, as far as there are idle connections."""
        queued, self._ready = self._ready, {}
        now = self._loop.time()
        for all_ready in queued.values():
            ready = [one for one in all_ready if not one.answer.done()]  # the others were cancelled
            for pipeline in self._pipelining.split(ready, now) if ready else ():
                if len(pipeline) == 1 or not self._send_pipeline(pipeline):
                    for one in pipeline:
                        one.answer.set_result(None)

    def _send_pipeline(self, pipeline: list[ReadyRequest]) -> bool:
        """Whether there was an idle connection for it. Nothing is awaited between the fence and the write."""
        context = self._default() if self._contexts is None else self._contexts.context()
        connection = self._take(context)
        if connection is None:
            return False
        if self._may_write is not None and not self._may_write():
            self.idle(connection)
            for one in pipeline:  # all are writes, or nothing says what they may join
                one.answer.set_exception(FencedError(f"{one.request.method} {one.request.target}"))
            return True
        began = self._pipelining.began(pipeline[0].request.joins, len(pipeline), self._loop.time())
        connection.begin_pipeline(pipeline, began)
        if connection.ends_at < self._sweep_at:
            self._sweep_by(connection.ends_at)
        return True

    def pipeline_ended(self, pipeline: Pipeline, left: int = 0, failure: Exception | None = None) -> None:
        """All of a pipeline's requests were answered, or it broke when so many were `left`."""
        now = self._loop.time()
        if failure is None:
            self._pipelining.completed(pipeline, now)
        elif left == pipeline.count and isinstance(failure, TimeoutError):
            self._pipelining.timed_out(pipeline, now)
        elif self._connection_ended is None:  # otherwise we are closing it ourselves
            self._pipelining.broke(pipeline, failure_text(failure), now)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._connection_ended = asyncio.Event()
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in tuple(self._open):
            connection.close(ConnectionAbortedError(_CLOSED))
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._open:
                    self._connection_ended.clear()
                    await self._connection_ended.wait()
        except TimeoutError:  # a server that does not answer the TLS shutdown
            for connection in tuple(self._open):
                connection.abort()

    # --- the request ------------------------------------------------------------------------------------------------

    def _take_identity(self, identity: Mapping[str, str]) -> None:
        """Write the lines that all requests of this identity have."""
        try:
            own = {"Host": self._host_field, "User-Agent": USER_AGENT}
            self._lines = header_lines((*own.items(), *identity.items()))
        except UnsendableError as error:
            raise CredentialsError(str(error)) from None
        self._identity = identity

    def _default(self) -> ssl.SSLContext | None:
        """Where the connection has no contexts of its own: Python's checks, or no TLS."""
        if self._is_tls and self._default_context is None:
            self._default_context = ssl.create_default_context()
        return self._default_context

    # --- connections ------------------------------------------------------------------------------------------------

    def _take(self, context: ssl.SSLContext | None) -> "HTTPConnection | None":
        """The idle connection that was used last; connections made with older certificates are closed."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.context is context:
                return connection
            connection.close()
        return None

    async def _connect(self, context: ssl.SSLContext | None, timeout_seconds: float) -> "HTTPConnection":
        seconds = min(CONNECT_SECONDS, timeout_seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._open_connection(context)
        except TimeoutError as error:
            message = f"no connection to {self._host_field} within {seconds:g} s"
            raise NotSentError(message) from error  # `outage_cause` sees from the cause that it was a timeout
        except (OSError, ValueError, RuntimeError) as error:
            # a malformed host is a ValueError; uvloop raises RuntimeError
            message = f"no connection to {self._host_field}: {failure_text(error)}"
            raise NotSentError(message) from error

    async def _open_connection(self, context: ssl.SSLContext | None) -> "HTTPConnection":
        opened = await aiohappyeyeballs.start_connection(
            await self._addresses.of(self._host, self._port),
            happy_eyeballs_delay=_SECOND_ADDRESS_SECONDS,
            socket_factory=open_socket,
        )
        if self._may_write is not None:
            reset_on_close(opened)
        connection = self._new_connection(context)
        tls: dict[str, Any] = {}
        if context is not None:
            name = self._connection.server_name or self._host.rstrip(".")
            tls = {"ssl": context, "server_hostname": name, "ssl_shutdown_timeout": _CLOSE_SECONDS}
        try:
            await self._loop.create_connection(lambda: connection, sock=opened, **tls)
        except BaseException:
            connection.abort()
            self.lost(connection)  # uvloop does not call `connection_lost` if cancelled right after connecting
            raise
        if self._connection_ended is not None:
            connection.abort()
            raise ConnectionAbortedError(_CLOSED)
        if not connection.is_usable:
            raise NotSentError(_CLOSED_AT_ONCE)
        return connection

    def _new_connection(self, context: ssl.SSLContext | None) -> "HTTPConnection":
        return HTTPConnection(self, context)

    def made(self, connection: "HTTPConnection") -> None:
        """A connection is open."""
        self._open.add(connection)
        if self._news is not None:
            self._news.connected()

    def idle(self, connection: "HTTPConnection") -> None:
        """A connection may carry another request."""
        self._idle.append(connection)
        if connection.ends_at < self._sweep_at:
            self._sweep_by(connection.ends_at)

    def lost(self, connection: "HTTPConnection") -> None:
        """A connection has ended."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if self._connection_ended is not None:
            self._connection_ended.set()

    # --- time -------------------------------------------------------------------------------------------------------

    def _sweep_by(self, moment: float) -> None:
        """Check all connections at `moment`, which is earlier than `_sweep_at`."""
        if self._sweep is not None:
            self._sweep.cancel()
        self._sweep = self._loop.call_at(moment, self._check)
        self._sweep_at = moment

    def _check(self) -> None:
        self._sweep, self._sweep_at = None, float("inf")
        now = self._loop.time()
        for connection in tuple(self._open):
            if connection.ends_at <= now:
                connection.close(TimeoutError("no answer in time"))
        rest = min((connection.ends_at for connection in self._open if connection.is_usable), default=self._sweep_at)
        if rest < self._sweep_at:
            self._sweep_by(rest)


class HTTPConnection(asyncio.Protocol):
    """One connection: idle, or with one request under way (`awaited` is set), and others behind it (`_behind`)."""

    def __init__(self, pool: HTTPPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        """The TLS context that the connection was made with."""
        self.ends_at = 0.0
        """When the idle time, the request's time or its wait for an answer is used up; seconds of the loop's clock."""
        self._deadline = 0.0
        self._silence = 0.0
        """Seconds without a byte after which a request fails; 0: it has its deadline only."""
        self._is_open = False
        """Connected, and neither end has begun to close."""
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser()
        self.awaited: asyncio.Future[Any] | None = None
        """The answer to the request under way."""
        self._behind: deque[asyncio.Future[Any]] | None = None
        """Of a pipeline: the answers after that one, in the order of their requests. `None`: there is no pipeline."""
        self._pipeline: Pipeline | None = None
        """The one that is under way."""
        self._transport: asyncio.Transport | None = None

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent. (A broken transport is closing before it calls `connection_lost`.)"""
        return self._is_open and self._transport is not None and not self._transport.is_closing()

    def begin(self, data: bytes, deadline: float, request: HttpRequest) -> asyncio.Future[Response]:
        """Send a request over a usable connection; returns its answer to come. Raises `NotSentError`."""
        transport = self._transport
        if transport is None:
            raise NotSentError(_CLOSED_AT_ONCE)
        answer = self.awaited = self._loop.create_future()
        self.ends_at = self._deadline = deadline
        self._silence = request.silence_seconds
        if self._silence:
            self.ends_at = min(deadline, self._loop.time() + self._silence)
        self._parser.begin(request.largest_bytes)
        self._pool.under_way += 1
        transport.write(data)
        return answer

    def begin_pipeline(self, pipeline: list[ReadyRequest], began: Pipeline) -> None:
        """Send these requests, at least two, in one write over a usable connection; sets their answers."""
        transport = self._transport
        if transport is None:
            raise NotSentError(_CLOSED_AT_ONCE)
        self._pipeline = began
        answers = deque(one.answer for one in pipeline)
        self.awaited, self._behind = answers.popleft(), answers
        self.ends_at = self._deadline = min(one.deadline for one in pipeline)
        self._silence = 0.0
        self._parser.begin(behind=len(answers))
        self._pool.under_way += len(pipeline)
        transport.write(b"".join([one.data for one in pipeline]))

    def close(self, error: Exception | None = None) -> None:
        """Close: at once if a request is in flight, which fails with `error`; otherwise orderly."""
        if self.awaited is not None:
            self._fail(error or ConnectionAbortedError("the connection was closed"))
            return
        self._is_open = False
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        self._is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        """All that is not answered fails."""
        answer, self.awaited = self.awaited, None
        if answer is not None:
            self._pool.under_way -= 1
            if not answer.done():
                answer.set_exception(error)
        if self._behind is not None:
            behind, self._behind = self._behind, None
            self._pool.under_way -= len(behind)
            for answer in behind:
                if not answer.done():
                    answer.set_exception(error)
            if self._pipeline is not None:
                self._pool.pipeline_ended(self._pipeline, len(behind) + 1, error)
        self.abort()

    def _done(self, response: Response) -> None:
        answer, self.awaited = self.awaited, None
        self._pool.under_way -= 1
        if self._behind is not None:
            if self._behind:
                if answer is not None and not answer.done():
                    answer.set_result(response)
                self.awaited = self._behind.popleft()
                if not (response.keep_alive and self._is_open):
                    self._fail(ConnectionResetError(_CLOSED_BEFORE_THE_REST))
                return
            self._behind = None
            if self._pipeline is not None:
                self._pool.pipeline_ended(self._pipeline)
        if response.keep_alive and self._is_open:  # `_take` sees whether its transport is broken
            self.ends_at = self._loop.time() + self._pool.idle_seconds
            self._pool.idle(self)
        else:
            self.close()
        if answer is not None and not answer.done():
            answer.set_result(response)

    # --- what the loop calls ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected, TLS included."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport has the same methods
        self._is_open = True
        self.ends_at = self._loop.time() + self._pool.idle_seconds
        self._pool.made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer."""
        if self.awaited is None:  # not an answer; a server may send a 408 before it closes an idle connection
            self.abort()
            return
        if self._silence:
            self.ends_at = min(self._deadline, self._loop.time() + self._silence)
        if self._behind is not None:
            self._answers_received(data)
            return
        try:
            response = self._parser.feed(data)
        except MalformedResponseError as error:
            self._fail(error)
            return
        if response is not None:
            self._done(response)

    def _answers_received(self, data: bytes) -> None:
        """Bytes of the answers to a pipeline. What is wrong with one concerns those behind it, too."""
        responses, failure = self._parser.feed_several(data)
        for response in responses:
            if self.awaited is None:  # the one before has closed the connection
                return
            self._done(response)
        if failure is not None and self.awaited is not None:
            self._fail(failure)

    def eof_received(self) -> None:
        """The server has finished sending, which may end the answer; the transport closes itself."""
        self._is_open = False
        self._ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._is_open = False
        self._transport = None
        if exc is not None:
            # A TimeoutError would look like a deadline of ours.
            is_kept = isinstance(exc, OSError) and not isinstance(exc, TimeoutError)
            self._fail(exc if is_kept else ConnectionResetError(str(exc)))
        self._ended()
        self._parser.close()
        self._pool.lost(self)

    def _ended(self) -> None:
        if self.awaited is None:
            return
        try:
            self._done(self._parser.end())
        except MalformedResponseError as error:
            self._fail(error)
