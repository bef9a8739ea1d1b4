"""kscheduler, kube-scheduler and a client that decides nothing, on a real API server with etcd: `make bench-real`.

    python -m benchmarks.real.throughput --workload spread mixed --rounds 3 --json FILE
    python -m benchmarks.real.throughput --result FILE --markdown        the table of what was measured before

The nodes and all pods of a workload (`workloads.py`) are created first, while no scheduler runs; then each
scheduler starts on a copy of that cluster (`run.py`), and a watch on the pods takes the time of each bind. The
scheduler that comes first changes with each workload and round. Settings that are the same for all: etcd does not wait
for the disk, priority-and-fairness is off, the in-flight limits are 3,000 and 1,000, and kube-scheduler's client may
send 5,000 requests a second.

- pods/s: binds after the first one, over the time from the first to the last, as the watch saw them.
- first s, its CPU: from the start of the scheduler's process to its first bind, and what the process used in that time.
- CPU/pod: milliseconds of user and system time of the scheduler's process, its start included, over the pods. It is
  read when the process has been quiet for a second after the last bind, so Events that are sent late are counted.
  API CPU: the API server's in the same time.
- MiB: the largest resident size of the process, VmHWM.
- p50, p99: milliseconds from the request that creates a pod to its bind, of pods that arrive one by one after the
  others are bound.
- Events: how many the API server has when all pods are bound; a scheduler that drops some has saved their cost.
- faults: what the audit found (`audit.py`). Of the floor (`floor.py`) it looks at the room on nodes only.

All of it shares one machine with the API server and etcd, which take most of the CPU: the figures compare
schedulers on the same small machine, and say little about one that has a machine to itself.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks import runs
from benchmarks.real import table as real_table
from benchmarks.real.run import START, Size, filled, measure
from benchmarks.real.table import Figures, Run
from benchmarks.real.workloads import WORKLOADS, Workload
from tests.controlplane import binaries
from tests.controlplane.releases import pinned

SCHEDULERS: Final = ("kscheduler", "kube-scheduler", "floor")
WITHOUT_GANGS: Final = [name for name, workload in WORKLOADS.items() if not workload.has_gangs]
QUICK_NODES: Final = 1_000
QUICK_PODS: Final = 1_000


def size_of(workload: Workload, options: argparse.Namespace) -> Size:
    """What the options make of a workload's own size. Raises SystemExit if the pods would not fit."""
    quick = (QUICK_NODES, QUICK_PODS) if options.quick else (None, None)
    size = Size(
        nodes=options.nodes or quick[0] or workload.nodes,
        pods=options.pods or quick[1] or workload.pods,
        arrivals=0 if workload.has_gangs else options.arrivals,
        arrivals_per_second=options.rate,
        patience_seconds=options.patience,
        limit_seconds=options.seconds,
    )
    least = workload.least_nodes(size.pods + size.arrivals)
    if size.nodes < least:
        raise SystemExit(f"{workload.name}: {size.pods + size.arrivals:,} pods need {least:,} nodes at least")
    return size


def in_turn(schedulers: Sequence[str], turn: int) -> list[str]:
    """All of them, another one first each time."""
    first = turn % len(schedulers)
    return [*schedulers[first:], *schedulers[:first]]


def play(programs: binaries.Binaries, options: argparse.Namespace) -> Iterator[Figures]:
    """Figures as they come: all workloads, then the next round."""
    sizes = {name: size_of(WORKLOADS[name], options) for name in options.workload}
    for number in range(options.rounds):
        for place, (name, size) in enumerate(sizes.items()):
            yield from play_workload(WORKLOADS[name], size, number, number + place, programs, options)


def play_workload(
    workload: Workload, size: Size, number: int, turn: int, programs: binaries.Binaries, options: argparse.Namespace
) -> Iterator[Figures]:
    with tempfile.TemporaryDirectory(prefix="kscheduler-bench-") as folder:
        data = filled(programs, workload, size, Path(folder))
        for scheduler in in_turn(options.schedulers, turn):
            figures = measure(scheduler, workload, size, programs, data, options.logs)
            yield msgspec.structs.replace(figures, round=number)


def run(options: argparse.Namespace) -> Run:
    """Measures and prints. What was measured is written after each step: an interrupted run is not lost."""
    programs = binaries.find()
    for name in options.workload:
        if WORKLOADS[name].has_gangs and pinned.followed_version(pinned.chosen()) != "1.37":
            raise SystemExit(f"{name} needs pod groups: {pinned.VARIABLE}=1.37.2")
    so_far = Run(runs.machine(), pinned.chosen().tag)
    print(f"Kubernetes {pinned.chosen().tag}, {os.cpu_count()} CPUs, load {so_far.machine.load}")
    print(real_table.LINE_HEADER, flush=True)
    for one in play(programs, options):
        so_far = msgspec.structs.replace(so_far, figures=(*so_far.figures, one))
        print(real_table.line(one), flush=True)
        for words in (*one.faults[:3], one.stuck):
            if words:
                print(f"  {one.scheduler}: {words}", file=sys.stderr, flush=True)
        if options.json:
            real_table.write(options.json, so_far)
    print()
    return so_far


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.throughput", description=(__doc__ or "").partition("\n")[0]
    )
    add = parser.add_argument
    add(
        "--workload",
        nargs="+",
        choices=list(WORKLOADS),
        default=WITHOUT_GANGS,
        metavar="NAME",
        help="only these; those with gangs need 1.37",
    )
    add("--schedulers", nargs="+", choices=sorted(START), default=list(SCHEDULERS), metavar="NAME", help="only these")
    add("--nodes", type=positive, help="instead of each workload's own number")
    add("--pods", type=positive, help="instead of 5,000")
    add("--quick", action="store_true", help=f"{QUICK_PODS:,} pods on {QUICK_NODES:,} nodes")
    add("--rounds", type=positive, default=1, help="measure everything so many times; tables show medians")
    add(
        "--arrivals",
        type=not_negative,
        default=150,
        metavar="PODS",
        help="that arrive one by one, for the latency; 0: none",
    )
    add("--rate", type=positive, default=25, help="arrivals a second")
    add("--patience", type=float, default=60.0, metavar="SECONDS", help="give up on a scheduler that binds nothing")
    add("--seconds", type=float, default=300.0, help="give up on a scheduler that needs longer for all")
    add("--json", type=Path, metavar="FILE", help="keep all figures in this file")
    add("--result", type=Path, metavar="FILE", help="show what is in this file, and measure nothing")
    add("--markdown", action="store_true", help="print the table for a README too")
    add("--logs", type=Path, metavar="FOLDER", help="keep the schedulers' logs")
    options = parser.parse_args(arguments)
    for name in ("workload", "schedulers"):
        setattr(options, name, list(dict.fromkeys(getattr(options, name))))
    return options


def positive(text: str) -> int:
    """A number of things. Raises ArgumentTypeError."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return int(text)


def not_negative(text: str) -> int:
    """A number of things, which may be none. Raises ArgumentTypeError."""
    return 0 if text == "0" else positive(text)


def report(done: Run, *, with_markdown: bool) -> int:
    """Prints the tables. Returns 1 if a scheduler failed; the floor, which breaks rules by design, must only bind."""
    for words in real_table.table(done.figures):
        print(words)
    if with_markdown:
        print()
        for words in real_table.markdown(done.figures):
            print(words)
    return 0 if all(one.is_sound for one in done.figures) else 1


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    done = real_table.read(options.result) if options.result else run(options)
    return report(done, with_markdown=options.markdown)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was measured so far is in the file of --json
