"""The result of a run: a row, and what its columns mean."""

from collections.abc import Mapping
from typing import Final

import msgspec

# Two runs with the same key differ only in these columns.
MEASURED: Final = ("run_seconds", "cpu_seconds", "worker")


class SweepRow(msgspec.Struct, frozen=True):
    """A row. `COLUMNS` says what the fields are; `None`: the workload has no such figure."""

    key: str
    policy: str
    workload: str
    shape: str
    seed: int
    version: str
    error: str = ""
    pods: int | None = None
    placed: int | None = None
    waiting: int | None = None
    gangs: int | None = None
    gangs_waiting: int | None = None
    evicted: int | None = None
    nodes: int | None = None
    nodes_used: float | None = None
    cpu_allocated: float | None = None
    memory_allocated: float | None = None
    gpu_allocated: float | None = None
    gpu_allocated_95: float | None = None
    gpu_allocated_100: float | None = None
    gpu_allocated_130: float | None = None
    cpu_unusable: float | None = None
    memory_unusable: float | None = None
    gpu_unusable: float | None = None
    gpus_free: float | None = None
    gpus_unusable: float | None = None
    gpu_fragmented: float | None = None
    zone_skew: float | None = None
    price: float | None = None
    queue_seconds_mean: float | None = None
    queue_seconds_p99: float | None = None
    placements: str = ""
    notes: str = ""
    run_seconds: float | None = None
    cpu_seconds: float | None = None
    worker: str = ""

    def without_measured(self) -> "SweepRow":
        """The columns that must be equal wherever and whenever the run is executed."""
        return msgspec.structs.replace(self, run_seconds=None, cpu_seconds=None, worker="")


COLUMNS: Final[Mapping[str, str]] = {
    "key": "hash of policy, workload, seed and version: the run",
    "policy": "its name in the sweep file, with the weights that the grid gives it",
    "workload": "its name in the sweep file",
    "shape": "the node shape; empty: nodes as they are",
    "seed": "what was drawn at random; 0 of a recording, in which nothing is",
    "version": "of kscheduler, with a digest of its source",
    "error": "why the run has no result; empty: it has one",
    "pods": "pods that arrived",
    "placed": "of these, pods that got a node",
    "waiting": "of these, pods without a node at the end; of a trace those that were tried once and found none",
    "gangs": "of a generated workload with gangs: gangs that arrived, whose members are among the pods",
    "gangs_waiting": "of these, gangs that never had a node for each member",
    "evicted": "victims of preemption",
    "nodes": "nodes at the end",
    "nodes_used": "nodes with pods",
    "cpu_allocated": "cpu that pods request, in % of what all nodes have",
    "memory_allocated": "memory, likewise",
    "gpu_allocated": "GPUs, likewise; of a trace their thousandths",
    "gpu_allocated_95": "of a trace: the same when pods that ask for 95 % of all GPUs have arrived",
    "gpu_allocated_100": "the same at 100 %",
    "gpu_allocated_130": "the same at 130 %",
    "cpu_unusable": "cpu on cordoned nodes, and on those where no typical pod that asks for it fits, in % of free cpu",
    "memory_unusable": "memory, likewise",
    "gpu_unusable": "GPUs, likewise; of a trace by device",
    "gpus_free": "GPUs that no pod requests",
    "gpus_unusable": "of these, GPUs that no typical pod could use",
    "gpu_fragmented": "of a trace: F of the FGD paper, in % of the idle GPUs",
    "zone_skew": "most pods in a zone less fewest",
    "price": "of the nodes with pods, where nodes have prices",
    "queue_seconds_mean": "from a pod's arrival until it got its node, in the workload's time",
    "queue_seconds_p99": "99 of 100 pods waited less",
    "placements": "digest of each pod's node (and devices): equal if and only if all pods went to the same places",
    "notes": "of a recording: what it lacks, and what was done about it",
    "run_seconds": "measured: how long the run took",
    "cpu_seconds": "measured: its CPU time",
    "worker": "measured: the host and process that executed it",
}
