"""What a pod costs against the size of the cluster, for every kind of pod: CPU, and the p99 of an attempt.

    python -m benchmarks.curves [--resume] [--kinds NAME ...] [--axis nodes|running] [--beside FILE]
    python -m benchmarks.curves --read           the tables of what was measured before

Two axes: nodes (100 to 100,000, each kind as its scenario of scheduler_perf has it, earlier pods running already), and
running pods (0 to 1,000,000 on 5,000 nodes of 64 CPUs). Against running pods, pods that count others (spread,
affinity) run among pods like themselves, the others among plain ones; preemptors are measured against nodes only, as
their victims must fill the nodes.

Each point is a process of its own, and is kept in the file at once: `--resume` goes on where a run was interrupted. A
few hundred pods make a point, so that all points take perhaps a quarter of an hour on a quiet machine; `--rounds`
plays them several times, and tables show medians. `growth` is CPU at the largest size over CPU at the second one:
what is flat does not grow, and what grows like the size is a loop over it.

`--beside` names a file of `benchmarks.real.throughput --json`: kube-scheduler's CPU per pod (its whole process, its
start and its requests included, on a real API server) and p99 stand beside where it was measured on as many nodes. The
two are not the same measure: compare how they grow.
"""

import argparse
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from benchmarks.real import table as real_table
from benchmarks.runs import Machine, machine
from kscheduler import __version__
from kscheduler.bench import objects
from kscheduler.bench.apart import play_apart
from kscheduler.bench.catalogue import SCENARIOS
from kscheduler.bench.figures import HEADER, Figures, row
from kscheduler.bench.scenario import BenchmarkScenario, CreateNodes, CreatePods, Operation
from kscheduler.bench.template import ObjectTemplate, Template

Axis = Literal["nodes", "running"]
AXES: Final[tuple[Axis, ...]] = ("nodes", "running")
SIZES: Final[Mapping[Axis, tuple[int, ...]]] = MappingProxyType(
    {"nodes": (100, 1_000, 5_000, 20_000, 100_000), "running": (0, 10_000, 100_000, 1_000_000)}
)
RUNNING_NODES: Final = 5_000
RESULTS: Final = Path(__file__).parent / "figures" / "curves.json"
_RUNNING: Final = "running-pods"


@dataclass(frozen=True)
class PodKind:
    """A kind of pod."""

    scenario: str
    runs_among: Literal["like", "plain", "none"] = "plain"
    """The pods that run already, where these are what is drawn against."""
    most_pods: int = 10_000
    """At most so many are measured: of those that take long."""
    workload: str = ""
    """What is nearest to it on a real API server (`benchmarks.real.workloads`)."""


KINDS: Final[Mapping[str, PodKind]] = MappingProxyType(
    {
        "plain": PodKind("SchedulingBasic", workload="plain"),
        "node affinity": PodKind("SchedulingNodeAffinity"),
        "spread, hard": PodKind("TopologySpreading", "like", workload="spread"),
        "spread, soft": PodKind("PreferredTopologySpreading", "like"),
        "pod affinity": PodKind("SchedulingPodAffinity", "like"),
        "pod affinity, preferred": PodKind("SchedulingPreferredPodAffinity", "like"),
        "pod anti-affinity": PodKind("SchedulingPodAntiAffinity", workload="anti-affinity"),
        "volume claims": PodKind("SchedulingCSIPVs"),
        "device claims": PodKind("SchedulingWithResourceClaimTemplate", most_pods=50, workload="claims"),
        "preemption": PodKind("PreemptionBasic", "none"),
        "gang": PodKind("GangScheduling", workload="gangs"),
    }
)


class CurvePoint(msgspec.Struct, frozen=True):
    """A kind of pod on a cluster of a size."""

    kind: str
    axis: Axis
    at: int
    figures: list[Figures] = []
    """Of each round."""

    @property
    def cpu_us(self) -> float:
        """Per pod."""
        return statistics.median(one.cpu_us_per_decision for one in self.figures)

    @property
    def p99_us(self) -> float:
        """Of an attempt."""
        return statistics.median(one.p99_us for one in self.figures)

    @property
    def is_complete(self) -> bool:
        """Whether all pods were bound."""
        return all(one.is_complete for one in self.figures)


