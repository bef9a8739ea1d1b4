"""A recording on disk: segments of blocks with checksums in a directory of bounded size, and how they are read."""

import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from kscheduler.recorder.entries import EntryReader

# Blocks: the unit that is either whole or not there.
#
#     segment   MAGIC | version (2 bytes) | block | block | ...
#     block     length (4) | number (4) | crc32 (4) | data         little endian; the checksum covers number and data
#
# Data are one zlib stream through the whole segment, flushed at the end of each block: the window of what was written
# before makes names and keys cheap, and a reader that has all blocks before can read this one. A process may be killed
# at any byte: the last block is then too short or its checksum is wrong, and everything before it is good.

MAGIC: Final = b"KSCHEDREC"
# Grows when an older reader would misread a block or an entry in it.
FORMAT_VERSION: Final = 3
# Of compression: 4 times as fast as the default, for a tenth more bytes.
LEVEL: Final = 1
# A longer block is not believed; it also bounds what a reader unpacks at a time.
MAX_BLOCK_BYTES: Final = 64 << 20

_HEAD: Final = struct.Struct("<H")
_FRAME: Final = struct.Struct("<III")
HEADER: Final = MAGIC + _HEAD.pack(FORMAT_VERSION)


class SegmentError(Exception):
    """The file is no segment, or one of a version that is not known. The message names the reason."""


class BlockPacker:
    """From data to blocks, in order."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(LEVEL)
        self._number = 0

    def pack(self, data: bytes) -> bytes:
        """The block with these data. Releases the GIL while it compresses."""
        packed = self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)
        number = self._number
        self._number += 1
        return _FRAME.pack(len(packed), number, _checksum(number, packed)) + packed


class BlockReader:
    """The blocks of a segment up to the first that is not whole."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises `SegmentError` for what is no segment; an empty file, or a header that was cut, has no blocks."""
        self._file = file
        self.stopped = ""
        """Why reading ended before the end of the file; empty: it did not, or has not yet."""
        self.is_damaged = False
        """It did not merely end too early, as after a kill: what is there is not what was written."""
        self.position = 0
        """Bytes of the file that are good."""
        self._is_cut = False
        head = file.read(len(HEADER))
        if head == HEADER:
            self.position = len(HEADER)
        elif HEADER.startswith(head):
            self._is_cut, self.stopped = True, "it was cut within its header"
        elif not head.startswith(MAGIC):
            raise SegmentError("it is no recording of kscheduler")
        else:
            version = _HEAD.unpack(head[len(MAGIC) :])[0]
            raise SegmentError(f"it has version {version} of the format, and this kscheduler reads {FORMAT_VERSION}")

    def __iter__(self) -> Iterator[bytes]:
        stream, number = zlib.decompressobj(), 0
        while not self._is_cut:
            frame = self._file.read(_FRAME.size)
            if not frame:
                return
            data = self._block(frame, number)
            if data is None:
                return
            try:
                unpacked = stream.decompress(data, MAX_BLOCK_BYTES)
            except zlib.error as problem:
                self._damaged(f"block {number} cannot be unpacked: {problem}")
                return
            if stream.unconsumed_tail:
                self._damaged(f"block {number} is longer than {MAX_BLOCK_BYTES >> 20} MiB")
                return
            self.position += _FRAME.size + len(data)
            number += 1
            yield unpacked

    def _block(self, frame: bytes, expected: int) -> bytes | None:
        if len(frame) < _FRAME.size:
            self._cut(expected)
            return None
        length, number, checksum = _FRAME.unpack(frame)
        if number != expected or length > MAX_BLOCK_BYTES:
            self._damaged(f"block {expected} does not begin where it should")
            return None
        data = self._file.read(length)
        if len(data) < length:
            self._cut(expected)
            return None
        if _checksum(number, data) != checksum:
            self._damaged(f"block {expected} has a wrong checksum")
            return None
        return data

    def _damaged(self, how: str) -> None:
        self.is_damaged, self.stopped = True, how

    def _cut(self, number: int) -> None:
        self.stopped = f"it was cut within block {number}"


def _checksum(number: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(number.to_bytes(4, "little")))


# The directory of a recording: segments of one run after another, the oldest of which make room.
#
# 20261124T153000Z-4711-000003.ksrec        when the run began, its process, the segment's number in the run
#
# Who reads also finds a copy under another name, by what it begins with. Who writes deletes files with such names only.

