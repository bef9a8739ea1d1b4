"""Where lines go: one stream for all, or two, of which the one for information may be buffered.

    one stream       everything to standard error, line by line
    split            information to standard output; warnings and errors to standard error
    split, buffered  the same, but information is written when the buffer is full, each few seconds, and at the end

Each line is a single write, from any thread. When a stream cannot be written any more (a full disk, a closed pipe), its
lines are lost and the service goes on. They are counted (`lost_lines`), and the first line that can be written again
brings one before it that tells their number. Limit: what Python's own buffer still holds may come after all, so the
number is the most that can be missing.
"""

import atexit
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final, TextIO

import msgspec

# Bytes: a larger buffer is made as large as this, as in kube-scheduler.
LARGEST_BUFFER: Final = 2**31
DEFAULT_FLUSH_SECONDS: Final = 5.0


class SplitStream(msgspec.Struct, frozen=True):
    """How information is kept apart from warnings and errors."""

    buffer_bytes: int = 0
    """0: not buffered."""
    flush_seconds: float = DEFAULT_FLUSH_SECONDS
    """How long a line may stay in the buffer."""


# From the number of lines that were lost to a line that says so.
ReportLost = Callable[[int], str]
# Of the process.
_lost = {"lines": 0}


def lost_lines() -> int:
    """Lines that could not be written since the process began."""
    return _lost["lines"]


class LogStream:
    """A stream of lines, written at once."""

    def __init__(self, stream: TextIO, report_lost: ReportLost | None = None) -> None:
        self._stream = stream
        self._report_lost = report_lost
        self._lost = 0
        """Lines that were lost since the last one that was written."""
        self._lock = Lock()
        self._is_mute = False

    def write(self, line: str) -> None:
        """Write a line, or lose it."""
        with self._lock:
            self._put(f"{line}\n")

    def close(self) -> None:
        """Write what is left."""

    def mute(self) -> None:
        """Lose all further lines. In a copy of the process: the lock may be held by a thread that is not there."""
        self._lock = Lock()
        self._is_mute = True

    def _put(self, text: str, lines: int = 1) -> None:
        if self._is_mute:
            return
        if self._lost and self._report_lost is not None:
            text = f"{self._report_lost(self._lost)}\n{text}"
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # full or closed
            self._lost += lines
            _lost["lines"] += lines
        else:
            self._lost = 0


class BufferedLogStream(LogStream):
    """The same, with a buffer that a thread empties. A line that does not fit is never cut: the buffer goes first."""

    def __init__(self, stream: TextIO, split: SplitStream, report_lost: ReportLost | None = None) -> None:
        super().__init__(stream, report_lost)
        self._most = min(split.buffer_bytes, LARGEST_BUFFER)
        self._waiting: list[str] = []
        self._bytes = 0
        self._closing = Event()
        self._flush_seconds = split.flush_seconds
        self._flusher = Thread(target=self._flush_for_ever, name="log-flush", daemon=True)
        self._flusher.start()
        atexit.register(self.close)

    def write(self, line: str) -> None:
        """Keep a line, or write it if it is larger than the whole buffer."""
        text = f"{line}\n"
        size = len(text.encode("utf-8", "surrogatepass"))
        with self._lock:
            if self._bytes + size > self._most:
                self._empty()
            if size > self._most:
                self._put(text)
                return
            self._waiting.append(text)
            self._bytes += size

    def flush(self) -> None:
        """Write what waits."""
        with self._lock:
            self._empty()

    def close(self) -> None:
        """End the thread and write what is left; later lines wait until the buffer is full."""
        self._closing.set()
        atexit.unregister(self.close)
        self.flush()

    def _flush_for_ever(self) -> None:
        while not self._closing.wait(self._flush_seconds):
            self.flush()

    def _empty(self) -> None:
        if self._waiting:
            text, lines = "".join(self._waiting), len(self._waiting)
            self._waiting.clear()
            self._bytes = 0
            self._put(text, lines)


class Outlets(msgspec.Struct, frozen=True):
    """The streams of the process's log."""

    information: LogStream
    trouble: LogStream
    """For warnings and errors."""

    def close(self) -> None:
        """Write what is left."""
        self.information.close()

    def mute(self) -> None:
        """Lose all further lines."""
        self.information.mute()
        self.trouble.mute()


def outlets_over(
    standard_error: TextIO, standard_output: TextIO, split: SplitStream | None, report_lost: ReportLost | None = None
) -> Outlets:
    """The streams as asked for; `split` `None`: all lines go to standard error."""
    trouble = LogStream(standard_error, report_lost)
    if split is None:
        return Outlets(trouble, trouble)
    if not split.buffer_bytes:
        return Outlets(LogStream(standard_output, report_lost), trouble)
    return Outlets(BufferedLogStream(standard_output, split, report_lost), trouble)
