"""The files of the GPU trace openb (Weng et al., USENIX ATC 2023). The user downloads them
(`DOWNLOAD_HINT`); none is shipped.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, cast

from kscheduler.sweep.trace.run_drawing import DEFAULT_ARRIVAL, drawn
from kscheduler.sweep.trace.trace_objects import Machine, Run, TraceTask

LISTS: Final = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip
"""The workloads with published results."""
DOWNLOAD_HINT: Final = (
    "the trace's CSV files, plain or gzip, are in the folder data/csv of "
    "https://github.com/hkust-adsl/kubernetes-scheduler-simulator"
)

_NUMBERS: Final = frozenset(("cpu_milli", "memory_mib", "gpu", "num_gpu", "gpu_milli"))


class TraceError(ValueError):
    """The trace cannot be read. The text names the file, and where to get it."""


def drawn_run(directory: Path, workload: str, seed: int, arrival: float = DEFAULT_ARRIVAL) -> Run:
    """A run of the nodes with GPUs and the workload's tasks, as the experiment draws it. Raises `TraceError`."""
    return drawn(workload, machines_of(directory), tasks_of(directory, workload), seed, arrival)


def machines_of(directory: Path) -> list[Machine]:
    """The nodes with GPUs. Raises `TraceError`."""
    return [
        Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows_of(node_file(directory), ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    ]


def tasks_of(directory: Path, workload: str) -> list[TraceTask]:
    """The tasks of a workload's own file. Raises `TraceError`."""
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return [_task(row) for row in _rows_of(task_file(directory, workload), columns)]


def _task(row: Mapping[str, str]) -> TraceTask:
    gpus = int(row["num_gpu"])
    models = "|".join(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|")))))
    milli = int(row["gpu_milli"]) if gpus else 0
    return TraceTask(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models)


def node_file(directory: Path) -> Path:
    """The file of the nodes with GPUs, plain or packed. Raises `TraceError`."""
    return _found(directory / "openb_node_list_gpu_node.csv")


def task_file(directory: Path, workload: str) -> Path:
    """The file of a workload, plain or packed. Raises `TraceError`."""
    return _found(directory / f"openb_pod_list_{workload}.csv")


def _found(path: Path) -> Path:
    packed = path.with_name(f"{path.name}.gz")
    for each in (path, packed):
        if each.is_file():
            return each
    raise TraceError(f"{path}: there is no such file, nor one with .gz behind it; {DOWNLOAD_HINT}")


def _rows_of(path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The rows of a file that has these columns. A row whose numbers are none ends it. Raises `TraceError`."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with cast("IO[str]", opened(path, "rt", encoding="utf-8")) as text:
            reader = csv.DictReader(text)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(f"{path}: no column {', '.join(missing)}; {DOWNLOAD_HINT}")
            for row in reader:
                for name in columns:
                    if name in _NUMBERS and not (row[name] or "").isdecimal():
                        raise TraceError(
                            f"{path}:{reader.line_num}: {name} is {row[name]!r}, not a number; {DOWNLOAD_HINT}"
                        )
                yield row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise TraceError(f"{path}: cannot be read: {reason}; {DOWNLOAD_HINT}") from None
