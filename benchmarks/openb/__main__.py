"""`python -m benchmarks.openb INPUT.json --data DIR --policy NAME`."""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from benchmarks.openb.run_files import as_line, read_run
from kscheduler.sweep.trace.openb import TraceError, drawn_run, tasks_of
from kscheduler.sweep.trace.playing import TracePlayer, curve
from kscheduler.sweep.trace.profiles import POLICIES, trace_policy
from kscheduler.sweep.trace.run_drawing import typical_shapes
from kscheduler.telemetry.logs.pipeline import configure

_SHOWN = (70, 80, 90, 95, 100, 110, 120, 130)


def main() -> None:
    """Play a run, and print its placements."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.openb", description=__doc__)
    parser.add_argument("input", nargs="?", type=Path, help="a run: workload, seed, nodes, tasks (JSON, perhaps gzip)")
    parser.add_argument("--workload", default="default", help="without a run: the workload of which one is drawn")
    parser.add_argument("--seed", type=int, default=42, help="without a run: of which seed (default 42)")
    parser.add_argument("--data", type=Path, required=True, help="the folder with the trace's CSV files")
    parser.add_argument("--policy", choices=POLICIES, required=True, help="which policy places the tasks")
    parser.add_argument("--summary", action="store_true", help="print the curve instead of the placements")
    args = parser.parse_args()
    configure(verbosity=0)
    try:
        run = read_run(args.input) if args.input else drawn_run(args.data, args.workload, args.seed)
        mix = typical_shapes(tasks_of(args.data, run.workload))
    except TraceError as problem:
        parser.error(str(problem))
    player = TracePlayer(run, trace_policy(args.policy, mix, run.seed))
    began, began_cpu = time.perf_counter(), time.process_time()
    placements = asyncio.run(player.placements())
    seconds, cpu = time.perf_counter() - began, time.process_time() - began_cpu
    if not args.summary:
        for placement in placements:
            print(as_line(placement.task, placement.node, placement.devices))
    points = dict(curve(run, placements))
    shown = ", ".join(f"{percent} %: {points[percent]:.2f}" for percent in _SHOWN if percent in points)
    print(f"{run.workload} {run.seed} {args.policy}: GPUs allocated at arrival of {shown}", file=sys.stderr)
    print(f"{len(run.tasks)} tasks on {len(run.nodes)} nodes in {seconds:.1f} s, {cpu:.1f} s of CPU", file=sys.stderr)


main()
