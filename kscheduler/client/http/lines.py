"""Splits the chunks of a stream into lines (no I/O)."""

from kscheduler.client.errors import NetworkError

# etcd's default limit for an object is 1.5 MiB, and few raise it; a longer line than this is not an object.
LONGEST_LINE = 16 * 1024 * 1024


class LineTooLongError(NetworkError):
    """A line longer than any Kubernetes object; the stream is not a watch."""


class LineSplitter:
    """Feed chunks, get complete lines without line ends. A long line is neither searched nor copied twice."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without empty lines. Raises `LineTooLongError`."""
        head, newline, tail = chunk.partition(b"\n")
        if not newline:
            self._keep(chunk)
            return []
        first = b"".join((*self._parts, head))
        lines = [first, *tail.split(b"\n")]
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
