"""The figures of `make bench-upstream`: kept as JSON, so that a run goes on where it was ended, and shown as tables."""

import statistics
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from benchmarks.real.table import decimal
from benchmarks.runs import Machine
from benchmarks.upstream.servers import FLOOR, OURS, RIVAL, SCHEDULERS

# What tells one measurement from another: workload, nodes, pods, scheduler, round.
Key: TypeAlias = tuple[str, int, int, str, int]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler with one workload, once."""

    workload: str
    folder: str
    """Of the configuration file, below scheduler_perf."""
    scheduler: str
    round: int
    nodes: int
    """All that are created."""
    pods: int
    """All that operations create, those of churn and of steady states left out."""
    scale: float
    """Below 1: the workload was played smaller than upstream has it."""
    measured: int = 0
    """Pods that were bound while upstream measures."""
    pods_per_second: float = 0.0
    """Of these, from the first one that is bound to the last."""
    fed_per_second: float = 0.0
    """As fast as these came to be: a scheduler cannot bind faster."""
    latency_p50_milliseconds: float | None = None
    latency_p99_milliseconds: float | None = None
    """From the first event of a pod in the benchmark's watch to the first one that shows its node."""
    cpu_milliseconds: float = 0.0
    """Of the scheduler's process while upstream measures, over these pods."""
    peak_mebibytes: float = 0.0
    seconds: float = 0.0
    """That the measurement took, servers included."""
    threshold: float = 0.0
    """Pods a second that upstream's CI asks of kube-scheduler, on a large machine and in process."""
    faults: tuple[str, ...] = ()
    """What the audit found."""
    stuck: str = ""
    """Why the scheduler was given up; empty if it was not."""
    refused: str = ""
    """Why it was not tried."""

    @property
    def key(self) -> Key:
        """See `Key`."""
        return (self.workload, self.nodes, self.pods, self.scheduler, self.round)

    @property
    def verdict(self) -> str:
        """What a reader must know before the figures."""
        if self.refused:
            return f"not played: {self.refused}"
        words = ["stuck"] if self.stuck else []
        if self.faults:
            words.append(f"{len(self.faults)} faults")
        if not self.stuck and self.measured < FEW:
            words.append("few pods")
        elif not words and self.fed_per_second and self.pods_per_second >= KEEPS_UP * self.fed_per_second:
            words.append("keeps up")
        if self.scale < 1:
            words.append(f"scaled to {self.scale:.2f}")
        return ", ".join(words)


# A scheduler that binds so much of the rate at which pods come is limited by that, not by itself.
KEEPS_UP: Final = 0.95
# Of less pods the figures say little: CPU is counted in ticks of 10 ms.
FEW: Final = 100


class Run(msgspec.Struct, frozen=True):
    """All figures, in the order in which they were taken."""

    machine: Machine
    kubernetes: str
    figures: tuple[Figures, ...] = ()

    @property
    def done(self) -> set[Key]:
        """What is not measured again."""
        return {one.key for one in self.figures}


def read(path: Path) -> Run:
    """A run that was written. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


def write(path: Path, run: Run) -> None:
    """Whole or not at all: a run may be ended at any time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")
    unfinished.replace(path)


# --- text -------------------------------------------------------------------------------------------------------------

NAME_WIDTH: Final = 60
HEADER: Final = (
    f"{'workload':<{NAME_WIDTH}}{'nodes':>6}{'pods':>7}  {'scheduler':<15}{'pods/s':>7}{'fed/s':>7}"
    f"{'p50 ms':>9}{'p99 ms':>9}{'CPU/pod':>9}{'MiB':>6}"
)


def line(one: Figures) -> str:
    """What is printed when a measurement ends, under HEADER; CPU in milliseconds per pod."""
    start = f"{one.workload:<{NAME_WIDTH}}{one.nodes:>6,}{one.pods:>7,}  {one.scheduler:<15}"
    if one.refused:
        return f"{start}{one.verdict}"
    p50, p99 = (decimal(each) for each in (one.latency_p50_milliseconds, one.latency_p99_milliseconds))
    return (
        f"{start}{one.pods_per_second:>7,.0f}{one.fed_per_second:>7,.0f}{p50:>9}{p99:>9}{one.cpu_milliseconds:>9.2f}"
        f"{one.peak_mebibytes:>6,.0f}  {one.verdict}"
    ).rstrip()


class Row(msgspec.Struct, frozen=True):
    """A workload at one size: medians over the rounds of each scheduler that has played it."""

    workload: str
    nodes: int
    pods: int
    scale: float
    by_scheduler: dict[str, Figures]