class Curves(msgspec.Struct):
    """All that was measured."""

    version: str
    machine: Machine
    pods: int
    """At most so many are measured for a point: as many as have room."""
    points: list[CurvePoint] = []

    def point(self, kind: str, axis: Axis, at: int) -> CurvePoint:
        """What is known of it so far."""
        found = next((one for one in self.points if (one.kind, one.axis, one.at) == (kind, axis, at)), None)
        if found is None:
            found = CurvePoint(kind, axis, at, [])
            self.points.append(found)
        return found


# --- scenarios --------------------------------------------------------------------------------------------------------


def wanted(
    kinds: Iterable[str], axes: Iterable[Axis], most: Mapping[Axis, int], pods: int
) -> Iterator[tuple[str, Axis, int, BenchmarkScenario]]:
    """The points, small clusters first: a run that is interrupted has all kinds up to some size."""
    kinds = list(kinds)
    for axis in axes:
        for at in SIZES[axis]:
            for kind in kinds:
                if at <= most[axis] and (axis == "nodes" or KINDS[kind].runs_among != "none"):
                    yield kind, axis, at, scenario_of(kind, axis, at, pods)


def scenario_of(kind: str, axis: Axis, at: int, pods: int) -> BenchmarkScenario:
    """What is played for a point."""
    scenario, pods = SCENARIOS[KINDS[kind].scenario], min(pods, KINDS[kind].most_pods)
    if axis == "nodes":
        return replace(scenario.resized(at, pods).settled(), name=f"{kind}, {at:,} nodes")
    resized = scenario.resized(RUNNING_NODES, pods)
    operations = tuple(_with_running(resized.operations, at, like=KINDS[kind].runs_among == "like"))
    return replace(resized, name=f"{kind}, {at:,} running", operations=operations)


def _with_running(operations: Iterable[Operation], running: int, *, like: bool) -> Iterator[Operation]:
    """Larger nodes, and these running pods in place of the scenario's earlier ones."""
    for operation in operations:
        match operation:
            case CreateNodes():
                yield replace(operation, template=_with_room(operation.template))
            case CreatePods(measured=False):
                continue
            case CreatePods():
                namespace = operation.namespace or _RUNNING
                template = operation.template if like else objects.DEFAULT_POD
                if running and isinstance(template, Template):
                    before = replace(template, prefix="running-")
                    yield CreatePods(running, before, namespace if like else _RUNNING, arrival="running")
                yield replace(operation, namespace=namespace)
            case _:
                yield operation


def _with_room(node: ObjectTemplate) -> ObjectTemplate:
    """The template of these nodes with room for 200 running pods and more."""
    if not isinstance(node, Template):
        return node
    text = node.text
    for name, few, many in (("cpu", "4", "64"), ("memory", "32Gi", "256Gi"), ("pods", "110", "250")):
        text = text.replace(f'"{name}":"{few}"', f'"{name}":"{many}"')
    return replace(node, text=text)


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(
    path: Path, curves: Curves, points: Sequence[tuple[str, Axis, int, BenchmarkScenario]], rounds: int
) -> None:
    """Play the points that are missing, round by round, and write the file after each."""
    for number in range(rounds):
        for kind, axis, at, scenario in points:
            point = curves.point(kind, axis, at)
            if len(point.figures) <= number:
                figures = next(iter(play_apart([scenario])))
                print(row(figures), flush=True)
                point.figures.append(figures)
                keep(path, curves)


def keep(path: Path, curves: Curves) -> None:
    """Written whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(curves), indent=1) + b"\n")
    part.replace(path)


def kept(path: Path) -> Curves:
    """What was measured before. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Curves)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


def begun(path: Path, pods: int, *, resumes: bool) -> Curves:
    """What an interrupted run has left, or nothing yet. Raises `SystemExit` where that was another measurement."""
    if not resumes or not path.exists():
        return Curves(__version__, machine(), pods)
    left = kept(path)
    if (left.version, left.pods) != (__version__, pods):
        raise SystemExit(f"{path}: measured with other pods or another version; begin anew without --resume")
    return left


