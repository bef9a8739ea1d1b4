"""Batches of entries as blocks, and the thread that writes them.

    the loop puts a batch   compressed on the loop, 64 KiB at a time; the thread writes the blocks
    a segment begins        the thread packs and writes its snapshot; what is put meanwhile is held back until then

A thread that waits for the interpreter while the loop works is woken each time numpy lets go of it, which costs the
loop more than compressing. So the thread has as little as possible to do: what a disk may hold up, and the snapshots,
for which it holds the interpreter for some dozens of entries at a time. What cannot be written is told once, tried
again every 30 s, and never disturbs who decides.
"""

import errno
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from kscheduler.recorder.blocks import HEADER, BlockPacker
from kscheduler.recorder.entries import Digest, Entry, Item, Op, array_of, batch_of
from kscheduler.recorder.packing import ObjectPacker
from kscheduler.recorder.redaction import NO_REDACTION, Redaction
from kscheduler.recorder.segments import is_writable, make_room, room_for, segment_path
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

_log = get_logger(__name__)

# Batches that are compressed when one is put, where some were held back.
AT_ONCE: Final = 3
# Entries of a snapshot that are packed before others may have the interpreter.
SLICE: Final = 64
# What is left to others between two slices.
PAUSE_SECONDS: Final = 0.0005
BLOCK_ENTRIES: Final = 2048
# Of batches, after which they become a block: a fifth of a millisecond of compressing.
BLOCK_BYTES: Final = 1 << 16
# Of blocks, after which the thread is woken to write them.
WRITE_BYTES: Final = 1 << 16
# After which writing is tried again where it has failed.
RETRY_SECONDS: Final = 30.0
# How long the end of the process waits for what is still to be written.
END_SECONDS: Final = 5.0

_encode = msgspec.msgpack.Encoder().encode


class NewSegment(msgspec.Struct, frozen=True):
    """From here on entries go into another segment, which begins with these."""

    snapshot: Callable[[], Iterable[Entry]]
    missing: int
    """Entries that were lost before it."""
    digest: bytes
    """Over all outcomes before it."""
    decisions: int
    """How many it covers."""


class Batch(msgspec.Struct, frozen=True):
    """Entries that were encoded together."""

    data: bytes
    entries: int


class _Blocks(msgspec.Struct, frozen=True):
    """What is to be appended to the segment."""

    data: bytes
    entries: int


class _Unpackable(msgspec.Struct, frozen=True):
    """Entries that could not be packed: a bug."""

    problem: str
    entries: int


class ThreadStatistics(msgspec.Struct, frozen=True):
    """What came of writing."""

    written_bytes: int
    segments: int
    """Begun by this process."""
    discarded: int
    """Entries that were handed over and could not be written."""
    failures: int
    problem: str
    """Why nothing is written now; empty: all is well."""


