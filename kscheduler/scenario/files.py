"""Files of manifests, named as kubectl's `-f` names them: which files a name stands for, and their bytes as UTF-8.

The problem: a file that PowerShell wrote is UTF-16, an editor puts a byte order mark in front, and a dump of a large
cluster is gzipped. kubectl takes the first two, and folders, patterns (`'dump/*.json'`) and lists (`a.yaml,b.yaml`) as
names. What is not read (other files of a folder) is told, and what cannot be read is refused by name.

The idea: a file is a chain of streams: its bytes, unpacked if they begin as gzip does, as UTF-8. Each is read in
chunks, so that a reader may stop at a bound (`kscheduler.scenario.documents`).
"""

import codecs
import glob
import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, Final, cast

from kscheduler.scenario.errors import ScenarioError

STANDARD_INPUT: Final = "-"
# Of a folder's files that are read: kubectl's, and these gzipped.
EXTENSIONS: Final = (".json", ".yaml", ".yml", ".json.gz", ".yaml.gz", ".yml.gz")
UNPACKED_ANYWAY_BYTES: Final = 64 << 20
# Times its size that a gzip file may unpack to, once that is more than `UNPACKED_ANYWAY_BYTES`. Objects that differ in
# name and UID only are packed to a fortieth; gzip could do a thousandth.
MAX_GROWTH: Final = 200

_GZIP_MAGIC: Final = b"\x1f\x8b"
_CHUNK_BYTES: Final = 1 << 16
_MAX_NAMED: Final = 5
_UTF_32: Final = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_LONGEST_MARK: Final = 4


def source_name(path: str) -> str:
    """The file as messages name it."""
    return "standard input" if path == STANDARD_INPUT else path


def named_files(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files that names stand for, in order, and notes on what is not read. Raises `ScenarioError`.

    A name is a file, `-`, a folder (of which the files with `EXTENSIONS` are read, but no folder in it), a pattern, or
    several of them with commas between.
    """
    files: list[str] = []
    notes: list[str] = []
    for name in given:
        for each in (name,) if name == STANDARD_INPUT or Path(name).exists() else name.split(","):
            files.extend(_files_of(each, notes))
    if files.count(STANDARD_INPUT) > 1:
        raise ScenarioError("standard input (-) can be read once only")
    return files, notes


def _files_of(name: str, notes: list[str]) -> list[str]:
    if name == STANDARD_INPUT:
        return [name]
    if name.startswith(("http://", "https://")):
        raise ScenarioError(f"{name}: nothing is fetched from URLs: `curl -fsSL {name} | ... -f -`")
    path = Path(name)
    if path.is_dir():
        return _files_in(path, notes)
    if path.exists() or not any(letter in name for letter in "*?["):
        return [name]  # opening it says what is wrong
    matches = sorted(glob.glob(name))  # noqa: PTH207  a pattern may be absolute
    if not matches:
        raise ScenarioError(f"{name}: there is no file of this name, and none that this pattern matches")
    return [file for match in matches for file in _files_of(match, notes)]


def _files_in(folder: Path, notes: list[str]) -> list[str]:
    """Raises `ScenarioError` for a folder without any such file: it would look like an empty cluster."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ScenarioError(f"{folder}: cannot be read: {error.strerror or error}") from None
    files = [entry for entry in entries if entry.name.endswith(EXTENSIONS) and not entry.is_dir()]
    if not files:
        raise ScenarioError(f"{folder}: a folder without files that end in {', '.join(EXTENSIONS)}")
    others = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if entry not in files]
    if others:
        more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
        listed = ", ".join(others[:_MAX_NAMED])
        notes.append(f"{folder}: not read: {listed}{more} (folders in it are read if they are named, too)")
    return [str(file) for file in files]


@contextmanager
def opened(path: str) -> Iterator[BufferedReader]:
    """The file's bytes as UTF-8, unpacked if its first bytes say that it is gzipped. Standard input stays open.

    Raises `ScenarioError` for a file that cannot be read, also in the middle.
    """
    name = source_name(path)
    try:
        if path == STANDARD_INPUT:
            yield _as_utf_8(_unpacked(cast("BufferedReader", sys.stdin.buffer), name), name)
            return
        with Path(path).open("rb") as file:
            yield _as_utf_8(_unpacked(file, name), name)
    except MemoryError:
        raise ScenarioError(f"{name}: it needs more memory than there is") from None
    except EOFError:
        raise ScenarioError(f"{name}: the gzip stream ends in the middle") from None
    except zlib.error as error:
        raise ScenarioError(f"{name}: not a gzip stream: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{name}: cannot be read: {error.strerror or error}") from None


class _Chunks(RawIOBase):
    """A file of chunks, which are made when they are read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._rest = iter(chunks), b""

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or less; 0 at the end."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def _file_of(chunks: Iterable[bytes]) -> BufferedReader:
    return BufferedReader(_Chunks(chunks), _CHUNK_BYTES)


def _chunks_of(file: BufferedReader, first: bytes = b"") -> Iterator[bytes]:
    """`first`, and then the file's bytes as they come: a pipe is not waited for until a chunk is full."""
    chunk = first
    while chunk or (chunk := file.read1(_CHUNK_BYTES)):
        yield chunk
        chunk = b""


def _unpacked(file: BufferedReader, name: str) -> BufferedReader:
    first = file.read(len(_GZIP_MAGIC))  # a pipe may hold a single byte, so that to peek would not do
    whole = _file_of(_chunks_of(file, first))
    return _file_of(_unpacking(whole, name)) if first == _GZIP_MAGIC else whole


def _unpacking(packed: IO[bytes], name: str) -> Iterator[bytes]:
    """What a gzip file unpacks to, unless it is far more than files of objects unpack to: a few hundred kilobytes could
    fill the memory. Raises `ScenarioError` then.
    """
    # The packed bytes are counted where they are read: standard input has no position to ask for.
    counting = _Counting(packed)
    stream = gzip.GzipFile(fileobj=cast("IO[bytes]", counting))
    unpacked = 0
    while data := stream.read(_CHUNK_BYTES):
        unpacked += len(data)
        if unpacked > max(UNPACKED_ANYWAY_BYTES, MAX_GROWTH * counting.count):
            raise ScenarioError(
                f"{name}: a gzip stream that unpacks to more than {MAX_GROWTH} times its size, which no file of "
                "objects does"
            )
        yield data


class _Counting:
    """The part of a file that `gzip` needs, which counts the bytes that were read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.count = file, 0

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        data = self._file.read(size)
        self.count += len(data)
        return data


def _as_utf_8(file: BufferedReader, name: str) -> BufferedReader:
    """The file as UTF-8: a byte order mark says how it is written, as kubectl has it. Raises `ScenarioError`.

    Bytes that do not belong to the encoding become U+FFFD, as kubectl reads them: a comment may be in Latin-1.
    """
    first = file.read(_LONGEST_MARK)
    if first in _UTF_32:
        raise ScenarioError(f"{name}: it is written in UTF-32, which kubectl does not read either: write UTF-8")
    mark, encoding = next((each for each in _MARKS if first.startswith(each[0])), (b"", "utf-8"))
    return _file_of(_transcoded(_chunks_of(file, first[len(mark) :]), encoding))


def _transcoded(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        if text := decoder.decode(chunk):
            yield text.encode()
    yield decoder.decode(b"", final=True).encode()
