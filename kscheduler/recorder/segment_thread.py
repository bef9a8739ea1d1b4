"""The thread that packs entries and writes them.

It holds the interpreter only for some dozens of entries at a time, so that the event loop is never kept waiting;
compressing and writing do not hold it at all. What cannot be written is told once, tried again every 30 s, and never
disturbs who decides.
"""

import errno
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from kscheduler.logs import get_logger
from kscheduler.logs.caught import Boundary, count_caught
from kscheduler.recorder.entries import UNTIMED, Digest, Op, Verb
from kscheduler.recorder.file.blocks import HEADER, BlockPacker
from kscheduler.recorder.file.directory import is_writable, make_room, segment_path
from kscheduler.recorder.packing import ObjectPacker
from kscheduler.recorder.redaction.redacting import NO_REDACTION, Redaction

_log = get_logger(__name__)

SLICE: Final = 64
"""Entries that are packed before others may have the interpreter."""
PAUSE_SECONDS: Final = 0.0005
"""What is left to others between two slices."""
BLOCK_ENTRIES: Final = 2048
RETRY_SECONDS: Final = 30.0
"""After which writing is tried again where it has failed."""
END_SECONDS: Final = 5.0
"""How long the end of the process waits for what is still to be written."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class NewSegment:
    """From here on entries go into another segment, which begins with these."""

    micros: int
    """The time to which the first entry's is relative."""
    snapshot: Callable[[], Iterable[Sequence[Any]]]
    missing: int
    """Entries that were lost before it."""


@dataclass(frozen=True, slots=True)
class ThreadStatistics:
    """What came of writing."""

    written_bytes: int
    segments: int
    """Begun by this process."""
    discarded: int
    """Entries that were handed over and could not be written."""
    failures: int
    problem: str
    """Why nothing is written now; empty: all is well."""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """Where segments go, and when they end."""

    directory: Path
    run: str
    most_bytes: int
    segment_bytes: int
    segment_seconds: float


