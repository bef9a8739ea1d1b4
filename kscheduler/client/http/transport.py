"""What carries requests and watches: `pool` and `watch_pool`, or `over_aiohttp` through a proxy; and their sockets."""

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import aiohappyeyeballs

from kscheduler import __version__
from kscheduler.client.errors import FencedError
from kscheduler.client.http.http1 import HttpRequest, Response

USER_AGENT = f"kscheduler/{__version__}"
CONNECT_SECONDS = 10.0
# For the head of the answer to a watch.
WATCH_OPEN_SECONDS: Final = 30.0
# Of an answer that is no watch.
LARGEST_REFUSAL: Final = 64 * 1024


class Transport(Protocol):
    """Carries requests to the server and returns the answers."""

    async def send(self, request: HttpRequest, identity: Mapping[str, str], timeout_seconds: float) -> Response:
        """The answer, whatever its status. `identity`: the headers that authenticate."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class WatchAnswer(Protocol):
    """The answer to a watch, of which the head has come."""

    @property
    def status(self) -> int: ...

    @property
    def content_type(self) -> str:
        """The media type without its parameters."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def next_bytes(self) -> bytes:
        """As they come; empty at the end. Raises `OSError`, `TimeoutError` and `MalformedResponseError`."""
        ...

    async def beginning(self) -> bytes:
        """Of a body that is no watch: enough of it for a message. Raises as `next_bytes`."""
        ...

    def close(self) -> None:
        """Nobody reads it any more."""
        ...


class WatchOpener(Protocol):
    """Opens watches, each on a connection that has no other request."""

    async def open(self, target: str, headers: Mapping[str, str], inactivity_seconds: float) -> WatchAnswer:
        """The answer, whatever its status."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


def check_may_leave(request: HttpRequest, may_write: Callable[[], bool] | None) -> None:
    """Raises `FencedError` for a write that may not leave. To be called as late as possible before it does."""
    if may_write is not None and request.method != "GET" and not may_write():
        raise FencedError(f"{request.method} {request.target}")


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
