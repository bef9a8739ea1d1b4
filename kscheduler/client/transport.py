"""aiohttp sessions as this client wants them: nothing added that is not asked for, dead peers noticed."""

import asyncio
import socket
from typing import Any

import aiohttp

from kscheduler import __version__

USER_AGENT = f"kscheduler/{__version__}"
CONNECT_SECONDS = 10.0
_WATCH_BUFFER_BYTES = 256 * 1024


def open_session(max_connections: int) -> aiohttp.ClientSession:
    """A session that reads no environment, keeps no cookies and sends no header of its own invention."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=max_connections, keepalive_timeout=60.0, ttl_dns_cache=30, socket_factory=_open_socket
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent", "Content-Type"),
        read_bufsize=_WATCH_BUFFER_BYTES,
        trust_env=False,
    )
    # Without this aiohttp repeats a PUT or DELETE by itself when a pooled connection breaks; whether a write may be
    # repeated is ours to decide. It has a name in aiohttp's own test client only.
    session._retry_connection = False
    return session


_TCP_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", 15),
    ("TCP_KEEPINTVL", 5),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),
)
"""A peer that is gone without a word is noticed after 30 s. Names that a platform lacks are passed over."""


def keep_watch_on(connection: socket.socket) -> None:
    """Switch on TCP keepalive and the timeout for data that nobody acknowledges."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _TCP_OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def _open_socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    opened = socket.socket(family=family, type=kind, proto=protocol)
    opened.settimeout(0)
    keep_watch_on(opened)
    return opened


async def accepts_connections(host: str, port: int) -> bool:
    """Whether somebody listens there, found out within a second."""
    try:
        async with asyncio.timeout(1.0):
            _, writer = await asyncio.open_connection(host, port)
            writer.transport.abort()
    except (OSError, TimeoutError):
        return False
    return True
