"""The results of a sweep: a directory with a Parquet file for each run that is done.

    DIR/runs/KEY.parquet     the row of the run with this key
    DIR/results.parquet      all rows of the last sweep, in the order of its grid
    DIR/index.html           the same with plots

A file is written under a temporary name and renamed, so it exists completely or not at all. A run is done if its file
exists, no row can exist twice, and a process that is killed loses only the runs in progress. Several processes may
write to one directory. Checksums detect files that a disk or a copy has damaged.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from kscheduler.sweep.row import COLUMNS, SweepRow

if TYPE_CHECKING:
    import pyarrow as pa

_SUFFIX: Final = ".parquet"
ALL_ROWS: Final = "results.parquet"
PAGE: Final = "index.html"


class DamagedRowError(ValueError):
    """A file does not have the content that was written. The message names it."""


class Results:
    """The rows of a directory, which is created if it does not exist. Needs pyarrow."""

    def __init__(self, directory: Path) -> None:
        """Raises `OSError`, `ModuleNotFoundError`."""
        schema()
        self.directory = directory
        self._runs = directory / "runs"
        self._runs.mkdir(parents=True, exist_ok=True)

    def done(self) -> set[str]:
        """The keys of runs with a result."""
        return {path.stem for path in self._runs.iterdir() if path.suffix == _SUFFIX}

    def put(self, row: SweepRow) -> None:
        """Store a row; one with an error is not stored, so that the run is repeated. Raises `OSError`."""
        if not row.error:
            self._write([row], self._runs / f"{row.key}{_SUFFIX}")

    def get(self, key: str) -> SweepRow:
        """The row of a run that is done. Raises `DamagedRowError`, `OSError`."""
        path = self._runs / f"{key}{_SUFFIX}"
        rows = read_rows(path)
        if [row.key for row in rows] != [key]:
            raise DamagedRowError(f"{path}: it does not have the one row of its run")
        return rows[0]

    def forget(self, key: str) -> None:
        """Remove the row: the run counts as not done. Raises `OSError`."""
        (self._runs / f"{key}{_SUFFIX}").unlink(missing_ok=True)

    def write_all(self, rows: Sequence[SweepRow]) -> Path:
        """One file with these rows. Raises `OSError`."""
        path = self.directory / ALL_ROWS
        self._write(rows, path)
        return path

    def write_page(self, text: str) -> Path:
        """The page. Raises `OSError`."""
        path = self.directory / PAGE
        with _atomic(path) as unfinished:
            unfinished.write_text(text, encoding="utf-8")
        return path

    def _write(self, rows: Sequence[SweepRow], path: Path) -> None:
        from pyarrow import parquet

        with _atomic(path) as unfinished:
            parquet.write_table(as_table(rows), unfinished, write_page_checksum=True)


@contextmanager
def _atomic(path: Path) -> Iterator[Path]:
    """A temporary file that replaces this one on success; on failure the old content stays."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_rows(path: Path) -> list[SweepRow]:
    """The rows of a file that this module wrote. Raises `DamagedRowError`, `OSError`."""
    from pyarrow import ArrowException, parquet

    try:
        with path.open("rb") as file:
            table = parquet.ParquetFile(file, page_checksum_verification=True).read()
        return [SweepRow(**row) for row in table.to_pylist()]
    except (ArrowException, OSError, TypeError, UnicodeDecodeError) as problem:
        # Arrow reports damage as OSError, too, but without an errno.
        if isinstance(problem, OSError) and problem.errno is not None:
            raise
        raise DamagedRowError(f"{path}: it is damaged ({str(problem).strip()})") from None


def as_table(rows: Iterable[SweepRow]) -> "pa.Table":
    """The rows as a table of Arrow."""
    import pyarrow as pa

    return pa.Table.from_pylist([msgspec.structs.asdict(row) for row in rows], schema=schema())


@cache
def schema() -> "pa.Schema":
    """The columns with their types, and what they mean as a field's metadata."""
    import pyarrow as pa

    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}

    def field(described: Any) -> Any:
        kinds = [kind for kind in get_args(described.type) or (described.type,) if kind is not type(None)]
        is_nullable = type(None) in get_args(described.type)
        about = {"description": COLUMNS[described.name]}
        return pa.field(described.name, types[kinds[0]], nullable=is_nullable, metadata=about)

    return pa.schema([field(described) for described in msgspec.structs.fields(SweepRow)])
