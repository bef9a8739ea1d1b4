"""A running server, what stands behind it, and how tests talk to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from kscheduler.scheduling.observations import Observations
from kscheduler.server import Address, Limits, LoopbackAccess, Offer, Port, Server
from kscheduler.telemetry.exposition import Exposition

# Plain HTTP on loopback, for everything.
PLAIN = Port("insecure", Address("127.0.0.1", 0), Offer.EVERYTHING_WITHOUT_LOGIN, lambda _places: LoopbackAccess())


@dataclass
class Condition:
    """What the checks say; a test changes it."""

    reasons: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def check(self, name: str) -> Callable[[], str | None]:
        return lambda: self.reasons.get(name)


@dataclass
class Site:
    """A running server and what stands behind it."""

    server: Server
    condition: Condition
    observations: Observations
    exposition: Exposition
    client: aiohttp.ClientSession

    async def text(self, path: str) -> tuple[int, str]:
        async with self.client.get(path) as response:
            return response.status, await response.text()

    @asynccontextmanager
    async def raw(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection that the test speaks HTTP on by hand."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


class StartSite(Protocol):
    """Starts a server with limits of the test's choice."""

    def __call__(self, limits: Limits, port: Port = PLAIN) -> Awaitable[Site]: ...
