"""scheduler_perf's workloads on a real API server: kscheduler, kube-scheduler and the floor, workload by workload.

    make bench-upstream                                               all of at most 5,000 nodes: several hours
    python -m benchmarks.upstream --selection readme                  ten workloads, perhaps a quarter of an hour
    python -m benchmarks.upstream --only GangScheduling TopologySpreading/5000
    python -m benchmarks.upstream --result FILE --markdown            the tables of what was measured before

The workloads are those of Kubernetes' Go module (KUBERNETES_VERSION; 1.37.2 if it is not set). The first run fetches it
and builds the control plane from it, for which it needs Go: five minutes. What is measured is written to the file of
`--json` after each step, and the table beside it with the suffix `.txt`; what is in that file already is not measured
again, so a run that was ended goes on.

- pods/s: of the pods that upstream measures, those bound after the first one, over the time from the first to the last.
  fed/s: as fast as these pods came to be. "keeps up": the scheduler binds as fast as they come, pods/s says no more.
- p50, p99 ms: from the first event of a pod in the benchmark's watch to the first one that shows its node. As upstream
  creates all pods at once, most of it is waiting in the queue.
- CPU/pod: milliseconds of user and system time of the scheduler's process while upstream measures, until it rests.
- MiB: the largest resident size of the process, VmHWM.
- A star in the table, `faults` or `stuck`: read what is printed below it.

Figures depend on what else the machine does: API server, etcd, controllers and the clients of the benchmark share it.
"""

import argparse
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from benchmarks import runs
from benchmarks.real.throughput import in_turn, positive
from benchmarks.upstream import table
from benchmarks.upstream.play import Patience, measure, prepared
from benchmarks.upstream.requests import Script, script_of
from benchmarks.upstream.servers import SCHEDULERS, refusal
from benchmarks.upstream.table import Figures, Run
from benchmarks.upstream.workloads import (
    SELECTIONS,
    Limits,
    Sized,
    by_gates,
    chosen,
    module_folder,
    nodes_of,
    pods_of,
    read_all,
    sized,
    smallest,
)
from kscheduler.bench.template import TemplateError
from tests.controlplane import binaries
from tests.controlplane.binaries import Binaries, BuildError
from tests.controlplane.releases import pinned
from tests.controlplane.releases.pinned import Release, followed_version
from tests.controlplane.toolchain import ToolchainError

RELEASE: Final = "1.37.2"
NODES: Final = 5_000
PODS: Final = 12_000
README_PODS: Final = 7_000
# Of servers, of requests to them, and of what they send.
FAULTS: Final = (
    RuntimeError,
    OSError,
    subprocess.SubprocessError,
    http.client.HTTPException,
    aiohttp.ClientError,
    msgspec.MsgspecError,
)


def release() -> Release:
    """The one that KUBERNETES_VERSION names, or else 1.37.2. Raises UnknownReleaseError."""
    return pinned.find(os.environ.get(pinned.VARIABLE) or RELEASE)


def selection(options: argparse.Namespace) -> list[Sized]:
    """The workloads that were asked for, in the order in which they are played. Raises `TemplateError`."""
    workloads = read_all(options.folder or module_folder(release()))
    found = chosen(workloads, options.selection, options.only, options.nodes_at_most)
    if not found:
        raise TemplateError("no workload is asked for; --list --selection all shows all")
    limits = Limits(options.max_nodes, options.max_pods, options.scale)
    return by_gates(sized(workload, limits) for workload in found)


def listed(workloads: Sequence[Sized]) -> Iterator[str]:
    """A line for each, below a header."""
    width = max(len("workload"), *(len(one.name) for one in workloads))
    yield f"{'workload':<{width}}{'nodes':>7}{'pods':>8}{'scale':>7}  can be played"
    for one in workloads:
        nodes, pods = nodes_of(one.workload), pods_of(one.workload)
        yield f"{one.name:<{width}}{nodes:>7,}{pods:>8,}{one.scale:>7.2f}  {'; '.join(_says(one)) or 'yes'}"


def _says(one: Sized) -> Iterator[str]:
    """Why it is not played, or not by all; a small one of its kind tells, since large ones take seconds."""
    try:
        script = _script(Sized(smallest(one.workload), one.scale, one.problem))
    except TemplateError as error:
        yield f"no: {error}"
        return
    for scheduler in SCHEDULERS:
        if reason := refusal(scheduler, script, followed_version(release())):
            yield f"not by {scheduler}: {reason}"


def _script(one: Sized) -> Script:
    if one.problem:
        raise TemplateError(one.problem)
    return script_of(one.workload)


# --- a run ------------------------------------------------------------------------------------------------------------


