"""The directory of a recording: segments of one run after another, the oldest of which make room; and their reader.

    20261124T153000Z-4711-000003.ksrec        when the run began, its process, the segment's number in the run

Who reads also finds a copy under another name, by what it begins with. Who writes deletes files with such names only.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.recorder.blocks import MAGIC, BlockReader, SegmentError
from kscheduler.recorder.entries import EntryReader

SUFFIX: Final = ".ksrec"
_NAME: Final = re.compile(r"(?P<run>\d{8}T\d{6}Z-\d+)-(?P<number>\d{6,})\.ksrec")


class SegmentName(msgspec.Struct, frozen=True, order=True):
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


_decode = msgspec.msgpack.Decoder(list[list[list[Any] | int]]).decode


class SegmentReader:
    """Reads the entries of one file, up to the last whole block."""

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
