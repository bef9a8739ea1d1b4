"""All requests and watches through a proxy, over aiohttp; everything else goes over `pool` and `watch_pool`.

The sessions add nothing by themselves and notice dead peers. aiohttp's exceptions become ours here (`our_error`), so
that nothing else needs to know them: this module is imported when a proxy is on the way, and not by a command that asks
one question, whose start its import would make a third longer.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import BadStatusLine, ContentEncodingError, HttpProcessingError
from multidict import CIMultiDict
from yarl import URL

from kscheduler.client.access.connection import Connection
from kscheduler.client.errors import NotSentError, ProxyError, ProxyNameError
from kscheduler.client.failure_text import failure_text, lowered
from kscheduler.client.http.http1 import (
    CutResponseError,
    EncodedResponseError,
    HttpRequest,
    MalformedResponseError,
    NotHTTPError,
    Response,
)
from kscheduler.client.http.resolver import Addresses, ConnectionNews
from kscheduler.client.http.transport import (
    CONNECT_SECONDS,
    LARGEST_REFUSAL,
    USER_AGENT,
    WATCH_OPEN_SECONDS,
    check_may_leave,
    open_socket,
)

_WATCH_BUFFER_BYTES: Final = 256 * 1024


def our_error(error: aiohttp.ClientError) -> Exception:
    """An exception of aiohttp's as what `pool` raises in its place; the error of the socket or of TLS is its cause."""
    match error:
        case aiohttp.ClientProxyConnectionError():
            return _caused(f"no connection to the proxy {_host(error)}", error.os_error, ProxyError)
        case aiohttp.ClientHttpProxyError():
            return ProxyError(f"the proxy does not let us through: it answers {error.status} {error.message}".rstrip())
        case aiohttp.ClientConnectorCertificateError():
            return _caused(f"no connection to {_host(error)}", error.certificate_error, NotSentError)
        case aiohttp.ClientConnectorError():  # failures of TLS and DNS are subclasses
            return _caused(f"no connection to {_host(error)}", error.os_error, NotSentError)
        case aiohttp.ConnectionTimeoutError():
            unsent = NotSentError(str(error))
            unsent.__cause__ = TimeoutError()
            return unsent
        case aiohttp.ServerTimeoutError():
            return TimeoutError(str(error))
        case aiohttp.ServerDisconnectedError():
            return CutResponseError(str(error))
        case aiohttp.ClientPayloadError() if "not enough data" in str(error).lower():
            return CutResponseError("the connection was cut in the middle of an answer")  # perhaps within a chunk
        case aiohttp.ClientPayloadError() | aiohttp.ClientResponseError():
            return _broken_rule(error)
        case OSError():
            return error
    return ConnectionError(str(error) or type(error).__name__)