SUFFIX: Final = ".ksrec"
_NAME: Final = re.compile(r"(?P<run>\d{8}T\d{6}Z-\d+)-(?P<number>\d{6,})\.ksrec")


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """Where a segment is in the order of all."""

    run: str
    number: int
    path: Path


def name_of(path: Path) -> SegmentName | None:
    """The name's parts; `None`: no segment of ours has such a name."""
    found = _NAME.fullmatch(path.name)
    return None if found is None else SegmentName(found["run"], int(found["number"]), path)


def new_run(seconds: float, process: int) -> str:
    """The name of a run that begins now (seconds since the epoch)."""
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}-{process}"


def segment_path(directory: Path, run: str, number: int) -> Path:
    """Where a segment is written."""
    return directory / f"{run}-{number:06}{SUFFIX}"


def segments_in(directory: Path) -> list[SegmentName]:
    """All segments, by run and number; other files and directories are left out. Raises `OSError`."""
    return sorted(name for path in directory.iterdir() if (name := name_of(path)) is not None and path.is_file())


def runs_in(directory: Path) -> Iterator[list[SegmentName]]:
    """The segments of each run, the oldest run first. Raises `OSError`."""
    for _, segments in groupby(segments_in(directory), key=lambda name: name.run):
        yield list(segments)


def others_in(directory: Path) -> list[SegmentName]:
    """Files with other names that begin as segments do, or end in `.ksrec`: each a run of its own. Raises `OSError`."""
    paths = (path for path in directory.iterdir() if name_of(path) is None and path.is_file())
    return sorted(SegmentName(path.name, 1, path) for path in paths if path.suffix == SUFFIX or _begins_as_ours(path))


def _begins_as_ours(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False  # somebody else's file, which we may not read


def make_room(directory: Path, most_bytes: int, spared: Path) -> list[Path]:
    """Delete the oldest segments until all are within `most_bytes`, except the one being written. Returns the deleted.

    Raises `OSError`.
    """
    found = [(name, name.path.stat().st_size) for name in segments_in(directory)]
    total, deleted = sum(size for _, size in found), []
    for name, size in found:
        if total <= most_bytes:
            break
        if name.path != spared:
            name.path.unlink(missing_ok=True)
            deleted.append(name.path)
            total -= size
    return deleted


def room_for(directory: Path) -> int:
    """Bytes that a recording may take there: what the volume has free, and the segments that it may delete.

    Raises `OSError`.
    """
    return shutil.disk_usage(directory).free + sum(name.path.stat().st_size for name in segments_in(directory))


def is_writable(directory: Path) -> str:
    """Why nothing can be written there; empty: it can. The directory is made if its parent is there."""
    try:
        directory.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        return f"{directory}: is not a directory"
    except OSError as problem:
        if not directory.parent.is_dir():
            return f"{directory}: it cannot be made: there is no directory {directory.parent}"
        return f"{directory}: it cannot be made there: {problem.strerror or problem}"
    return "" if os.access(directory, os.W_OK | os.X_OK) else f"{directory}: it cannot be written to"


# Entries of a segment, up to the last whole block.

_decode = msgspec.msgpack.Decoder(list[list[list[Any] | int]]).decode


class SegmentReader:
    """Reads one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.stopped = ""
        """Why reading ended before the end of the file, for people; empty: it did not."""
        self.is_damaged = False
        """It stopped at something that no recorder has written, and not at an end that came too early."""

    def blocks(self) -> Iterator[list[Any]]:
        """The entries of each block. Raises `SegmentError` and `OSError`; a damaged end is no error but `stopped`."""
        with self._path.open("rb") as file:
            try:
                reader = BlockReader(file)
            except SegmentError as problem:
                raise SegmentError(f"{self._path}: {problem}") from None
            timed = EntryReader()
            for data in reader:
                try:
                    entries = [entry for batch in _decode(data) for entry in timed.entries(batch)]
                except (ValueError, IndexError, TypeError) as problem:  # msgspec's errors are ValueErrors
                    self.is_damaged, self.stopped = True, f"a block holds no entries: {problem}"
                    return
                yield entries
            self.is_damaged, self.stopped = reader.is_damaged, reader.stopped