class WriteSettings(msgspec.Struct, frozen=True):
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
        self._queue: queue.SimpleQueue[NewSegment | _Blocks | _Unpackable | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="flight recorder", daemon=True)
        self._lock = threading.Lock()
        self.waiting = 0
        """Entries that were put and are not written yet."""
        self.takes_entries = True
        """Whether there is a segment; false from a failure to the next segment."""
        self._beginnings = 0
        """Segments that the thread has not begun yet. While there is one, the loop must not pack."""
        self._held: deque[Batch] = deque()
        """Batches that wait for the beginning of their segment."""
        self._batches: list[bytes] = []
        self._batches_bytes = 0
        """Not in a block yet."""
        self._blocks: list[bytes] = []
        self._blocks_bytes = 0
        self._packed_entries = 0
        """In batches and blocks that are not handed over yet."""
        self._segment: _Segment | None = None
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

    def begin(self, segment: NewSegment) -> None:
        """What is put from now on goes into another segment."""
        self.flush()
        self.takes_entries = True
        with self._lock:
            self._beginnings += 1
        self._queue.put(segment)

    def put(self, batch: Batch) -> None:
        """Record it; it must follow a segment's beginning."""
        with self._lock:
            self.waiting += batch.entries
        self._held.append(batch)
        self._take_held(AT_ONCE)
        if self._batches_bytes >= BLOCK_BYTES:
            self._make_block()
        if self._blocks_bytes >= WRITE_BYTES:
            self._hand_over()

    def put_unpackable(self, problem: str, entries: int) -> None:
        """Entries could not be packed, which is a bug: nothing more is written to this segment."""
        with self._lock:
            self.waiting += entries
        self.flush()
        self.takes_entries = False
        self._queue.put(_Unpackable(problem, entries))

    def is_behind(self) -> bool:
        """Whether what is put is held back: no other segment may begin before it is in a block."""
        return self._beginnings > 0 or bool(self._held)

    def catch_up(self) -> None:
        """Take some of what is held back, and have written what is in blocks."""
        self._take_held(AT_ONCE)
        self._hand_over()

    def flush(self) -> None:
        """Have written all that was put, unless its segment has not begun yet."""
        self._take_held(len(self._held))
        self._hand_over()

    def finish(self) -> None:
        """Take nothing any more: from here on the thread alone takes what is held back; it writes it all and ends."""
        self.flush()
        self.takes_entries = False
        self._queue.put(None)

    def _take_held(self, most: int) -> None:
        if self._beginnings:
            return
        for _ in range(min(most, len(self._held))):
            batch = self._held.popleft()
            if self._segment is not None:  # otherwise the thread counts them as lost
                self._batches.append(batch.data)
                self._batches_bytes += len(batch.data)
            self._packed_entries += batch.entries

    def _make_block(self) -> None:
        if self._batches and self._segment is not None:
            self._blocks.append(self._segment.packed(self._batches))
            self._blocks_bytes += len(self._blocks[-1])
        self._batches.clear()
        self._batches_bytes = 0

    def _hand_over(self) -> None:
        self._make_block()
        if self._packed_entries:
            self._queue.put(_Blocks(b"".join(self._blocks), self._packed_entries))
            self._blocks.clear()
            self._blocks_bytes = self._packed_entries = 0

    def is_idle(self) -> bool:
        """Whether everything is written, or was given up."""
        return self._queue.empty() and not self.waiting and not self._beginnings

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

    def join(self) -> None:
        """Wait for the thread's end after `finish`; at most some seconds."""
        if self._thread.is_alive():
            self._thread.join(END_SECONDS)

    def statistics(self) -> ThreadStatistics:
        return ThreadStatistics(self._written, self._number, self._discarded, self._failures, self._problem)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            item = self._queue.get()
            try:
                if item is None:
                    self._write_held()
                else:
                    self._take(item)
            except OSError as problem:
                self._failed(f"{problem.filename or self._settings.directory}: {problem.strerror or problem}")
            except Exception as problem:  # noqa: BLE001  a bug here must not end the recording of what follows
                count_caught(Boundary.TASK)
                _log.exception("recording_failed")
                self._failed(f"{type(problem).__name__}: {problem}")
            if item is None:
                self._close()
                return

    def _write_held(self) -> None:
        while self._held and self._segment is not None:
            batch = self._held.popleft()
            self._written += self._segment.append(self._segment.packed([batch.data]))
            with self._lock:
                self.waiting -= batch.entries

    def _take(self, item: NewSegment | _Blocks | _Unpackable) -> None:
        if isinstance(item, NewSegment):
            try:
                self._begin(item)
            finally:
                with self._lock:
                    self._beginnings -= 1
            return
        is_written = False
        try:
            if isinstance(item, _Unpackable):
                self._failed(item.problem)
            elif self._segment is not None:
                self._written += self._segment.append(item.data)
                is_written = True
        finally:
            with self._lock:
                self.waiting -= item.entries
            if not is_written:
                self._discarded += item.entries
                self._missing += item.entries

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
        segment = self._segment = _Segment(path)
        self._make_room(segment.path)
        self._missing += new.missing
        lost = [(Op.LOST, self._missing)] if self._missing else []
        before = (Op.SNAPSHOT, "digest", new.digest, new.decisions)
        try:
            self._write(segment, [*lost, before, *new.snapshot()], Digest(new.digest, new.decisions))
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
            self._warn_of_little_room(path.parent)

    def _warn_of_little_room(self, directory: Path) -> None:
        """A volume that fills up before the oldest segments go stops the recording, and may stop others."""
        try:
            room = room_for(directory)
        except OSError:
            return  # the next write there raises with the reason
        if room < self._settings.most_bytes:
            advice = "the volume is full before the oldest files are deleted: lower --record-max-size, or enlarge it"
            _log.warning(
                "recording_may_fill_its_volume",
                directory=str(directory),
                max_bytes=self._settings.most_bytes,
                free_bytes=room,
                advice=advice,
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

    def _write(self, segment: "_Segment", entries: Sequence[Entry], digest: Digest) -> None:
        objects = ObjectPacker(self._redaction)
        for start in range(0, len(entries), BLOCK_ENTRIES):
            packed: list[Item] = []
            end = min(start + BLOCK_ENTRIES, len(entries))
            for first in range(start, end, SLICE):
                packed += [self._packed(objects, entry) for entry in entries[first : min(first + SLICE, end)]]
                time.sleep(PAUSE_SECONDS)
            self._written += segment.append(segment.packed([batch_of(packed, (), digest)]))

    def _packed(self, objects: ObjectPacker, entry: Entry) -> Entry:
        if entry[1] in ("objects", "versions"):
            # Encoded one by one, so that others have the interpreter in between.
            return (*entry[:3], [msgspec.Raw(_encode(objects.whole(obj))) for obj in entry[3]])
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

    def __init__(self, path: Path) -> None:
        """Raises `OSError`; then there is no such file."""
        self.path = path
        self.began = time.monotonic()
        self.size = 0
        self._blocks = BlockPacker()
        self._file: IO[bytes] = path.open("xb", buffering=0)
        try:
            path.chmod(0o600)
            self._file.write(HEADER)
        except OSError:  # a full disk still makes files: each try would leave an empty one
            self._file.close()
            path.unlink(missing_ok=True)
            raise

    def packed(self, batches: Sequence[bytes]) -> bytes:
        """The block with these batches: blocks must be appended in the order in which they are packed."""
        return self._blocks.pack(array_of(batches))

    def append(self, blocks: bytes) -> int:
        """Returns their bytes. Raises `OSError`: then its end is not whole, and it must be closed."""
        if not os.fstat(self._file.fileno()).st_nlink:  # what is written to it would be lost without an error
            raise FileNotFoundError(errno.ENOENT, "the file was deleted while it was written", str(self.path))
        left = memoryview(blocks)
        while left:  # a raw file may take a part only
            left = left[self._file.write(left) :]
        self.size += len(blocks)
        return len(blocks)

    def close(self) -> None:
        """No more is written to it."""
        self._file.close()
