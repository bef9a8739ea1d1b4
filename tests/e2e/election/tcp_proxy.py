"""A network of its own for one replica: TCP passed on byte by byte, from an address that the audit log shows.

Each replica reaches the API server from a loopback address of its own (127.0.1.1, 127.0.1.2 ...), so the server's own
log says who sent what, without asking the replica. `cut` makes a network that swallows: connections stay open, new ones
are accepted, and nothing passes until `heal`; what lies in the sockets' buffers passes then, as after a real partition.
"""

import asyncio
import threading
from typing import Self
from urllib.parse import urlsplit

CHUNK_BYTES = 65_536


class TcpProxy:
    """Passes connections on while it is entered; its event loop runs in a thread."""

    def __init__(self, target: str, source_address: str) -> None:
        """`target`: the API server's URL."""
        address = urlsplit(target)
        self._target = address.hostname or "127.0.0.1", address.port or 443
        self._scheme = address.scheme
        self.source_address = source_address
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"tcp-proxy {source_address}", daemon=True)
        self._is_serving = threading.Event()
        self._passes = asyncio.Event()
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_serving.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=30)

    def cut(self) -> None:
        """Nothing passes any more, in either direction, and nobody is told."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        self._loop.call_soon_threadsafe(self._passes.set)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._passes.set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_serving.set()
        await self._stop.wait()
        server.close()
        while ended := asyncio.all_tasks() - {asyncio.current_task()}:  # a connection may begin meanwhile
            for task in ended:
                task.cancel()
            await asyncio.gather(*ended, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passes.wait()
        try:
            upstream = await asyncio.open_connection(*self._target, local_addr=(self.source_address, 0))
        except OSError:
            writer.transport.abort()
            return
        pumps = [
            asyncio.create_task(self._pump(reader, upstream[1])),
            asyncio.create_task(self._pump(upstream[0], writer)),
        ]
        try:
            await asyncio.wait(pumps)
        except asyncio.CancelledError:
            return  # the proxy ends; asyncio would report a handler that ends as cancelled
        finally:
            for pump in pumps:
                pump.cancel()
            writer.transport.abort()
            upstream[1].transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(CHUNK_BYTES):
                await self._passes.wait()
                writer.write(chunk)
                await writer.drain()
            await self._passes.wait()
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            await self._passes.wait()
            writer.transport.abort()
