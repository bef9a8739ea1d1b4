"""As much of HTTP/1.1 as a proxy needs that damages it: heads and bodies of messages, read from streams.

aiohttp would repair, refuse or hide what this suite wants to send: half a chunk, a body shorter than it says.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

LONGEST_HEAD = 1 << 20
READ_BYTES = 1 << 16


class MessageEndedError(ConnectionError):
    """The other side closed within a message."""


@dataclass(slots=True)
class Head:
    """A start line and its headers, names as they came."""

    start: str
    headers: list[tuple[str, str]]

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def code(self) -> int:
        """Of a response."""
        return int(self.start.split(" ", 2)[1])

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.get("transfer-encoding").lower()

    @property
    def may_go_on(self) -> bool:
        """Whether the connection may carry another message."""
        return self.get("connection").lower() != "close"

    def without(self, *names: str) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.headers if key.lower() not in names]


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends the connection by a RST; an aborted transport alone says farewell in order."""
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() >= 0:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next message's head; None when the other side has closed before it."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise MessageEndedError from error
        return None
    start, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(start, [(name, value.strip()) for name, _, value in pairs])


def head_bytes(start: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = (start, *(f"{name}: {value}" for name, value in headers), "", "")
    return "\r\n".join(lines).encode("latin-1")


def chunk_bytes(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def pieces(reader: asyncio.StreamReader, head: Head, *, has_body: bool = True) -> AsyncIterator[bytes]:
    """The body as it comes, without its framing. Raises `MessageEndedError` where it ends too early."""
    try:
        if head.is_chunked:
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                data = await reader.readexactly(size + 2)
                yield data[:-2]
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass  # trailers
        elif length := head.get("content-length"):
            left = int(length)
            while left:
                data = await reader.read(min(left, READ_BYTES))
                if not data:
                    raise MessageEndedError
                left -= len(data)
                yield data
        elif has_body:
            while data := await reader.read(READ_BYTES):
                yield data
    except asyncio.IncompleteReadError as error:
        raise MessageEndedError from error


async def read_body(reader: asyncio.StreamReader, head: Head, *, has_body: bool = True) -> bytes:
    return b"".join([piece async for piece in pieces(reader, head, has_body=has_body)])


async def lines(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """The lines of a stream, each with its end."""
    rest = b""
    async for piece in pieces(reader, head):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest
