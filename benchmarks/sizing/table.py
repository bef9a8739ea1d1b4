"""Figures of a size, the rules that make requests and limits of them, and the table of docs/operations.md."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.runs import Machine

FILE: Final = Path(__file__).parents[1] / "sizing.json"
MEMORY_STEP: Final = 64
CPU_STEP: Final = 50
LEAST_CPU: Final = 100
HEADS: Final = (
    "nodes",
    "running pods",
    "CPU s to ready",
    "MiB when ready",
    "MiB after binds",
    "peak MiB",
    "mCPU at rest",
    "CPU s per 1,000 pods",
    "follower: mCPU at rest",
    "follower: peak MiB",
    "request: CPU",
    "request: memory",
    "limit: memory",
)


class Replica(msgspec.Struct, frozen=True):
    """What one process used. CPU is CPU time of all its threads; memory is resident, in MiB."""

    ready_cpu_seconds: float
    """From its start until `/readyz` answers 200."""
    ready_peak: float
    ready_resident: float
    rest_cpu_share: float
    """CPU seconds per second while nodes report and a few pods are replaced."""
    bind_cpu_seconds: float
    """In the time in which pods are bound, all else included."""
    bind_resident: float
    peak: float
    """Over everything, also after all watches were lost together with the history that they could resume from."""


class SizeFigures(msgspec.Struct, frozen=True):
    """What was measured at one size."""

    nodes: int
    pods: int
    rest_seconds: float
    bound: int
    pods_per_second: float
    leader: Replica
    follower: Replica

    @property
    def peak(self) -> float:
        """Of either replica: each can become the leader, and both have the same template."""
        return max(self.leader.peak, self.follower.peak)

    @property
    def cpu_per_thousand(self) -> float:
        """CPU seconds of the leader per 1,000 pods bound."""
        return 1000 * self.leader.bind_cpu_seconds / self.bound

    @property
    def memory_request(self) -> int:
        """MiB: 1.3 times the peak, up to the next step."""
        return _up(1.3 * self.peak, MEMORY_STEP)

    @property
    def memory_limit(self) -> int:
        """MiB: twice the request, for a cluster that grows and for pods that are larger than those measured."""
        return 2 * self.memory_request

    @property
    def cpu_request(self) -> int:
        """Thousandths of a core: what the rate of pods took, up to the next step. There is no CPU limit."""
        return max(LEAST_CPU, _up(self.cpu_per_thousand * self.pods_per_second, CPU_STEP))


class SizingRun(msgspec.Struct, frozen=True):
    """What `make bench-sizing` keeps."""

    machine: Machine
    figures: tuple[SizeFigures, ...]

    def row(self, nodes: int, pods: int) -> SizeFigures:
        """The figures of a size. Raises LookupError if it was not measured."""
        for one in self.figures:
            if (one.nodes, one.pods) == (nodes, pods):
                return one
        raise LookupError(f"{nodes} nodes with {pods} pods were not measured")

    def largest_within(self, memory_limit: int) -> SizeFigures:
        """The largest size whose memory limit is not above this one, in MiB. Raises LookupError if there is none."""
        fitting = [one for one in self.figures if one.memory_limit <= memory_limit]
        if not fitting:
            raise LookupError(f"no size measured is content with {memory_limit} MiB")
        return max(fitting, key=lambda one: one.pods)


def read(path: Path = FILE) -> SizingRun:
    """A run from its file."""
    return msgspec.json.decode(path.read_bytes(), type=SizingRun)


def write(run: SizingRun, path: Path = FILE) -> None:
    """Keep a run."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def markdown(figures: Iterable[SizeFigures]) -> str:
    """A row per size, smallest first."""
    rows = [_cells(one) for one in sorted(figures, key=lambda one: one.pods)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADS, ["---:"] * len(HEADS), *rows))


def _cells(size: SizeFigures) -> list[str]:
    leader, follower = size.leader, size.follower
    return [
        f"{size.nodes:,}",
        f"{size.pods:,}",
        f"{leader.ready_cpu_seconds:.1f}",
        f"{leader.ready_resident:.0f}",
        f"{leader.bind_resident:.0f}",
        f"{leader.peak:.0f}",
        f"{1000 * leader.rest_cpu_share:.0f}",
        f"{size.cpu_per_thousand:.1f}",
        f"{1000 * follower.rest_cpu_share:.0f}",
        f"{follower.peak:.0f}",
        f"{size.cpu_request}m",
        f"{size.memory_request}Mi",
        f"{size.memory_limit}Mi",
    ]


def _up(value: float, step: int) -> int:
    return step * math.ceil(value / step)