def _host(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    return f"{error.host}:{error.port}"


def _caused(text: str, cause: Exception, kind: type[NotSentError]) -> NotSentError:
    if isinstance(cause, aiohttp.ClientError):  # of a proxy, whose own connection has failed
        cause = our_error(cause)
    failure = kind(f"{text}: {failure_text(cause)}")
    failure.__cause__ = cause
    return failure


def _broken_rule(error: aiohttp.ClientError) -> MalformedResponseError:
    """With the first line of the message, whose others draw where in the bytes it is."""
    rules = [error.__cause__, error.__cause__ and error.__cause__.__cause__]  # a bad status line is wrapped twice
    broken = [rule for rule in rules if isinstance(rule, HttpProcessingError)]
    message = broken[0].message if broken else str(error)
    text = lowered(next(iter(message.strip().splitlines()), "").rstrip(":"))
    kind = MalformedResponseError
    if any(isinstance(rule, BadStatusLine) for rule in broken):
        kind = NotHTTPError
    elif any(isinstance(rule, ContentEncodingError) for rule in broken):
        kind = EncodedResponseError
    return kind(f"the answer breaks the rules of HTTP: {text}")


def _raise_ours(error: aiohttp.ClientError) -> NoReturn:
    ours = our_error(error)
    if ours is error:
        raise error
    raise ours from ours.__cause__ or error


# --- sessions -------------------------------------------------------------------------------------------------------


def _open_session(connection: Connection, addresses: Addresses, news: ConnectionNews | None) -> aiohttp.ClientSession:
    """A session that reads no environment, keeps no cookies, sends no default headers and decompresses nothing."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            # Requests take turns before they come here (`rest`); a connector that counts again would make those wait
            # whose turn it is behind requests that hang.
            limit=0,
            keepalive_timeout=60.0,
            use_dns_cache=False,  # `Addresses` keeps them
            resolver=RememberingResolver(addresses, is_proxied=connection.proxy is not None),
            socket_factory=open_socket,
        ),
        auto_decompress=False,
        trace_configs=[] if news is None else [_tracing(news)],
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        read_bufsize=_WATCH_BUFFER_BYTES,
        trust_env=False,
    )
    # Without this aiohttp repeats a PUT or DELETE by itself when a pooled connection breaks; we decide whether a write
    # may be repeated. Only aiohttp's own test client has a public setting for it.
    session._retry_connection = False
    return session


def _tracing(news: ConnectionNews) -> aiohttp.TraceConfig:
    """Tell of connections that are made."""

    async def connected(*_event: object) -> None:
        news.connected()

    config = aiohttp.TraceConfig()
    config.on_connection_create_end.append(connected)
    return config


class RememberingResolver(AbstractResolver):
    """`Addresses` for aiohttp."""

    def __init__(self, addresses: Addresses, *, is_proxied: bool = False) -> None:
        """`is_proxied`: what is looked up is a proxy on the way."""
        self._addresses = addresses
        self._is_proxied = is_proxied

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """As aiohttp's. Raises `OSError`."""
        found: list[ResolveResult] = []
        try:
            entries = await self._addresses.of(host, port)
        except OSError as error:
            if self._is_proxied:
                raise ProxyNameError(error.errno, error.strerror) from error
            raise
        for entry_family, _, protocol, _, address in entries:
            if family not in (socket.AF_UNSPEC, entry_family):
                continue
            found.append(
                ResolveResult(
                    hostname=host,
                    host=str(address[0]),
                    port=port,
                    family=int(entry_family),
                    proto=protocol,
                    flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                )
            )
        return found

    async def close(self) -> None:
        """The addresses outlive a session."""


class _OverAiohttp:
    """A session to a `Connection`'s server, with the connection's certificates of the moment."""

    def __init__(
        self, connection: Connection, addresses: Addresses | None = None, news: ConnectionNews | None = None
    ) -> None:
        """Must be created inside a running loop. `addresses` and `news` as in `HTTPPool`."""
        self._connection = connection
        self._session = _open_session(connection, addresses or Addresses(news), news)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._session.close()

    def _url(self, target: str) -> URL:
        return URL(self._connection.base_url + target, encoded=True)


class AiohttpTransport(_OverAiohttp):
    """Requests through proxies, and over other connections that the pool does not support.

    Limit: `may_write` is asked before aiohttp gets the request, which may have to open a connection first.
    """

    def __init__(
        self,
        connection: Connection,
        may_write: Callable[[], bool] | None = None,
        addresses: Addresses | None = None,
        news: ConnectionNews | None = None,
    ) -> None:
        """As `HTTPPool`."""
        super().__init__(connection, addresses, news)
        self._may_write = may_write

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        """Raises as `HTTPPool.send`."""
        check_may_leave(request, self._may_write)
        headers = CIMultiDict({"User-Agent": USER_AGENT, "Accept": request.accept})
        headers.extend(identity)  # which may have several values for a name
        if request.content_type:
            headers["Content-Type"] = request.content_type
        try:
            async with self._session.request(
                request.method,
                self._url(request.target),
                data=request.body or None,
                headers=headers,
                timeout=aiohttp.ClientTimeout(
                    total=timeout_seconds, sock_connect=CONNECT_SECONDS, sock_read=request.silence_seconds or None
                ),
                allow_redirects=False,
                ssl=self._connection.ssl_context(),
                server_hostname=self._connection.server_name,
                proxy=self._connection.proxy,
            ) as response:
                body = await _read(response, request.largest_bytes)
                return Response(response.status, _named(response), body, keep_alive=True)
        except aiohttp.ClientError as error:
            _raise_ours(error)


async def _read(response: aiohttp.ClientResponse, largest_bytes: int) -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > largest_bytes:
            message = f"the answer has more than {largest_bytes} bytes"
            raise MalformedResponseError(message)
    return b"".join(parts)


def _named(response: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


class AiohttpWatchAnswer:
    """The answer to a watch, of which the head has come. Implements `transport.WatchAnswer`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.content_type = response.content_type
        self.headers: Mapping[str, str] = _named(response)
        """Names in lower case."""

    async def next_bytes(self) -> bytes:
        """As they come; empty at the end. Raises `OSError`, `TimeoutError` and `MalformedResponseError`."""
        try:
            return await self._response.content.readany()
        except aiohttp.ClientError as error:
            _raise_ours(error)

    async def beginning(self) -> bytes:
        """Of a body that is no watch: enough of it for a message. Raises as `next_bytes`."""
        try:
            return await self._response.content.read(LARGEST_REFUSAL)
        except aiohttp.ClientError as error:
            _raise_ours(error)

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


class WatchTransport(_OverAiohttp):
    """Watches, each on a connection that has no other request. Implements `transport.WatchOpener`."""

    async def open(self, target: str, headers: Mapping[str, str], inactivity_seconds: float) -> AiohttpWatchAnswer:
        """Raises `NotSentError`, `OSError`, `TimeoutError` and `MalformedResponseError`."""
        sent = CIMultiDict({"User-Agent": USER_AGENT, "Accept": "application/json"})
        sent.extend(headers)
        # kube-apiserver answers at once, before the first event; its priority levels may queue the request.
        try:
            async with asyncio.timeout(min(inactivity_seconds, WATCH_OPEN_SECONDS)):
                response = await self._session.get(
                    self._url(target),
                    headers=sent,
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=CONNECT_SECONDS, sock_read=inactivity_seconds
                    ),
                    allow_redirects=False,
                    ssl=self._connection.ssl_context(),
                    server_hostname=self._connection.server_name,
                    proxy=self._connection.proxy,
                )
        except aiohttp.ClientError as error:
            _raise_ours(error)
        return AiohttpWatchAnswer(response)
