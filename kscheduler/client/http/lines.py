"""The lines of a watch."""

from collections.abc import AsyncIterator, Awaitable, Callable

from kscheduler.client.errors import LineTooLongError, NetworkError
from kscheduler.client.failure_text import network_error
from kscheduler.client.http.http1 import MalformedResponseError

# etcd's default limit for an object is 1.5 MiB, and few raise it; a longer line than this is not an object.
LONGEST_LINE = 16 * 1024 * 1024


class LineSplitter:
    """Feed chunks, get complete lines without line ends. A long line is neither searched nor copied twice."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without empty lines. Raises `LineTooLongError`."""
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
            self._size = 0
        self._keep(lines.pop())
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._longest:
            message = f"a line of more than {self._longest} bytes"
            raise LineTooLongError(message)
        if part:
            self._parts.append(part)

    @property
    def pending(self) -> int:
        """Bytes of the incomplete line; not zero at the end of a stream that was cut."""
        return self._size


class LineStream:
    """The lines of a watch, in batches as the network brings them: `async for lines in stream`.

    Ends when the server ends the stream. Raises `StalledError` after the inactivity time and `NetworkError` when the
    connection breaks.
    """

    def __init__(
        self,
        next_bytes: Callable[[], Awaitable[bytes]],
        path: str,
        heard: Callable[[], None],
        failed: Callable[[BaseException, str, str], NetworkError],
    ) -> None:
        """`next_bytes` are empty at the end; `heard` is called when some have arrived; `failed` turns the transport's
        exception into the caller's error.
        """
        self._next_bytes = next_bytes
        self._path = path
        self._heard = heard
        self._failed = failed
        self._splitter = LineSplitter()

    def __aiter__(self) -> AsyncIterator[list[bytes]]:
        return self._batches()

    async def _batches(self) -> AsyncIterator[list[bytes]]:
        while chunk := await self._read():
            self._heard()
            if lines := self._splitter.feed(chunk):
                yield lines

    async def _read(self) -> bytes:
        try:
            return await self._next_bytes()
        except TimeoutError as error:
            # Whether the server is away shows when the watch is opened again, or by the probe of a quiet time.
            raise network_error(error, "GET", self._path) from error
        except (OSError, MalformedResponseError) as error:
            raise self._failed(error, "GET", self._path) from error
