"""How the floor sends its requests: through aiohttp, or as bare HTTP/1.1 on a connection of its own.

The bare one writes a request in one piece and reads the answer's head and body, which is all that a POST to an API
server needs. Limits: no pipelining, no redirects, no compression; one request at a time per connection.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import urlsplit

import aiohttp

JSON: Final = "application/json"
_CHUNKED: Final = b"transfer-encoding: chunked"
_LENGTH: Final = b"content-length:"


class RefusedError(RuntimeError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, code: int, answer: bytes) -> None:
        super().__init__(f"{method} {path}: {code} {answer.decode(errors='replace')}")
        self.code = code


class Poster(Protocol):
    """Sends one request at a time."""

    async def post(self, path: str, body: bytes) -> None:
        """Returns once the answer has been read. Raises RefusedError if it is an error."""
        ...


class AiohttpPoster:
    """On a session that all posters share."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def post(self, path: str, body: bytes) -> None:
        """See `Poster`."""
        async with self._http.post(path, data=body) as response:
            answer = await response.read()
            if response.status >= 400:
                raise RefusedError("POST", path, response.status, answer)


class BarePoster:
    """On a connection of its own, open while the context lasts."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> None:
        address = urlsplit(url)
        self._host, self._port = address.hostname or "127.0.0.1", address.port
        self._tls = tls
        lines = {"Host": address.netloc, "Accept": JSON, **headers}
        self._content_type = lines.pop("Content-Type", JSON)
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def _connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)

    async def refresh(self) -> None:
        """Connects again if the server has closed the connection: kube-apiserver does when it is idle for 90 s."""
        if self._reader.at_eof():
            self._writer.close()
            await self._connect()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def post(self, path: str, body: bytes) -> None:
        """See `Poster`."""
        code, answer = await self.exchange("POST", path, body)
        if code >= 400:
            raise RefusedError("POST", path, code, answer)

    async def exchange(self, method: str, path: str, body: bytes, content_type: str = "") -> tuple[int, bytes]:
        """The status and the answer's body, whatever they are."""
        kind = content_type or self._content_type
        head = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        head_of_answer = await self._reader.readuntil(b"\r\n\r\n")
        return int(head_of_answer[9:12]), await self._body(head_of_answer.lower())

    async def _body(self, head: bytes) -> bytes:
        if _CHUNKED in head:
            return await self._chunks()
        length = head.partition(_LENGTH)[2].partition(b"\r\n")[0]
        return await self._reader.readexactly(int(length or 0))

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return body
