"""Blocks: the unit of a segment that is either whole or not there.

    segment   MAGIC | version (2 bytes) | block | block | ...
    block     length (4) | number (4) | crc32 (4) | data         little endian; the checksum covers number and data

Data are one zlib stream through the whole segment, flushed at the end of each block: the window of what was written
before makes names and keys cheap, and a reader that has all blocks before can read this one. A process may be killed
at any byte: the last block is then too short or its checksum is wrong, and everything before it is good.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import IO, Final

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
