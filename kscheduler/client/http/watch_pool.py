"""Watches over connections of our own: the head of an answer, then its body as it comes.

The problem: most of what an event costs may be its way through a general client. A chunk of a watch that came by itself
cost 93 us of CPU over aiohttp, of which reading and decrypting are 58 (measured with TLS and uvloop; of 32 events
together 15 and 12 each). The idea: the connections of `pool` and the parser of `http1`, which gives out the parts of a
body instead of keeping them until it is whole.

One watch at a time is on a connection, and a connection whose watch has ended in order may carry the next one. A reader
that falls behind stops the socket from being read (`_MOST_BUFFERED_BYTES`). A watch ends by a `TimeoutError` when no
byte has come for its inactivity time.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final

from kscheduler.client.errors import NotSentError
from kscheduler.client.http.http1 import HttpRequest, MalformedResponseError, Response, ResponseParser, request_bytes
from kscheduler.client.http.pool import HTTPConnection, HTTPPool
from kscheduler.client.http.transport import LARGEST_REFUSAL, WATCH_OPEN_SECONDS

# Of one watch. Its reader takes all that has come each time, so this is what comes while the event loop is held.
_MOST_BUFFERED_BYTES: Final = 1024 * 1024
_CLOSED: Final = "the client is being closed"
_SILENT: Final = "no byte has come in time"


class BodyParser(ResponseParser):
    """Gives out a response's head and the parts of its body as they come."""

    @property
    def head(self) -> tuple[int, Mapping[str, str]] | None:
        """Status and header fields, names in lower case; `None` before they have come. A 1xx is not the answer."""
        return (self._status, self._headers) if self._is_head_read and self._status >= 200 else None

    def take(self) -> list[bytes]:
        """The parts of the body that have come since the last time."""
        parts, self._parts = self._parts, []
        return parts

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head; unlike those of other answers, its type is read."""
        if name == b"Content-Type":
            name = b"content-type"
        super().on_header(name, value)

    def on_body(self, part: bytes) -> None:
        """A watch has no end, and its reader no interest in how much has come before."""
        self._framing -= len(part)
        self._parts.append(part)


class StreamedAnswer:
    """The answer to a watch. Implements `transport.WatchAnswer`."""

    def __init__(self, connection: "WatchConnection", inactivity_seconds: float) -> None:
        self.inactivity_seconds = inactivity_seconds
        self.status = 0
        """0 before the head has come."""
        self.headers: Mapping[str, str] = {}
        """Names in lower case."""
        self._connection = connection
        self._parts: list[bytes] = []
        self._size = 0
        self._failure: Exception | None = None
        self._is_over = False
        """Whether nothing more will come."""
        self._waiter: asyncio.Future[None] | None = None

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        return self.headers.get("content-type", "application/octet-stream").partition(";")[0].strip().lower()

    async def until_head(self) -> None:
        """Return when the head has come. Raises what `next_bytes` does."""
        while not self.status:
            if self._failure is not None:
                raise self._failure
            await self._more()

    async def next_bytes(self) -> bytes:
        """As they come; empty at the end. Raises `OSError`, `TimeoutError` and `MalformedResponseError`."""
        while not self._parts:
            if self._failure is not None:
                raise self._failure
            if self._is_over:
                return b""
            await self._more()
        parts, self._parts = self._parts, []
        self._size = 0
        self._connection.read_on(self)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def beginning(self) -> bytes:
        """Of a body that is no watch: enough of it for a message. Raises as `next_bytes`."""
        beginning = b""
        while len(beginning) < LARGEST_REFUSAL and (part := await self.next_bytes()):
            beginning += part
        return beginning[:LARGEST_REFUSAL]

    def close(self) -> None:
        """Close the connection, unless the watch has ended in order."""
        if not self._is_over:
            self._connection.drop(self)

    async def _more(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # --- what the connection calls ----------------------------------------------------------------------------------

    def begun(self, status: int, headers: Mapping[str, str]) -> None:
        """The head has come."""
        self.status, self.headers = status, headers
        self._wake()

    def came(self, parts: list[bytes]) -> bool:
        """Parts of the body have come. Returns whether the reader keeps up."""
        self._parts += parts
        self._size += sum(map(len, parts))
        self._wake()
        return self._size <= _MOST_BUFFERED_BYTES

    def over(self, failure: Exception | None = None) -> None:
        """Nothing more will come."""
        self._failure, self._is_over = failure, True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class WatchConnection(HTTPConnection):
    """A connection that is idle, or has a watch (`_answer` is set)."""

    def __init__(self, pool: HTTPPool, context: ssl.SSLContext | None) -> None:
        super().__init__(pool, context)
        self._body = BodyParser()
        self._answer: StreamedAnswer | None = None
        self._is_paused = False
        """Whether nothing is read because the reader is behind."""

    def begin_watch(self, data: bytes, inactivity_seconds: float) -> StreamedAnswer:
        """Send a request over a usable connection; returns its answer, of which nothing has come."""
        transport = self._transport
        if transport is None:
            raise NotSentError("the server closed the connection at once")
        answer = self._answer = StreamedAnswer(self, inactivity_seconds)
        self.ends_at = self._loop.time() + inactivity_seconds
        self._body.begin()
        transport.write(data)
        return answer

    def read_on(self, answer: StreamedAnswer) -> None:
        """The reader has all that has come."""
        if self._is_paused and self._answer is answer and self._transport is not None:
            self._is_paused = False
            self.ends_at = self._loop.time() + answer.inactivity_seconds
            self._transport.resume_reading()

    def drop(self, answer: StreamedAnswer) -> None:
        """Nobody reads this answer any more."""
        if self._answer is answer:
            self._answer = None
            self.abort()

    def close(self, error: Exception | None = None) -> None:
        """Close: at once if a watch is under way, which fails with `error`; otherwise orderly."""
        answer, is_time_up = self._answer, isinstance(error, TimeoutError)
        if answer is None:
            super().close()
        elif is_time_up and self._is_paused:  # it is not silent, it is not read
            self.ends_at = self._loop.time() + answer.inactivity_seconds
        else:
            self._fail(TimeoutError(_SILENT) if is_time_up else error or ConnectionAbortedError(_CLOSED))

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.over(error)
        self.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes of the answer."""
        answer = self._answer
        if answer is None:  # not an answer; a server may send a 408 before it closes an idle connection
            self.abort()
            return
        self.ends_at = self._loop.time() + answer.inactivity_seconds
        response = failure = None
        try:
            response = self._body.feed(data)
        except MalformedResponseError as error:
            failure = error
        if response is not None:
            self._whole(answer, response)
            return
        if not answer.status and (head := self._body.head) is not None:
            answer.begun(*head)
        parts = self._body.take()
        if failure is not None:
            answer.came(parts)  # what came before it
            self._fail(failure)
        elif parts and not answer.came(parts) and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def _whole(self, answer: StreamedAnswer, response: Response) -> None:
        """The watch has ended in order: another one may follow."""
        self._answer = None
        if not answer.status:
            answer.begun(response.status, response.headers)
        if response.body:
            answer.came([response.body])
        answer.over()
        if response.keep_alive and self._is_open:
            self.ends_at = self._loop.time() + self._pool.idle_seconds
            self._pool.idle(self)
        else:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        self._body.close()

    def _ended(self) -> None:
        answer = self._answer
        if answer is None:
            return
        try:
            self._whole(answer, self._body.end())
        except MalformedResponseError as error:
            self._fail(error)


