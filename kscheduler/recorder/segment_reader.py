"""Entries of a segment, up to the last whole block."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.recorder.entries import EntryReader
from kscheduler.recorder.file.blocks import BlockReader, SegmentError

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
