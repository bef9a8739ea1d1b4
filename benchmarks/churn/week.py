"""A week of an autoscaled cluster in minutes: what a scheduler keeps of releases, Jobs, nodes and taints that are gone.

    python -m benchmarks.churn.week --minutes 60 [--rate 60]     in real time, as many pods a second
    python -m benchmarks.churn.week --pods 150000                as fast as it goes, on a virtual clock: a week

In process, with the real queue, cache, cycle, handlers, preemption, conditions and Events over a cluster that stands in
(`kscheduler.bench.cluster`). 200 nodes and 1,500 pods are alive at any time. Per 60 pods: six releases
(image, labels, amounts, ReplicaSet, selectors of spread and affinity), three Jobs, six taints with a timestamp as their
value, one node that goes with its pods and one of another name that comes; and in turn StatefulSets with new claims,
pods that fit nowhere, GPU pods and those that preempt them, budgets, namespaces.

Per interval: resident memory, class columns and their budget, entries of all tables (`census`), how late the loop is,
CPU per pod. What the world takes itself (about a tenth) is in the CPU. Then a verdict, and exit code 1 if it is bad:

    memory      after the second half within 3 % of after the first
    loop lag    99th percentile below 50 ms (only reported at full speed, where the loop is never idle)
    CPU         per pod, in the last quarter within 15 % of the first: of each the interval that was disturbed least,
                beside a fixed piece of work that is done again and again
    columns     within their budget
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.churn.play import Churn
from benchmarks.churn.world import Size
from benchmarks.runs import reference_work
from kscheduler.aio.clock import REAL_CLOCK, VirtualClock
from kscheduler.aio.tasks import BackgroundService
from kscheduler.bench.figures import resident_mebibytes

MEMORY_TOLERANCE: Final = 0.03
LAG_SECONDS: Final = 0.05
CPU_TOLERANCE: Final = 0.15
_BEAT_SECONDS: Final = 0.02
# A multiple of four: quarters are compared.
_INTERVALS: Final = 16
_LARGEST_SHOWN: Final = 12
# Looks at the memory per interval, of which the median counts: what a burst takes for a moment is not growth.
_POINTS: Final = 8


@dataclass(slots=True)
class Interval:
    """What was seen in a sixteenth of the run."""

    seconds: float
    """Since the beginning; of the virtual clock, if that is used."""
    pods: int
    resident_mib: float
    class_bytes: int
    class_budget: int
    classes: int
    lag_p50_ms: float
    lag_p99_ms: float
    lag_max_ms: float
    own_lag_p99_ms: float
    """What of the lag may be the process's own doing."""
    cpu_ms_per_pod: float
    cpu_per_pod_ratio: float
    """The same to a fixed piece of work that was done between the pods: on a busy machine both take longer."""
    alive: dict[str, int]
    entries: int = 0
    """Of all tables together."""
    tables: dict[str, int] = field(default_factory=dict)

    def row(self) -> str:
        """A line under `HEADER`."""
        return (
            f"{self.seconds:>9,.0f}{self.pods:>9,}{self.resident_mib:>9.1f}"
            f"{self.class_bytes / 2**20:>9.2f}{self.class_budget / 2**20:>8.2f}{self.classes:>8,}{self.entries:>9,}"
            f"{self.lag_p50_ms:>8.2f}{self.lag_p99_ms:>8.2f}{self.lag_max_ms:>8.1f}{self.own_lag_p99_ms:>8.2f}"
            f"{self.cpu_ms_per_pod:>8.3f}"
        )


HEADER: Final = (
    f"{'seconds':>9}{'pods':>9}{'MiB':>9}{'columns':>9}{'budget':>8}{'classes':>8}{'entries':>9}"
    f"{'lag p50':>8}{'p99':>8}{'max ms':>8}{'own p99':>8}{'ms/pod':>8}"
)


