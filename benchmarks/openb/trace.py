"""A run of the trace: nodes and tasks as they are read, and as Kubernetes objects."""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
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
# How much arrives in a run, of what the GPUs could take.
_ARRIVING: Final = 1.3

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


class Task(msgspec.Struct, frozen=True):
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
    tasks: tuple[Task, ...]


def read_run(path: Path) -> Run:
    """Read INPUT.json, which may be packed by gzip. Raises `OSError`, `msgspec.ValidationError`, `DecodeError`."""
    return msgspec.json.decode(_bytes_of(path), type=Run)


def drawn_run(directory: Path, workload: str, seed: int) -> Run:
    """A run as the experiment draws it: tasks shuffled, then removed or drawn again until they ask for 130 % of the
    GPUs; nodes permuted. Only `Random.random` is used, so that other programs can draw the same. Raises `OSError`.
    """
    chance = Random(seed).random
    machines, tasks = list(_machines(directory)), sorted(_workload(directory, workload), key=lambda task: task.name)
    wanted = _ARRIVING * WHOLE * sum(machine.gpus for machine in machines)
    arriving = [task for _, task in sorted([(chance(), task) for task in tasks], key=lambda drawn: drawn[0])]
    demand = sum(task.gpus * task.milli for task in arriving)
    if demand > wanted:
        while demand > wanted:
            gone = arriving.pop(int(chance() * len(arriving)))
            demand -= gone.gpus * gone.milli
    else:
        # As published: the last draw is tested with the share of one of its GPUs.
        while demand + (again := tasks[int(chance() * len(tasks))]).milli <= wanted:
            name = f"{again.name}-tuned-{len(arriving) - len(tasks)}"
            arriving.append(msgspec.structs.replace(again, name=name))
            demand += again.gpus * again.milli
    permuted = [machine for _, machine in sorted([(chance(), each) for each in machines], key=lambda drawn: drawn[0])]
    return Run(workload, seed, tuple(permuted), tuple(arriving))


def _machines(directory: Path) -> Iterator[Machine]:
    with _text_of(directory / "openb_node_list_gpu_node.csv") as text:
        for row in csv.DictReader(text):
            size = int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"])
            yield Machine(row["sn"], *size, row["model"])


def typical_pods(directory: Path, workload: str) -> list[Tree]:
    """The mix of the workload's own file: `typicalPods` of FragmentationAware. Raises `OSError`."""
    shapes = Counter((task.cpu, task.milli, task.gpus, task.models) for task in _workload(directory, workload))
    wanted, found = COVERED * shapes.total(), 0
    mix: list[Tree] = []
    for (cpu, milli, gpus, models), count in sorted(shapes.items(), key=lambda entry: entry[::-1], reverse=True):
        if found >= wanted:
            break
        shape = Task("", cpu, 0, gpus, milli, models)
        typical: Tree = {"requests": shape.requests, "count": count}
        if shape.node_affinity is not None:
            typical["nodeAffinity"] = shape.node_affinity
        mix.append(typical)
        found += count
    return mix


def _workload(directory: Path, workload: str) -> Iterator[Task]:
    with _text_of(directory / f"openb_pod_list_{workload}.csv") as text:
        for row in csv.DictReader(text):
            gpus = int(row["num_gpu"])
            models = "|".join(sorted(set(filter(None, (row.get("gpu_spec") or "").split("|")))))
            milli = int(row["gpu_milli"]) if gpus else 0
            yield Task(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models)


def _text_of(path: Path) -> IO[str]:
    packed = path.with_name(f"{path.name}.gz")
    return path.open(encoding="utf-8") if path.exists() else cast("IO[str]", gzip.open(packed, "rt", encoding="utf-8"))


def _bytes_of(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content


def as_line(task: str, node: str, devices: str) -> str:
    """A line of the result: `{"task": ..., "node": name or null, "gpus": [device indices]}`."""
    name = node.partition("-")[2] or None
    gpus = [int(device) for device in devices.split(",")] if devices else []
    return json.dumps({"task": task, "node": name, "gpus": gpus})
