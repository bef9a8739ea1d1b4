"""Bytes of a stream to lines, however the network cuts them (no I/O)."""

from kscheduler.client.errors import NetworkError

LONGEST_LINE = 64 * 1024 * 1024
"""An object of etcd's default limit is 1.5 MiB; what is longer than this is no object."""


class LineTooLongError(NetworkError):
    """A line that no Kubernetes object can fill; the stream is not what it claims to be."""


class LineSplitter:
    """Feed chunks, get the complete lines, without their ends. A long line is not searched or copied twice."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._longest = longest

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes; empty ones are left out. Raises `LineTooLongError`."""
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
        """Bytes of a line that is not complete; not zero at the end of a stream that was cut."""
        return self._size