class WatchPool(HTTPPool):
    """Watches, each on a connection that has no other request. Implements `transport.WatchOpener`."""

    async def open(self, target: str, headers: Mapping[str, str], inactivity_seconds: float) -> StreamedAnswer:
        """The answer, of which the head has come, whatever its status. `headers`: those that authenticate.

        Raises `NotSentError`, `CredentialsError`, `OSError`, `TimeoutError` and `MalformedResponseError`.
        """
        if headers is not self._identity:
            self._take_identity(headers)
        data = request_bytes(HttpRequest("GET", target), self._lines, self._prefix)
        context = self._default() if self._contexts is None else self._contexts.context()
        # kube-apiserver answers at once, before the first event; its priority levels may queue the request.
        seconds = min(inactivity_seconds, WATCH_OPEN_SECONDS)
        async with asyncio.timeout(seconds):
            connection = self._take(context) or await self._connect(context, seconds)
            if not isinstance(connection, WatchConnection):
                raise TypeError(connection)
            answer = connection.begin_watch(data, inactivity_seconds)
            if connection.ends_at < self._sweep_at:
                self._sweep_by(connection.ends_at)
            try:
                await answer.until_head()
            except BaseException:
                answer.close()
                raise
        return answer

    def _new_connection(self, context: ssl.SSLContext | None) -> HTTPConnection:
        return WatchConnection(self, context)
