"""Nodes and tasks of a run of the trace openb, as Kubernetes objects. A run is a workload's tasks in the order of their
arrival, and nodes in the order in which ties are broken.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kscheduler.api.codec import convert
from kscheduler.api.core import Node, Pod

GPU: Final = "nvidia.com/gpu"
SHARE: Final = "example.com/gpu-milli"
MODEL: Final = "example.com/gpu-model"
INDEX: Final = "example.com/gpu-index"
WHOLE: Final = 1000

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


def as_typical_pods(mix: Iterable[tuple[TraceTask, int]]) -> list[Tree]:
    """A mix as `typicalPods` of FragmentationAware."""
    found: list[Tree] = []
    for shape, count in mix:
        typical: Tree = {"requests": shape.requests, "count": count}
        if shape.node_affinity is not None:
            typical["nodeAffinity"] = shape.node_affinity
        found.append(typical)
    return found
