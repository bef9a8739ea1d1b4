"""The GPU trace openb (Weng et al., USENIX ATC 2023): its files, a run that is drawn from it, and Kubernetes objects.

The files come from a download of the user's (`GET_IT`); none is shipped. A run is a workload's tasks in the order of
their arrival, and nodes in the order in which ties are broken.
"""

import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import IO, Any, Final, cast

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod

GPU: Final = "nvidia.com/gpu"
SHARE: Final = "example.com/gpu-milli"
MODEL: Final = "example.com/gpu-model"
INDEX: Final = "example.com/gpu-index"
WHOLE: Final = 1000
# Of the workload's tasks: how many the typical ones must cover.
COVERED: Final = 0.95
# How much arrives in a run, of what the GPUs could take, unless something else is asked for.
ARRIVING: Final = 1.3
LISTS: Final = (
    "default", "cpu050", "cpu100", "cpu200", "cpu250", "gpushare40", "gpushare60", "gpushare80", "gpushare100",
    "gpuspec10", "gpuspec20", "gpuspec25", "gpuspec33", "multigpu20", "multigpu30", "multigpu40", "multigpu50",
)  # fmt: skip
"""The workloads with published results."""
GET_IT: Final = (
    "the trace's CSV files, plain or gzip, are in the folder data/csv of "
    "https://github.com/hkust-adsl/kubernetes-scheduler-simulator"
)

_NUMBERS: Final = frozenset(("cpu_milli", "memory_mib", "gpu", "num_gpu", "gpu_milli"))

Tree = dict[str, Any]


class Machine(msgspec.Struct, frozen=True):
    """A node of a run: CPU in thousandths, memory in MiB."""

    name: str
    cpu: int
    memory: int
    gpus: int
    model: str

    def as_node(self, rank: int) -> Node:
        """The node; by its name it is the `rank`-th."""
        allocatable: Tree = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi", "pods": "1001"}
        if self.gpus:
            allocatable |= {GPU: str(self.gpus), SHARE: str(WHOLE * self.gpus)}
        metadata = {"name": f"{rank:04}-{self.name}", "labels": {MODEL: self.model} if self.model else {}}
        return convert({"metadata": metadata, "status": {"allocatable": allocatable}}, Node)


class TraceTask(msgspec.Struct, frozen=True):
    """A task: CPU in thousandths, memory in MiB, `milli` thousandths of each of its GPUs."""

    name: str
    cpu: int
    memory: int
    gpus: int
    milli: int
    models: str
    """Sorted, separated by a bar; empty: any."""

    @property
    def requests(self) -> dict[str, str]:
        """As of a container."""
        requests = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        if self.gpus:
            requests |= {GPU: str(self.gpus)} if self.milli == WHOLE else {SHARE: str(self.milli)}
        return requests

    @property
    def node_affinity(self) -> Tree | None:
        """The models that it accepts."""
        if not self.models:
            return None
        expression = {"key": MODEL, "operator": "In", "values": self.models.split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}

    def as_pod(self, number: int, scheduler: str) -> Pod:
        """The pod of this task, the `number`-th to arrive."""
        minutes, seconds = divmod(number, 60)
        hours, minutes = divmod(minutes, 60)
        created = f"2026-01-01T{hours:02}:{minutes:02}:{seconds:02}Z"
        spec: Tree = {
            "schedulerName": scheduler,
            "priority": 0,
            "containers": [{"name": "main", "resources": {"requests": self.requests}}],
        }
        if self.node_affinity is not None:
            spec["affinity"] = {"nodeAffinity": self.node_affinity}
        metadata = {"name": self.name, "namespace": "default", "uid": self.name, "creationTimestamp": created}
        return convert({"metadata": metadata, "spec": spec}, Pod)


class Run(msgspec.Struct, frozen=True):
    """The input of a run."""

    workload: str
    seed: int
    nodes: tuple[Machine, ...]
    tasks: tuple[TraceTask, ...]


def read_run(path: Path) -> Run:
    """Read INPUT.json, which may be packed by gzip. Raises `OSError`, `msgspec.ValidationError`, `DecodeError`."""
    return msgspec.json.decode(_bytes_of(path), type=Run)


