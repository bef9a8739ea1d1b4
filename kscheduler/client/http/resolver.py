"""A host's addresses, which are remembered for when no name server answers.

The problem: an API server is reached by name, its connections live, and DNS fails (in many clusters DNS runs in the
cluster, on the very nodes that are being scheduled to): every watch that ends then stays closed, though the addresses
have not changed. The idea: a name is looked up again every half minute; if that fails, the addresses that were found
last are used, and the failure is reported. TLS proves who answers, as always.

A look-up may hang for as long as the system's resolver likes: one is under way at a time, and callers with old
addresses waits for it `FIRST_ANSWER_SECONDS`. The first address rotates, so that a dead one costs every second try
only. Limit: an API server that moves while DNS is away is found when DNS is back.
"""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

ADDRESSES_SECONDS: Final = 30.0
FIRST_ANSWER_SECONDS: Final = 2.0
# Old addresses are used for this long after a look-up has failed, before the next one.
_AGAIN_SECONDS: Final = 5.0

# An entry of `getaddrinfo`.
Address = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[str | int | bytes, ...]]


class ConnectionNews(Protocol):
    """Hears what becomes of new connections."""

    def connected(self) -> None:
        """A connection was made, TLS included."""
        ...

    def resolved(self) -> None:
        """The host's name was looked up, after look-ups had failed."""
        ...

    def unresolved(self, failure: OSError) -> None:
        """It could not be, and the addresses that were found last are used."""
        ...


@dataclass(slots=True)
class _Known:
    """What is known of a host and port."""

    addresses: deque[Address] = field(default_factory=deque)
    look_up_at: float = 0.0
    """When they are looked up again, in seconds of the loop's clock."""
    lookup: "asyncio.Task[None] | None" = None
    has_failed: bool = False


class Addresses:
    """The addresses of the hosts that one client talks to: its server, or its proxy."""

    def __init__(self, news: ConnectionNews | None = None) -> None:
        self._news = news
        self._known: dict[tuple[str, int], _Known] = {}

    async def of(self, host: str, port: int) -> list[Address]:
        """In the order in which to try them. Raises `OSError` and `ValueError` where none were ever found."""
        known = self._known.setdefault((host, port), _Known())
        if not known.addresses or asyncio.get_running_loop().time() >= known.look_up_at:
            await self._look_up(known, host, port)
        in_order = list(known.addresses)
        known.addresses.rotate(-1)
        return in_order

    def close(self) -> None:
        """Wait for no look-up any more."""
        for known in self._known.values():
            if known.lookup is not None:
                known.lookup.cancel()

    async def _look_up(self, known: _Known, host: str, port: int) -> None:
        lookup = known.lookup
        if lookup is None:
            lookup = known.lookup = asyncio.create_task(self._ask(known, host, port), name=f"addresses of {host}")
            # perhaps everybody has stopped waiting for it
            lookup.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            async with asyncio.timeout(FIRST_ANSWER_SECONDS if known.addresses else None):
                await asyncio.shield(lookup)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not lookup.cancelled() or (task is not None and task.cancelling()):
                raise
            # `close` has ended the look-up, and not a task that waits for it
            raise OSError(errno.ECANCELED, f"the client is closed: {host} is not looked up any more") from None
        except TimeoutError:
            message = f"no name server has answered about {host} within {FIRST_ANSWER_SECONDS:g} s"
            self._use_old(known, socket.gaierror(socket.EAI_AGAIN, message))
        except OSError as failure:
            if not known.addresses:
                raise
            self._use_old(known, failure)

    async def _ask(self, known: _Known, host: str, port: int) -> None:
        """Look up and remember, in one task: after its end the addresses are there."""
        loop = asyncio.get_running_loop()
        try:
            found = await cast("Awaitable[list[Address]]", loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        finally:
            known.lookup = None
        known.addresses = deque(found)
        known.look_up_at = loop.time() + ADDRESSES_SECONDS
        if known.has_failed:
            known.has_failed = False
            if self._news is not None:
                self._news.resolved()

    def _use_old(self, known: _Known, failure: OSError) -> None:
        known.has_failed = True
        known.look_up_at = asyncio.get_running_loop().time() + _AGAIN_SECONDS
        if self._news is not None:
            self._news.unresolved(failure)