# --- tables -----------------------------------------------------------------------------------------------------------


def tables(curves: Curves, rival: Sequence[real_table.Figures] = ()) -> Iterator[str]:
    """Markdown: a table per axis, with CPU and p99 in each cell, and how CPU grows."""
    for axis in AXES:
        sizes = [at for at in SIZES[axis] if any((one.axis, one.at) == (axis, at) for one in curves.points)]
        if not sizes:
            continue
        yield f"CPU us a pod / p99 us of an attempt, by {'nodes' if axis == 'nodes' else 'running pods'}:\n"
        yield "| pods | " + " | ".join(f"{at:,}" for at in sizes) + " | growth |"
        yield "| --- |" + " ---: |" * (len(sizes) + 1)
        for kind in KINDS:
            points = {one.at: one for one in curves.points if (one.kind, one.axis) == (kind, axis) and one.figures}
            if points:
                cells = [_cell(points[at]) if at in points else "-" for at in sizes]
                yield f"| {kind} | " + " | ".join(cells) + f" | {_growth(points)} |"
            if axis == "nodes" and (beside := _of_rival(KINDS[kind].workload, rival)):
                cells = [beside.get(at, "-") for at in sizes]
                yield f"| {kind}: kube-scheduler | " + " | ".join(cells) + " | |"
        yield ""


def _cell(point: CurvePoint) -> str:
    return f"{point.cpu_us:,.0f} / {point.p99_us:,.0f}" + ("" if point.is_complete else " (not all bound)")


def _growth(points: Mapping[int, CurvePoint]) -> str:
    """CPU at the largest size over that at the second one, where a process's first pods weigh less."""
    sizes = sorted(points)
    if len(sizes) < 3:
        return "-"
    return f"{points[sizes[-1]].cpu_us / points[sizes[1]].cpu_us:.1f} x"


def _of_rival(workload: str, figures: Iterable[real_table.Figures]) -> dict[int, str]:
    """kube-scheduler's cells by nodes: medians of the sound rounds."""
    found: dict[int, list[real_table.Figures]] = {}
    for one in figures:
        if workload and one.workload == workload and one.scheduler == real_table.RIVAL and one.is_sound:
            found.setdefault(one.nodes, []).append(one)
    return {nodes: _rivals_cell(rounds) for nodes, rounds in found.items()}


def _rivals_cell(rounds: Sequence[real_table.Figures]) -> str:
    cpu = statistics.median(one.cpu_milliseconds for one in rounds) * 1000
    latencies = [one.latency_p99_milliseconds for one in rounds if one.latency_p99_milliseconds is not None]
    return f"{cpu:,.0f} / " + (f"{statistics.median(latencies) * 1000:,.0f}" if latencies else "-")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.curves", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], metavar="NAME", help=", ".join(KINDS))
    parser.add_argument("--axis", choices=AXES, help="one of the two")
    parser.add_argument("--most-nodes", type=int, default=SIZES["nodes"][-1])
    parser.add_argument("--most-running", type=int, default=SIZES["running"][-1])
    parser.add_argument("--pods", type=int, default=300, help="measured for each point (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--to", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--resume", action="store_true", help="keep the points that an interrupted run has left")
    parser.add_argument("--read", action="store_true", help="print the tables of what is there, play nothing")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="of benchmarks.real.throughput --json")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if min(options.pods, options.rounds, options.most_nodes) < 1 or options.most_running < 0:
        raise SystemExit("--pods, --rounds and --most-nodes must be at least 1, --most-running at least 0")
    rival = real_table.read(options.beside).figures if options.beside else ()  # found unreadable before the measuring
    if not options.read:
        curves = begun(options.to, options.pods, resumes=options.resume)
        most: dict[Axis, int] = {"nodes": options.most_nodes, "running": options.most_running}
        axes = [options.axis] if options.axis else AXES
        print(HEADER, flush=True)
        measure(options.to, curves, [*wanted(options.kinds, axes, most, options.pods)], options.rounds)
    print("\n".join(tables(kept(options.to), rival)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
