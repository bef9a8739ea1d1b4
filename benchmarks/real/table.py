"""The figures of `make bench-real`, kept as JSON and shown as tables: ratios to kube-scheduler and to the floor."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.real.workloads import WORKLOADS
from benchmarks.runs import Machine

OURS, RIVAL, FLOOR = "kscheduler", "kube-scheduler", "floor"


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler with one workload, once."""

    workload: str
    scheduler: str
    round: int
    nodes: int
    pods: int
    bound: int
    pods_per_second: float
    first_bind_seconds: float
    """From the start of the scheduler's process."""
    start_cpu_seconds: float
    """Of the scheduler's process until then: loading itself, reading the cluster."""
    cpu_milliseconds: float
    """Of the scheduler's process per pod, its start and its late Events included."""
    apiserver_cpu_milliseconds: float
    """Of the API server in the same time, per pod."""
    peak_mebibytes: float
    events: int
    """Events that the API server has at the end; one per pod would be all."""
    latency_p50_milliseconds: float | None = None
    """From the request that creates a pod to its bind, while pods arrive steadily; None where it was not measured."""
    latency_p99_milliseconds: float | None = None
    faults: tuple[str, ...] = ()
    """What the audit found."""
    stuck: str = ""
    """Why the scheduler was given up; empty if it was not."""

    @property
    def is_sound(self) -> bool:
        """Whether all pods were bound, and none where it may not be."""
        return self.bound == self.pods and not self.faults and not self.stuck

    @property
    def verdict(self) -> str:
        """What a reader must know before the figures."""
        words = ["stuck"] if self.stuck else []
        if self.bound < self.pods:
            words.append(f"{self.bound:,} of {self.pods:,} bound")
        if self.faults:
            words.append(f"{len(self.faults)} faults")
        return ", ".join(words) or "sound"


class Run(msgspec.Struct, frozen=True):
    """All figures, in the order in which they were taken."""

    machine: Machine
    kubernetes: str
    figures: tuple[Figures, ...] = ()


def read(path: Path) -> Run:
    """A run that was written. Raises `SystemExit` with what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.DecodeError) as error:
        raise SystemExit(f"{path}: {error}") from None


def write(path: Path, run: Run) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


LINE_HEADER = (
    f"{'workload':<16}{'scheduler':<16}{'pods/s':>7}{'first s':>9}{'its CPU':>9}{'CPU/pod':>9}{'API CPU':>9}{'MiB':>6}"
    f"{'p50 ms':>8}{'p99 ms':>8}{'Events':>8}  result"
)


def line(one: Figures) -> str:
    """What is printed when a measurement ends, under LINE_HEADER; CPU in milliseconds per pod."""
    return (
        f"{one.workload:<16}{one.scheduler:<16}{one.pods_per_second:>7,.0f}{one.first_bind_seconds:>9.2f}"
        f"{one.start_cpu_seconds:>9.2f}{one.cpu_milliseconds:>9.2f}{one.apiserver_cpu_milliseconds:>9.2f}{one.peak_mebibytes:>6,.0f}"
        f"{decimal(one.latency_p50_milliseconds):>8}{decimal(one.latency_p99_milliseconds):>8}{one.events:>8,}"
        f"  {one.verdict}"
    )


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler with a workload: medians over the rounds, and where they stand beside the others'."""

    workload: str
    scheduler: str
    nodes: int
    pods: int
    pods_per_second: float
    cpu_milliseconds: float
    peak_mebibytes: float
    latency_p50_milliseconds: float | None
    latency_p99_milliseconds: float | None
    times_rival: float | None
    """Pods a second to kube-scheduler's; None if it was not measured or bound nothing."""
    times_floor: float | None
    cpu_of_rival: float | None
    is_sound: bool

    @property
    def misses(self) -> list[str]:
        """Which goals of the workload kscheduler has not reached; other schedulers have no goals."""
        if self.scheduler != OURS:
            return []
        goal = WORKLOADS[self.workload].goal
        wanted = (
            (
                self.times_rival is None or self.times_rival >= goal.times_kube_scheduler,
                f"{goal.times_kube_scheduler}x",
            ),
            (self.cpu_milliseconds <= goal.cpu_milliseconds, f"CPU {goal.cpu_milliseconds} ms"),
            (self.times_floor is None or self.times_floor >= goal.times_floor, f"floor {goal.times_floor}"),
        )
        return [words for is_met, words in wanted if not is_met]