class SegmentThread:
    """Writes one recording."""

    def __init__(self, settings: WriteSettings, redaction: Redaction = NO_REDACTION) -> None:
        self._settings = settings
        self._redaction = redaction
        self._queue: queue.SimpleQueue[NewSegment | list[tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flight recorder", daemon=True)
        self._lock = threading.Lock()
        self.waiting = 0
        """Entries that were put and are not written yet."""
        self.takes_entries = True
        """Whether there is a segment; false from a failure to the next segment."""
        self._is_ended = False
        self._segment: _Segment | None = None
        self._digest = Digest()
        self._micros = 0
        self._number = self._written = self._failures = 0
        self._discarded = self._missing = 0
        """Entries that were handed over and not written; entries that are missing before the next segment."""
        self._problem = ""
        self._try_after = 0.0
        self._resources: Sequence[str] = ()
        """What kinds are recorded, by number."""

    # --- for the event loop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, item: NewSegment | list[tuple[Any, ...]], entries: int) -> None:
        """Hand over. Entries must follow their segment."""
        if isinstance(item, NewSegment):
            self.takes_entries = True
        with self._lock:
            self.waiting += entries
        self._queue.put(item)

    def is_idle(self) -> bool:
        """Whether everything is written, or was given up."""
        return self._queue.empty() and not self.waiting

    def may_try(self) -> bool:
        """Whether it is time to try after a failure."""
        return time.monotonic() >= self._try_after

    def wants_segment(self) -> bool:
        """Whether the segment is large or old enough."""
        segment, settings = self._segment, self._settings
        if segment is None:
            return False
        is_old = time.monotonic() - segment.began >= settings.segment_seconds
        return segment.size >= settings.segment_bytes or is_old

    def stop(self) -> None:
        """Write what waits and end; at most some seconds."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def statistics(self) -> ThreadStatistics:
        """A snapshot."""
        return ThreadStatistics(self._written, self._number, self._discarded, self._failures, self._problem)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                self._close()
                return
            try:
                self._take(item)
            except OSError as problem:
                self._failed(f"{problem.filename or self._settings.directory}: {problem.strerror or problem}")
            except Exception as problem:  # noqa: BLE001  a bug here must not end the recording of what follows
                count_caught(Boundary.TASK)
                _log.exception("recording_failed")
                self._failed(f"{type(problem).__name__}: {problem}")

    def _take(self, item: NewSegment | list[tuple[Any, ...]]) -> None:
        if isinstance(item, NewSegment):
            self._begin(item)
            return
        is_written = False
        try:
            if self._segment is not None:
                self._write(self._segment, item)
                is_written = True
        finally:
            with self._lock:
                self.waiting -= len(item)
            if not is_written:
                self._discarded += len(item)
                self._missing += len(item)

    def _failed(self, problem: str) -> None:
        self._close()
        self.takes_entries = False
        self._failures += 1
        self._try_after = time.monotonic() + RETRY_SECONDS
        if problem != self._problem:
            advice = f"scheduling goes on; writing is tried again every {RETRY_SECONDS:g} s"
            _log.warning("recording_interrupted", err=problem, advice=advice)
        self._problem = problem

    def _begin(self, new: NewSegment) -> None:
        self._close()
        settings = self._settings
        problem = is_writable(settings.directory)
        if problem:
            self._failed(problem)
            return
        path = segment_path(settings.directory, settings.run, self._number + 1)
        segment = self._segment = _Segment(path, self._redaction)
        self._make_room(segment.path)
        self._micros = new.micros
        self._missing += new.missing
        lost = [(Op.LOST, self._missing)] if self._missing else []
        before = (Op.SNAPSHOT, "digest", self._digest.value, self._digest.decisions)
        try:
            self._write(segment, [*lost, before, *new.snapshot()])
        except OSError:  # without its whole snapshot it is of no use, and the next try would leave one more
            with suppress(OSError):
                path.unlink()
            self._number += path.exists()  # the number is free again only if the file is gone
            raise
        self._number += 1
        if self._missing:
            _log.warning(
                "recording_has_a_gap",
                entries=self._missing,
                path=str(path),
                advice="this segment begins with a snapshot",
            )
        self._missing = 0
        if self._problem:
            _log.info("recording_resumed", path=str(path))
            self._problem = ""
        elif self._number == 1:
            is_redacted = self._redaction.is_on
            _log.info(
                "recording_started", directory=str(path.parent), max_bytes=settings.most_bytes, redacted=is_redacted
            )

    def _close(self) -> None:
        segment, self._segment = self._segment, None
        if segment is not None:
            segment.close()

    def _make_room(self, spared: Path) -> None:
        settings = self._settings
        room = settings.most_bytes - settings.segment_bytes
        for path in make_room(settings.directory, max(room, 0), spared):
            _log.info("segment_deleted", path=str(path), reason="the recording has its full size")

    def _write(self, segment: "_Segment", entries: Sequence[Sequence[Any]]) -> None:
        for start in range(0, len(entries), BLOCK_ENTRIES):
            packed: list[Any] = []
            for first in range(start, min(start + BLOCK_ENTRIES, len(entries)), SLICE):
                packed += [
                    self._packed(segment.objects, entry)
                    for entry in entries[first : min(first + SLICE, start + BLOCK_ENTRIES)]
                ]
                if not self._queue.qsize() > 100:  # otherwise the thread must catch up
                    time.sleep(PAUSE_SECONDS)
            packed.append((Op.DIGEST, self._digest.decisions, self._digest.close()))
            written = segment.write(_encode(packed))
            self._written += written

    def _packed(self, objects: ObjectPacker, entry: Sequence[Any]) -> Sequence[Any]:
        op = entry[0]
        if op in UNTIMED:
            return self._packed_snapshot(objects, entry) if op is Op.SNAPSHOT else entry
        micros, self._micros = entry[1] - self._micros, entry[1]
        if op is Op.OBJECT:
            _, _, kind, verb, old, new = entry
            if verb is Verb.UPDATED:
                return op, micros, kind, verb, objects.key(old), objects.update(old, new)
            if verb is Verb.DELETED:
                return op, micros, kind, verb, objects.key(old), ()
            return op, micros, kind, verb, objects.key(new), objects.whole(new)
        if op is Op.CLAIM:
            return op, micros, objects.whole(entry[2])
        if op is Op.ADOPTED:
            return op, micros, self._settings_of(entry[2]), entry[3]
        packed = self._redaction.entry((op, micros, *entry[2:]))
        self._digest.add(packed)
        return packed

    def _packed_snapshot(self, objects: ObjectPacker, entry: Sequence[Any]) -> Sequence[Any]:
        if entry[1] in ("objects", "versions"):
            return (*entry[:3], [objects.whole(obj) for obj in entry[3]])
        if entry[1] == "configuration":
            self._resources = entry[4]
            return (*entry[:2], self._settings_of(entry[2]), *entry[3:])
        if entry[1] == "state":
            return (*entry[:2], self._redaction.state(entry[2], self._resources))
        return entry

    def _settings_of(self, config: Any) -> Any:
        return self._redaction.settings(config() if callable(config) else config)


class _Segment:
    """The file that is being written."""

    def __init__(self, path: Path, redaction: Redaction) -> None:
        """Raises `OSError`; then there is no such file."""
        self.path = path
        self.began = time.monotonic()
        self.size = 0
        self.objects = ObjectPacker(redaction)
        self._blocks = BlockPacker()
        self._file: IO[bytes] = path.open("xb", buffering=0)
        try:
            path.chmod(0o600)
            self._file.write(HEADER)
        except OSError:  # a full disk still makes files: each try would leave an empty one
            self._file.close()
            path.unlink(missing_ok=True)
            raise

    def write(self, data: bytes) -> int:
        """Append a block; returns its bytes. Raises `OSError`: then its end is not whole, and it must be closed."""
        if not os.fstat(self._file.fileno()).st_nlink:  # what is written to it would be lost without an error
            raise FileNotFoundError(errno.ENOENT, "the file was deleted while it was written", str(self.path))
        block = memoryview(self._blocks.pack(data))
        left = block
        while left:  # a raw file may take a part only
            left = left[self._file.write(left) :]
        self.size += len(block)
        return len(block)

    def close(self) -> None:
        """No more is written to it."""
        self._file.close()
