"""aiohttp sessions that add nothing by themselves and notice dead peers.

Watches use aiohttp, and so do all requests through a proxy; the rest goes over `pool`.
"""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import aiohappyeyeballs
import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kscheduler import __version__
from kscheduler.client.access.connection import Connection
from kscheduler.client.errors import FencedError
from kscheduler.client.http.http1 import HttpRequest, MalformedResponseError, Response
from kscheduler.client.http.resolver import Addresses, ConnectionNews, RememberingResolver

USER_AGENT = f"kscheduler/{__version__}"
CONNECT_SECONDS = 10.0
_WATCH_BUFFER_BYTES = 256 * 1024


def open_session(
    max_connections: int,
    addresses: Addresses | None = None,
    news: ConnectionNews | None = None,
    *,
    is_proxied: bool = False,
) -> aiohttp.ClientSession:
    """A session that reads no environment, keeps no cookies, sends no default headers and decompresses nothing.

    `is_proxied`: its requests go through a proxy, so that a name that is not found is the proxy's.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=max_connections,
            keepalive_timeout=60.0,
            use_dns_cache=False,  # `Addresses` keeps them
            resolver=RememberingResolver(addresses or Addresses(news), is_proxied=is_proxied),
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


class Transport(Protocol):
    """Carries requests to the server and returns the answers."""

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        """The answer, whatever its status. `identity`: the headers that authenticate."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def check_may_leave(request: HttpRequest, may_write: Callable[[], bool] | None) -> None:
    """Raises `FencedError` for a write that may not leave. To be called as late as possible before it does."""
    if may_write is not None and request.method != "GET" and not may_write():
        raise FencedError(f"{request.method} {request.target}")


class AiohttpTransport:
    """Requests over aiohttp: through proxies, and for other connections that the pool does not support.

    Limit: `may_write` is asked before aiohttp gets the request, which may have to open a connection first.
    """

    def __init__(
        self,
        connection: Connection,
        may_write: Callable[[], bool] | None = None,
        addresses: Addresses | None = None,
        news: ConnectionNews | None = None,
    ) -> None:
        """Must be created inside a running loop. `addresses` and `news` as in `HTTPPool`."""
        self._connection = connection
        self._may_write = may_write
        # Requests take turns before they come here (`rest`); a connector that counts again would make those wait whose
        # turn it is behind requests that hang.
        self._session = open_session(0, addresses, news, is_proxied=connection.proxy is not None)

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        """Raises `aiohttp.ClientError`, `OSError`, `TimeoutError`, `FencedError`."""
        check_may_leave(request, self._may_write)
        headers = CIMultiDict({"User-Agent": USER_AGENT, "Accept": request.accept})
        headers.extend(identity)  # which may have several values for a name
        if request.content_type:
            headers["Content-Type"] = request.content_type
        async with self._session.request(
            request.method,
            URL(self._connection.base_url + request.target, encoded=True),
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
            named = {name.lower(): value for name, value in response.headers.items()}
            return Response(response.status, named, body, keep_alive=True)

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        await self._session.close()


async def _read(response: aiohttp.ClientResponse, largest_bytes: int) -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > largest_bytes:
            message = f"the answer has more than {largest_bytes} bytes"
            raise MalformedResponseError(message)
    return b"".join(parts)


# A peer that vanishes is noticed after 30 s. Options that a platform lacks are skipped.
_TCP_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)


def enable_keepalive(connection: socket.socket) -> None:
    """Switch on TCP keepalive and the timeout for unacknowledged data."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def reset_on_close(opened: socket.socket) -> None:
    """Drop what the kernel has not sent yet when the socket is closed, also by the end of the process."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def open_socket(address: tuple[Any, ...]) -> socket.socket:
    """A non-blocking socket for an address from `getaddrinfo`."""
    family, kind, protocol, *_ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    opened.settimeout(0)
    enable_keepalive(opened)
    return opened


async def accepts_connections(host: str, port: int) -> bool:
    """Whether the port accepts TCP connections, decided within a second.

    The name is looked up here and not by `asyncio.open_connection`: uvloop would go on when the second is over, and the
    failure of a lookup that nobody waits for any longer would be logged as an error.
    """
    try:
        async with asyncio.timeout(1.0):
            addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            opened = await aiohappyeyeballs.start_connection(addresses)
            opened.close()
    except (OSError, TimeoutError):
        return False
    return True