def rows(figures: Iterable[Figures]) -> list[Row]:
    """In the order in which the workloads were first measured."""
    rounds: dict[tuple[str, int, int], dict[str, list[Figures]]] = {}
    for one in figures:
        rounds.setdefault((one.workload, one.nodes, one.pods), {}).setdefault(one.scheduler, []).append(one)
    found = []
    for (workload, nodes, pods), by_scheduler in rounds.items():
        medians = {name: _median(by_scheduler[name]) for name in SCHEDULERS if name in by_scheduler}
        found.append(Row(workload, nodes, pods, next(iter(medians.values())).scale, medians))
    return found


def _median(figures: list[Figures]) -> Figures:
    """The first one with medians in the place of its figures, and all that is wrong with the others."""

    def of(figure: Callable[[Figures], float | None]) -> float | None:
        values = [value for one in figures if (value := figure(one)) is not None]
        return statistics.median(values) if values else None

    return msgspec.structs.replace(
        figures[0],
        pods_per_second=of(lambda one: one.pods_per_second) or 0.0,
        fed_per_second=of(lambda one: one.fed_per_second) or 0.0,
        latency_p50_milliseconds=of(lambda one: one.latency_p50_milliseconds),
        latency_p99_milliseconds=of(lambda one: one.latency_p99_milliseconds),
        cpu_milliseconds=of(lambda one: one.cpu_milliseconds) or 0.0,
        peak_mebibytes=of(lambda one: one.peak_mebibytes) or 0.0,
        faults=tuple(fault for one in figures for fault in one.faults),
        stuck=next((one.stuck for one in figures if one.stuck), ""),
    )


TABLE_HEADER: Final = (
    f"{'workload':<{NAME_WIDTH}}{'nodes':>6}{'pods':>7}{'scale':>6}  "
    f"{'pods/s':>7}{'kube':>7}{'floor':>7}  {'p99 ms':>9}{'kube':>9}{'floor':>9}"
    f"  {'CPU/pod':>9}{'kube':>9}{'floor':>9}  {'MiB':>6}{'kube':>6}{'floor':>6}"
)


def table(figures: Iterable[Figures]) -> Iterator[str]:
    """A line for each workload, three figures for each column; a star is at what is not sound."""
    yield TABLE_HEADER
    for row in rows(figures):
        cells = [_cells(row, name) for name in (OURS, RIVAL, FLOOR)]
        widths = (7, 9, 9, 6)
        groups = ("".join(f"{cell[place]:>{width}}" for cell in cells) for place, width in enumerate(widths))
        yield f"{row.workload:<{NAME_WIDTH}}{row.nodes:>6,}{row.pods:>7,}{row.scale:>6.2f}  {'  '.join(groups)}"


def _cells(row: Row, scheduler: str) -> tuple[str, str, str, str]:
    one = row.by_scheduler.get(scheduler)
    if one is None or one.refused:
        return ("-", "-", "-", "-")
    mark = "*" if one.stuck or one.faults else ""
    return (
        f"{one.pods_per_second:,.0f}{mark}",
        decimal(one.latency_p99_milliseconds, 0),
        f"{one.cpu_milliseconds:.2f}",
        f"{one.peak_mebibytes:,.0f}",
    )


COLUMNS: Final = ("workload", "nodes", "pods", "pods/s", "p99", "CPU per pod", "peak memory")


def markdown(figures: Iterable[Figures]) -> Iterator[str]:
    """As a table for a page; each cell has kscheduler, kube-scheduler and the floor, in this order."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    for row in rows(figures):
        cells = [_cells(row, name) for name in (OURS, RIVAL, FLOOR)]
        figures_of = (" / ".join(cell[place] for cell in cells) for place in range(4))
        units = ("", " ms", " ms", " MiB")
        shown = (f"{text}{unit}" for text, unit in zip(figures_of, units, strict=True))
        scale = f" (scaled to {row.scale:.2f})" if row.scale < 1 else ""
        yield f"| {row.workload}{scale} | {row.nodes:,} | {row.pods:,} | {' | '.join(shown)} |"


def unsound(figures: Iterable[Figures]) -> Iterator[str]:
    """A line for each measurement that a reader has to know more about."""
    for one in figures:
        for text in (one.refused, one.stuck, *one.faults[:3]):
            if text:
                yield f"{one.workload}, {one.scheduler}: {text.splitlines()[0]}"