class Lag:
    """A heartbeat that notes by how much it comes late, in seconds.

    On a busy machine it also comes late because others have the processor. How much of that is the process's own doing
    is at most the CPU that it has used since the last beat.
    """

    def __init__(self) -> None:
        self.seen: array[float] = array("d")
        self.own: array[float] = array("d")
        self._is_paused = False

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            due, cpu = time.perf_counter() + _BEAT_SECONDS, time.process_time()
            await asyncio.sleep(_BEAT_SECONDS)
            if self._is_paused:
                self._is_paused = False
            else:
                lag = max(0.0, time.perf_counter() - due)
                self.seen.append(lag)
                self.own.append(min(lag, time.process_time() - cpu))

    def forget_next(self) -> None:
        """What blocks the loop now is the measuring itself."""
        self._is_paused = True

    def take(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """Those since the last call, in milliseconds: [as seen | its own doing, beat]."""
        taken = np.array([self.seen or [0.0], self.own or [0.0]]) * 1e3
        self.seen, self.own = array("d"), array("d")
        return taken


class RunMeasurements:
    """One run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.is_real = options.minutes is not None
        size = Size(options.nodes, options.alive)
        self.churn = Churn(size, clock=REAL_CLOCK if self.is_real else VirtualClock(), seed=options.seed)
        self.lag = Lag()
        self.intervals: list[Interval] = []
        self._resident: list[float] = []
        self._pods = self._goal

    @property
    def _goal(self) -> int:
        """Pods in all."""
        if self.is_real:
            return int(self.options.minutes * 60 * self.options.rate)
        return int(self.options.pods)

    async def run(self) -> None:
        """Begin, then measure."""
        async with self.churn.running(BackgroundService("lag", self.lag.run)):
            await self.churn.begin()
            gc.collect()
            began, before = self.churn.clock.monotonic(), self.churn.world.created
            print(HEADER, flush=True)
            for number in range(1, _INTERVALS + 1):
                await self._interval(began, before, before + self._goal * number // _INTERVALS)

    async def _interval(self, began: float, first: int, until: int) -> None:
        churn, so_far = self.churn, self.churn.world.created
        self._resident.clear()
        self.lag.take()
        cpu = reference = 0.0
        for point in range(1, _POINTS + 1):
            before = time.process_time()
            await self._play(began, first, so_far + (until - so_far) * point // _POINTS)
            cpu += time.process_time() - before
            self._resident.append(resident_mebibytes())
            self.lag.forget_next()
            before = time.process_time()
            reference_work()
            reference += (time.process_time() - before) / _POINTS
        pods = max(1, churn.world.created - so_far)
        lags, own = self.lag.take()
        engines = churn.engines
        interval = Interval(
            seconds=round(churn.clock.monotonic() - began, 1),
            pods=churn.world.created - first,
            resident_mib=round(float(np.median(self._resident)), 1),
            class_bytes=sum(engine.bytes for engine in engines),
            class_budget=sum(engine.budget_bytes for engine in engines),
            classes=sum(map(len, engines)),
            lag_p50_ms=round(float(np.quantile(lags, 0.5)), 2),
            lag_p99_ms=round(float(np.quantile(lags, 0.99)), 2),
            lag_max_ms=round(float(lags.max()), 1),
            own_lag_p99_ms=round(float(np.quantile(own, 0.99)), 2),
            cpu_ms_per_pod=round(cpu * 1e3 / pods, 3),
            cpu_per_pod_ratio=cpu / pods / reference,
            alive=churn.sizes(),
        )
        if self.options.census:
            self.lag.forget_next()
            interval.tables = (await churn.census_apart()).tables
            interval.entries = sum(n for name, n in interval.tables.items() if not name.endswith("(bytes)"))
        self.intervals.append(interval)
        print(interval.row(), flush=True)

    async def _play(self, began: float, first: int, until: int) -> None:
        churn = self.churn

        async def wait() -> None:
            await self._wait_until(began + (churn.world.created - first) / self.options.rate)

        while churn.world.created < until:
            pods = await churn.step(wait if self.is_real else None)
            if not self.is_real:
                await churn.pass_time(pods / self.options.rate)

    async def _wait_until(self, due: float) -> None:
        """In real time: conditions, backoffs and pauses go on meanwhile."""
        while (left := due - self.churn.clock.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.25))
            await self.churn.schedule()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One sentence of the verdict."""

    is_good: bool
    text: str


def verdict(intervals: Sequence[Interval], problems: Sequence[str], *, is_real: bool) -> list[Judgement]:
    """What a run has shown."""
    half, last = intervals[len(intervals) // 2 - 1], intervals[-1]
    growth = last.resident_mib / half.resident_mib - 1
    quarter = max(1, len(intervals) // 4)
    first_quarter, last_quarter = intervals[:quarter], intervals[-quarter:]
    cpu_first, cpu_last = (
        float(np.mean([one.cpu_ms_per_pod for one in some])) for some in (first_quarter, last_quarter)
    )
    dearer = (
        min(one.cpu_per_pod_ratio for one in last_quarter) / min(one.cpu_per_pod_ratio for one in first_quarter) - 1
    )
    lag, own = max(one.lag_p99_ms for one in intervals), max(one.own_lag_p99_ms for one in intervals)
    over = max(one.class_bytes / max(1, one.class_budget) for one in intervals)
    return [
        Judgement(
            growth <= MEMORY_TOLERANCE,
            f"memory: {half.resident_mib:.1f} MiB after the first half, {last.resident_mib:.1f} after the second"
            f" ({growth:+.1%}; limit {MEMORY_TOLERANCE:.0%})",
        ),
        Judgement(
            not is_real or lag < LAG_SECONDS * 1e3,
            f"loop lag: p99 of the worst interval {lag:.1f} ms, of which at most {own:.1f} are its own doing"
            + (f" (limit {LAG_SECONDS * 1e3:.0f})" if is_real else " (never idle: no limit)"),
        ),
        Judgement(
            dearer <= CPU_TOLERANCE,
            f"CPU: {cpu_first:.3f} ms a pod in the first quarter, {cpu_last:.3f} in the last; beside a fixed piece of"
            f" work {dearer:+.1%} (limit {CPU_TOLERANCE:.0%})",
        ),
        Judgement(over <= 1.0, f"class columns: at most {over:.0%} of their budget"),
        *(Judgement(is_good=False, text=problem) for problem in problems),
    ]


def _grown(intervals: Sequence[Interval]) -> list[tuple[str, int, int]]:
    """The tables that have grown most from the first half to the second: name, entries then and now."""
    before, now = intervals[len(intervals) // 2 - 1].tables, intervals[-1].tables
    grown = [(name, before.get(name, 0), count) for name, count in now.items() if count > before.get(name, 0)]
    return sorted(grown, key=lambda one: one[1] - one[2])[:_LARGEST_SHOWN]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.churn.week", description=(__doc__ or "").partition("\n")[0]
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--minutes", type=float, help="in real time, so long")
    how.add_argument(
        "--pods", type=int, default=150_000, help="as fast as it goes, so many (default 150000: a week); virtual clock"
    )
    parser.add_argument("--rate", type=float, default=60.0, help="pods a second of the clock (default 60)")
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--alive", type=int, default=1500, help="pods at a time (default 1500)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--census", action="store_true", help="count the entries of all tables after each interval")
    parser.add_argument("--json", metavar="FILE", help="write the intervals and the verdict there")
    options = parser.parse_args()
    run = RunMeasurements(options)
    asyncio.run(run.run())
    judgements = verdict(run.intervals, run.churn.problems(), is_real=run.is_real)
    for one in judgements:
        print(f"{'ok ' if one.is_good else 'BAD'}  {one.text}")
    for name, before, now in _grown(run.intervals) if options.census else ():
        print(f"     grown: {name} {before:,} -> {now:,}")
    if options.json:
        report = {
            "intervals": [asdict(interval) for interval in run.intervals],
            "verdict": [asdict(judgement) for judgement in judgements],
        }
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if all(one.is_good for one in judgements) else 1


if __name__ == "__main__":
    sys.exit(main())