def drawn_run(directory: Path, workload: str, seed: int, arriving: float = ARRIVING) -> Run:
    """A run of the nodes with GPUs and the workload's tasks, as the experiment draws it. Raises `TraceError`."""
    return drawn(workload, machines_of(directory), tasks_of(directory, workload), seed, arriving)


def drawn(
    workload: str, machines: Sequence[Machine], tasks: Iterable[TraceTask], seed: int, arriving: float = ARRIVING
) -> Run:
    """A run as the experiment draws it: tasks shuffled, then removed or drawn again until they ask for `arriving` of
    the GPUs; nodes permuted. Only `Random.random` is used, so that other programs can draw the same.
    """
    chance = Random(seed).random  # noqa: S311  a seeded draw, nothing is secret
    tasks = sorted(tasks, key=lambda task: task.name)
    wanted = arriving * WHOLE * sum(machine.gpus for machine in machines)
    coming = [task for _, task in sorted([(chance(), task) for task in tasks], key=lambda drawn: drawn[0])]
    demand = sum(task.gpus * task.milli for task in coming)
    if demand > wanted:
        while demand > wanted:
            gone = coming.pop(int(chance() * len(coming)))
            demand -= gone.gpus * gone.milli
    else:
        # As published: the last draw is tested with the share of one of its GPUs.
        while demand + (again := tasks[int(chance() * len(tasks))]).milli <= wanted:
            name = f"{again.name}-tuned-{len(coming) - len(tasks)}"
            coming.append(msgspec.structs.replace(again, name=name))
            demand += again.gpus * again.milli
    permuted = [machine for _, machine in sorted([(chance(), each) for each in machines], key=lambda drawn: drawn[0])]
    return Run(workload, seed, tuple(permuted), tuple(coming))


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


def typical_shapes(tasks: Iterable[TraceTask]) -> list[tuple[TraceTask, int]]:
    """The most frequent shapes, which cover `COVERED` of the tasks, and their counts. They have no name and memory."""
    shapes = Counter((task.cpu, task.milli, task.gpus, task.models) for task in tasks)
    wanted, found = COVERED * shapes.total(), 0
    mix: list[tuple[TraceTask, int]] = []
    for (cpu, milli, gpus, models), count in sorted(shapes.items(), key=lambda entry: entry[::-1], reverse=True):
        if found >= wanted:
            break
        mix.append((TraceTask("", cpu, 0, gpus, milli, models), count))
        found += count
    return mix


def typical_pods(directory: Path, workload: str) -> list[Tree]:
    """The mix of the workload's own file: `typicalPods` of FragmentationAware. Raises `TraceError`."""
    return as_typical_pods(typical_shapes(tasks_of(directory, workload)))


def as_typical_pods(mix: Iterable[tuple[TraceTask, int]]) -> list[Tree]:
    """A mix as `typicalPods` of FragmentationAware."""
    found: list[Tree] = []
    for shape, count in mix:
        typical: Tree = {"requests": shape.requests, "count": count}
        if shape.node_affinity is not None:
            typical["nodeAffinity"] = shape.node_affinity
        found.append(typical)
    return found


# --- files ------------------------------------------------------------------------------------------------------------


class TraceError(ValueError):
    """The trace cannot be read. The text names the file, and where to get it."""


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
    raise TraceError(f"{path}: there is no such file, nor one with .gz behind it; {GET_IT}")


def _rows_of(path: Path, columns: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """The rows of a file that has these columns. A row whose numbers are none ends it. Raises `TraceError`."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with cast("IO[str]", opened(path, "rt", encoding="utf-8")) as text:
            reader = csv.DictReader(text)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceError(f"{path}: no column {', '.join(missing)}; {GET_IT}")
            for row in reader:
                for name in columns:
                    if name in _NUMBERS and not (row[name] or "").isdecimal():
                        raise TraceError(f"{path}:{reader.line_num}: {name} is {row[name]!r}, not a number; {GET_IT}")
                yield row
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        raise TraceError(f"{path}: cannot be read: {reason}; {GET_IT}") from None


def _bytes_of(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def as_line(task: str, node: str, devices: str) -> str:
    """A line of the result: `{"task": ..., "node": name or null, "gpus": [device indices]}`."""
    name = node.partition("-")[2] or None
    gpus = [int(device) for device in devices.split(",")] if devices else []
    return json.dumps({"task": task, "node": name, "gpus": gpus})