def rows(figures: Iterable[Figures]) -> list[Row]:
    """One for each pair of workload and scheduler, in the order of WORKLOADS and kscheduler, kube-scheduler, floors."""
    rounds: dict[tuple[str, str], list[Figures]] = {}
    for one in figures:
        rounds.setdefault((one.workload, one.scheduler), []).append(one)
    names, order = list(WORKLOADS), [OURS, RIVAL, FLOOR]
    keys = sorted(rounds, key=lambda key: (names.index(key[0]), order.index(key[1]) if key[1] in order else len(order)))
    return [row(key, rounds) for key in keys]


def row(key: tuple[str, str], rounds: dict[tuple[str, str], list[Figures]]) -> Row:
    workload, scheduler = key
    own = rounds[key]

    def beside(other: str, figure: Callable[[Figures], float | None]) -> float | None:
        return ratio(median(own, figure), median(rounds.get((workload, other), ()), figure))

    return Row(
        workload=workload,
        scheduler=scheduler,
        nodes=own[0].nodes,
        pods=own[0].pods,
        pods_per_second=median(own, pods_per_second) or 0.0,
        cpu_milliseconds=median(own, cpu_milliseconds) or 0.0,
        peak_mebibytes=median(own, lambda one: one.peak_mebibytes) or 0.0,
        latency_p50_milliseconds=median(own, lambda one: one.latency_p50_milliseconds),
        latency_p99_milliseconds=median(own, lambda one: one.latency_p99_milliseconds),
        times_rival=beside(RIVAL, pods_per_second),
        times_floor=beside(FLOOR, pods_per_second),
        cpu_of_rival=beside(RIVAL, cpu_milliseconds),
        is_sound=all(one.is_sound for one in own),
    )


def pods_per_second(one: Figures) -> float:
    return one.pods_per_second


def cpu_milliseconds(one: Figures) -> float:
    return one.cpu_milliseconds


def median(rounds: Sequence[Figures], figure: Callable[[Figures], float | None]) -> float | None:
    """Over the rounds that have the figure; None if none has."""
    values = [value for one in rounds if (value := figure(one)) is not None]
    return statistics.median(values) if values else None


def ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def decimal(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


TABLE_HEADER = (
    f"{'nodes':>6} {'workload':<16}{'scheduler':<16}{'pods/s':>7}{'x kube':>8}{'x floor':>9}{'CPU/pod':>9}{'x kube':>8}"
    f"{'MiB':>6}{'p50 ms':>8}{'p99 ms':>8}  goals missed"
)


def table(figures: Iterable[Figures]) -> Iterator[str]:
    """The lines of the summary."""
    yield TABLE_HEADER
    for one in rows(figures):
        words = ", ".join(one.misses) if one.is_sound else "NOT SOUND: see above"
        yield (
            f"{one.nodes:>6,} {one.workload:<16}{one.scheduler:<16}{one.pods_per_second:>7,.0f}"
            f"{decimal(one.times_rival, 2):>8}{decimal(one.times_floor, 2):>9}{one.cpu_milliseconds:>9.2f}"
            f"{decimal(one.cpu_of_rival, 2):>8}{one.peak_mebibytes:>6,.0f}{decimal(one.latency_p50_milliseconds):>8}"
            f"{decimal(one.latency_p99_milliseconds):>8}  {words}"
        )


COLUMNS = (
    "nodes",
    "pods",
    "scheduler",
    "pods/s",
    "to kube-scheduler",
    "to the floor",
    "CPU per pod",
    "peak memory",
    "create to bound, p50, p99",
)


def markdown(figures: Iterable[Figures]) -> Iterator[str]:
    """The lines of the summary as a table for a README."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|" + "---|" * len(COLUMNS)
    for one in rows(figures):
        latency = (decimal(one.latency_p50_milliseconds), decimal(one.latency_p99_milliseconds))
        cells = (
            f"{one.nodes:,}",
            WORKLOADS[one.workload].about,
            one.scheduler + ("" if one.is_sound else " (not sound)"),
            f"{one.pods_per_second:,.0f}",
            decimal(one.times_rival, 2),
            decimal(one.times_floor, 2),
            f"{one.cpu_milliseconds:.2f} ms",
            f"{one.peak_mebibytes:,.0f} MiB",
            "-" if one.latency_p50_milliseconds is None else f"{', '.join(latency)} ms",
        )
        yield f"| {' | '.join(cells)} |"
