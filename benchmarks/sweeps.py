"""A sweep of the trace openb on two engines, workers killed on the way: are rows equal, what does a second worker give?

    python -m benchmarks.sweeps --data DIR                       510 runs on each engine: hours on two cores
    python -m benchmarks.sweeps --data DIR --only openb/default  a part; runs that are done are not repeated

    local   killed after a third of the rows, interrupted after a half, resumed
    dask    on a cluster of this machine, killed after a third
    speed   so many runs by one worker and by two, in rotating order, on a machine that should be quiet

A worker that has handed over its row is killed in its next run. Rows are kept below `build/sweeps`.
"""

import argparse
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kscheduler.sweep.engines.dask_cluster import LOCAL, DaskEngine
from kscheduler.sweep.engines.engine import SweepEngine
from kscheduler.sweep.engines.local import LocalEngine
from kscheduler.sweep.results import Results
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RunSpec
from kscheduler.sweep.summary import summary_text
from kscheduler.sweep.sweep_file import read_sweep
from kscheduler.sweep.sweeping import sweep

_FILE: Final = Path(__file__).parents[1] / "deploy" / "examples" / "sweep-openb.yaml"
_WORKERS: Final = 2

# Called with each row, and with how many there are now.
OnRow = Callable[[int, SweepRow], None]


def rows_of(specs: Sequence[RunSpec], engine: SweepEngine, directory: Path, on_row: OnRow) -> list[SweepRow]:
    """All rows; runs that are done are not repeated."""
    outcome = sweep(specs, engine, Results(directory), lambda done, _, row: on_row(done, row), print)
    return outcome.rows


def killing(after: int) -> OnRow:
    """Kills a worker once so many rows are there."""
    killed: list[int] = []

    def on_row(done: int, row: SweepRow) -> None:
        if done >= after and not killed:
            killed.append(int(row.worker.rpartition(":")[2]))
            print(f"{done} rows: worker {killed[0]} is killed")
            os.kill(killed[0], signal.SIGKILL)

    return on_row


def interrupting(after: int, before: OnRow) -> OnRow:
    """Ends the sweep once so many rows are there."""

    def on_row(done: int, row: SweepRow) -> None:
        before(done, row)
        if done >= after:
            raise KeyboardInterrupt

    return on_row


def by_local_workers(specs: Sequence[RunSpec], directory: Path, workers: int = _WORKERS) -> list[SweepRow]:
    """A worker is killed, the sweep interrupted and resumed."""
    count = len(specs)
    try:
        rows_of(specs, LocalEngine(workers), directory, interrupting(count // 2, killing(count // 3)))
    except KeyboardInterrupt:
        print(f"interrupted with {len(Results(directory).done() & {spec.key for spec in specs})} rows, and resumed")
    return rows_of(specs, LocalEngine(workers), directory, lambda *_: None)


def by_dask_workers(specs: Sequence[RunSpec], directory: Path, workers: int = _WORKERS) -> list[SweepRow]:
    """A worker is killed."""
    return rows_of(specs, DaskEngine(LOCAL, workers), directory, killing(len(specs) // 3))


def differing(one: Sequence[SweepRow], other: Sequence[SweepRow]) -> list[str]:
    """The keys of rows that are not equal but for what is measured, or have no result."""
    return [
        first.key
        for first, second in zip(one, other, strict=True)
        if first.error or first.without_measured() != second.without_measured()
    ]


def _seconds(specs: Sequence[RunSpec], workers: int) -> float:
    began = time.perf_counter()
    for row in LocalEngine(workers).rows(specs, print):
        assert not row.error, row.error
    return time.perf_counter() - began


def main() -> None:
    """Play, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweeps", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the trace's CSV files")
    parser.add_argument("--only", default="", help="runs whose workload or policy has this in its name")
    parser.add_argument("--results", type=Path, default=Path("build") / "sweeps", help="where rows are kept")
    parser.add_argument("--speed", type=int, default=12, metavar="N", help="runs by one worker and by two; 0: none")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    path = args.results / "sweep.yaml"
    path.write_text(_FILE.read_text().replace("directory: openb", f"directory: {args.data.resolve()}"))
    runs = read_sweep(str(path)).runs()
    specs = [spec for spec in runs if args.only in spec.workload.name or args.only in spec.policy.name]
    local = by_local_workers(specs, args.results / "local")
    dask = by_dask_workers(specs, args.results / "dask")
    print(summary_text(local))
    print(f"{len(specs)} runs, {len(differing(local, dask))} rows differ between the engines")
    cpu = [row.cpu_seconds or 0.0 for row in local]
    print(f"CPU of a run: mean {sum(cpu) / len(cpu):.1f} s, at most {max(cpu):.1f} s")
    some = specs[: args.speed]
    if some:
        alone, together = [[_seconds(some, workers) for workers in order] for order in ((1, 2), (2, 1))]
        one, two = min(alone[0], together[1]), min(alone[1], together[0])
        print(f"{len(some)} runs: {one:.0f} s by one worker, {two:.0f} s by two: {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
