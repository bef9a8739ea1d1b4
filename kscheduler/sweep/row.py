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
    "placed": "pods that got a node",
    "waiting": "pods without a node at the end; of a trace those that were tried once and found none",
    "gangs": "of a generated workload with gangs: gangs that arrived, whose members are among the pods",
    "gangs_waiting": "of a generated workload with gangs: gangs that never had a node for each member",
    "evicted": "victims of preemption",
    "nodes": "nodes at the end",
    "nodes_used": "nodes with pods",
    "cpu_allocated": "cpu that pods request, in % of what all nodes have",
    "memory_allocated": "memory that pods request, in % of what all nodes have",
    "gpu_allocated": "GPUs that pods request, in % of what all nodes have; of a trace their thousandths",
    "gpu_allocated_95": "of a trace: `gpu_allocated` when pods that ask for 95 % of all GPUs have arrived",
    "gpu_allocated_100": "of a trace: `gpu_allocated` when pods that ask for 100 % of all GPUs have arrived",
    "gpu_allocated_130": "of a trace: `gpu_allocated` when pods that ask for 130 % of all GPUs have arrived",
    "cpu_unusable": "cpu on cordoned nodes, and on those where no typical pod that asks for it fits, in % of free cpu",
    "memory_unusable": "memory on cordoned nodes and where no typical pod that asks for it fits, in % of free memory",
    "gpu_unusable": "GPUs on cordoned nodes and where no typical pod that asks for one fits, in % of free GPUs; "
    "of a trace by device",
    "gpus_free": "GPUs that no pod requests",
    "gpus_unusable": "GPUs that no pod requests and no typical pod could use",
    "gpu_fragmented": "of a trace: F of the FGD paper, in % of the idle GPUs",
    "zone_skew": "most pods in a zone less fewest",
    "price": "sum of the prices of nodes with pods, where nodes have prices",
    "queue_seconds_mean": "of pods that got a node: from arrival until they got it, mean, in the workload's time",
    "queue_seconds_p99": "of pods that got a node: 99 of 100 waited less for it; pods that never got one do not count",
    "placements": "digest of each pod's node (and devices): equal if and only if all pods went to the same places",
    "notes": "what a recording lacks and what was done about it; why most pods wait at the end; what figures leave out",
    "run_seconds": "measured: how long the run took",
    "cpu_seconds": "measured: its CPU time",
    "worker": "measured: the host and process that executed it",
}
