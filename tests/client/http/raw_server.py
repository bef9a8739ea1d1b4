"""A server that sees bytes: connections, when they end, and answers at the moment the test chooses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Peer:
    """One connection, seen from the server."""

    number: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: int = 0

    async def request(self) -> bytes:
        """The next request's head and body. Raises `IncompleteReadError` once the client has closed."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        self.requests += 1
        return head + await self.reader.readexactly(length)

    def say(self, data: bytes) -> None:
        if not self.writer.is_closing():  # uvloop raises, asyncio does not
            self.writer.write(data)

    def reset(self) -> None:
        self.writer.transport.abort()


Play = Callable[[Peer], Awaitable[None]]


@dataclass
class RawServer:
    """Plays the same part on each connection. A play that ends closes its connection."""

    play: Play
    url: str = ""
    peers: list[Peer] = field(default_factory=list)
    ended: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    """Numbers of connections, as they end."""
    playing: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def requests(self) -> int:
        return sum(peer.requests for peer in self.peers)

    def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.playing.add(asyncio.ensure_future(self._play(reader, writer)))

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(self.peers), reader, writer)
        self.peers.append(peer)
        try:
            await self.play(peer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has closed
        finally:
            writer.close()
            self.ended.put_nowait(peer.number)


async def answer_all(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.say(OK)


@asynccontextmanager
async def raw_server(play: Play = answer_all, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    served = RawServer(play)
    server = await asyncio.start_server(served.handle, "127.0.0.1", 0, ssl=tls)
    served.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()
        for _ in range(10):  # a connection that is accepted just now is played, and can be closed, some turns later
            await asyncio.sleep(0)
        for playing in served.playing:
            playing.cancel()
        for end in await asyncio.gather(*served.playing, return_exceptions=True):
            if isinstance(end, Exception):
                raise end