class Session:
    """Plays workloads one after the other, and keeps what was measured."""

    def __init__(self, programs: Binaries, options: argparse.Namespace) -> None:
        self._programs = programs
        self._options = options
        self._patience = Patience(options.patience, options.seconds)
        fresh = Run(runs.machine(), release().tag)
        self.run = table.read(options.json) if options.json and options.json.exists() else fresh

    def play(self, workloads: Sequence[Sized]) -> None:
        """All of them, then the next round. Raises nothing for a workload that fails: the next run tries it again."""
        ends = time.monotonic() + 60 * self._options.minutes if self._options.minutes else None
        for number in range(self._options.rounds):
            for place, one in enumerate(workloads):
                if ends is not None and time.monotonic() > ends:
                    print(f"{len(workloads) - place} workloads are left: the same command goes on with them")
                    return
                try:
                    self._play(one, number, number + place)
                except (TemplateError, *FAULTS) as error:
                    print(f"{one.name}: {error}", file=sys.stderr, flush=True)

    def _play(self, one: Sized, number: int, turn: int) -> None:
        script = _script(one)
        wanted = [name for name in in_turn(self._options.schedulers, turn) if not self._is_done(script, name, number)]
        tried = [name for name in wanted if not self._note_refusal(one, script, name, number)]
        if not tried:
            return
        with self.cluster(script) as data:
            for name in tried:
                try:
                    figures = self.measure(name, one, script, data)
                except FAULTS as error:
                    print(f"{one.name}, {name}: {error}", file=sys.stderr, flush=True)
                else:
                    self._keep(msgspec.structs.replace(figures, round=number))

    @contextmanager
    def cluster(self, script: Script) -> Iterator[Path]:
        """The data of etcd that each scheduler gets a copy of."""
        with tempfile.TemporaryDirectory(prefix="kscheduler-bench-") as folder:
            yield prepared(self._programs, script, Path(folder))

    def measure(self, name: str, one: Sized, script: Script, data: Path) -> Figures:
        """Of one scheduler."""
        return measure(name, script, one.scale, self._programs, data, self._patience, self._options.logs)

    def _is_done(self, script: Script, name: str, number: int) -> bool:
        return (script.workload.name, script.nodes, script.pods, name, number) in self.run.done

    def _note_refusal(self, one: Sized, script: Script, name: str, number: int) -> bool:
        reason = refusal(name, script, followed_version(release()))
        if reason:
            self._keep(
                Figures(
                    workload=one.name,
                    folder=one.workload.path.parent.name,
                    scheduler=name,
                    round=number,
                    nodes=script.nodes,
                    pods=script.pods,
                    scale=one.scale,
                    refused=reason,
                )
            )
        return bool(reason)

    def _keep(self, figures: Figures) -> None:
        self.run = msgspec.structs.replace(self.run, figures=(*self.run.figures, figures))
        print(table.line(figures), flush=True)
        for text in (*figures.faults[:3], figures.stuck):
            if text:
                print(f"  {figures.scheduler}: {text}", file=sys.stderr, flush=True)
        if self._options.json:
            table.write(self._options.json, self.run)
            self._options.json.with_suffix(".txt").write_text("\n".join(table.table(self.run.figures)) + "\n")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.upstream", description=(__doc__ or "").partition("\n")[0]
    )
    add = parser.add_argument
    add(
        "--selection",
        choices=SELECTIONS,
        default="all",
        help="those with a label of upstream's, those without one, or ten of all kinds for a README (default: all)",
    )
    add("--only", nargs="+", default=[], metavar="PATTERN", help="only workloads whose names have this in them")
    add("--nodes-at-most", type=positive, default=NODES, metavar="N", help="leave out larger ones, unless --only")
    add("--max-nodes", type=positive, default=NODES, metavar="N", help="scale a larger one down to so many nodes")
    add("--max-pods", type=positive, metavar="N", help=f"or pods (default: {PODS}; {README_PODS} for a README)")
    add("--scale", type=factor, default=1.0, metavar="F", help="scale all by this factor, as 0.1")
    add("--schedulers", nargs="+", choices=SCHEDULERS, default=list(SCHEDULERS), metavar="NAME", help="only these")
    add("--rounds", type=positive, default=1, help="measure everything so many times; tables show medians")
    add("--minutes", type=positive, metavar="N", help="begin no further workload after so long")
    add("--patience", type=float, default=60.0, metavar="SECONDS", help="give up on a scheduler that binds nothing")
    add("--seconds", type=float, default=300.0, help="give up on a scheduler that needs longer for one step")
    add("--json", type=Path, metavar="FILE", help="keep all figures in this file, and go on with it")
    add("--result", type=Path, metavar="FILE", help="show what is in this file, and measure nothing")
    add("--markdown", action="store_true", help="print the table for a page too")
    add("--list", action="store_true", help="print the workloads, their sizes and who can play them, and exit")
    add("--logs", type=Path, metavar="FOLDER", help="keep the schedulers' logs")
    add("--folder", type=Path, help="another test/integration/scheduler_perf than that of Go's module cache")
    options = parser.parse_args(arguments)
    options.max_pods = options.max_pods or (README_PODS if options.selection == "readme" else PODS)
    for pattern in options.only:
        try:
            re.compile(pattern)
        except re.error as error:
            parser.error(f"argument --only: {pattern}: {error}")
    return options


def factor(text: str) -> float:
    """Above 0, at most 1. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and at most 1")
    return value


def build_once(wanted: Release) -> None:
    """Build the programs if the workloads, which come with their sources, are not there. Raises as `find_release`."""
    if not module_folder(wanted).is_dir():
        binaries.find_release(wanted)


def report(done: Run, *, with_markdown: bool) -> int:
    """Prints the tables. Returns 1 if a scheduler was stuck, or the audit found something."""
    for text in table.table(done.figures):
        print(text)
    for text in table.unsound(done.figures):
        print(text)
    if with_markdown:
        print()
        for text in table.markdown(done.figures):
            print(text)
    return 1 if any(one.stuck or one.faults for one in done.figures) else 0


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.result:
        return report(table.read(options.result), with_markdown=options.markdown)
    try:
        if options.folder is None:
            build_once(release())
        workloads = selection(options)
    except (TemplateError, pinned.UnknownReleaseError, BuildError, ToolchainError) as error:
        raise SystemExit(str(error)) from None
    if options.list:
        print("\n".join(listed(workloads)))
        return 0
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    session = Session(binaries.find_release(release()), options)
    print(f"Kubernetes {session.run.kubernetes}, {os.cpu_count()} CPUs, load {session.run.machine.load}")
    print(table.HEADER, flush=True)
    session.play(workloads)
    print()
    return report(session.run, with_markdown=options.markdown)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was measured so far is in the file of --json
