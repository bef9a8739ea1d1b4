"""From a pod's creation to its binding while mixed pods arrive steadily, beside kube-scheduler: `make bench-latency`.

Pods arrive open-loop, 50 a second at even distances, whatever the scheduler does; each is one of five kinds in turn:
plain, node affinity to a zone, hard spread over zones, hostname anti-affinity, preferred pod affinity. Each scheduler
gets a control plane of its own (settings as in `throughput.py`), the nodes first; it starts, places pods for some
seconds to warm up, and then the clock counts. The order of the two changes with each round.

The clock is the benchmark's alone and the same for both, a watch on the pods:

- create: from the moment at which the request that creates the pod is sent, to the arrival at the watch of the first
  event that shows it with a node. Contains the API server's admission and etcd's write of pod and Binding.
- watch: from the arrival of the pod's ADDED event to the arrival of that same event: what the scheduler and its bind
  take, as two messages of one stream tell it.

`--asked` puts kscheduler beside itself: the second time it is asked each second why a pod pends that fits nowhere
(`GET /explain` with suggestions), which a copy of its process answers.

Percentiles are the smallest value that so many per cent of the pods do not exceed. All shares one machine with the API
server and etcd, so a scheduler that uses more CPU also slows those.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.real.clock import Clock, percentile
from benchmarks.real.run import (
    NAMESPACES_PATH,
    NODES_PATH,
    PODS_PATH,
    START,
    arrive,
    control_plane,
    create_all,
    keep_log,
    session,
)
from benchmarks.real.watch import follow
from benchmarks.real.workloads import NAMESPACE, SCHEDULER_NAME, WORKLOADS, node
from tests.controlplane import binaries, kscheduler_process
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.process import Process
from tests.controlplane.releases import pinned
from tests.e2e.audit import overcommitted

MIXED = WORKLOADS["mixed"]
# kscheduler that is asked.
QUERIED = "asked"
QUERY_SECONDS = 1.0
FIRST_BIND_SECONDS = 60.0
LAST_BIND_SECONDS = 30.0


def queried_kscheduler(plane: ControlPlane) -> Process:
    """Its questions are open to everybody on this machine: a login would cost requests of its own."""
    open_paths = ("--authorization-always-allow-paths", "/explain")
    folder, ports = plane.folder / "logs", kscheduler_process.HTTPS
    return kscheduler_process.process(
        plane.kscheduler_kubeconfig(), folder, *open_paths, scheduler_name=SCHEDULER_NAME, ports=ports
    )


class QueryService:
    """One each second, about the pod that fits nowhere, until it is cancelled."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.seconds: list[float] = []
        """What each answer took."""

    async def ask(self) -> None:
        """Raises `RuntimeError` for an answer that is none."""
        address = f"https://127.0.0.1:{kscheduler_process.http_port(self._process)}/explain"
        connector = aiohttp.TCPConnector(ssl=kscheduler_process.any_certificate())
        async with aiohttp.ClientSession(connector=connector) as http:
            while True:
                began = time.monotonic()
                async with http.get(address, params={"pod": f"{NAMESPACE}/huge"}) as answer:
                    text = await answer.text()
                if answer.status != 200 or '"suggestions"' not in text:
                    raise RuntimeError(f"{answer.status}: {text[:200]}")
                self.seconds.append(time.monotonic() - began)
                await asyncio.sleep(max(0.0, began + QUERY_SECONDS - time.monotonic()))


async def observe(
    plane: ControlPlane, process: Process, nodes: int, options: argparse.Namespace, queries: QueryService | None
) -> Clock:
    """Fills the cluster, starts the scheduler, lets pods come; returns what the clock saw."""
    clock = Clock()
    warming, measured = int(options.rate * options.warm_up), int(options.rate * options.seconds)
    async with session(plane.api) as http:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": NAMESPACE}}])
        await create_all(http, NODES_PATH, (node(number) for number in range(nodes)))
        version = plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
        watch = asyncio.create_task(follow(http, PODS_PATH, version, clock.see), name="watch")
        try:
            process.start()
            await arrive(http, [MIXED.pod(0)], options.rate, clock)
            await clock.wait_for_binds(1, FIRST_BIND_SECONDS)
            querying = None
            if options.queried:
                await create_all(http, PODS_PATH, [huge()])
            if queries is not None:
                querying = asyncio.create_task(queries.ask(), name="questions")
            numbers = range(1, 1 + warming + measured)
            await arrive(http, (MIXED.pod(number) for number in numbers), options.rate, clock)
            await clock.wait_for_binds(1 + warming + measured, LAST_BIND_SECONDS)
            if querying is not None:
                querying.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await querying
        finally:
            watch.cancel()
            await asyncio.wait({watch})
    return clock


def huge() -> dict[str, Any]:
    """A pod that fits nowhere."""
    pod = MIXED.pod(0)
    pod["metadata"]["name"] = "huge"
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "900"}}
    return pod


@dataclass(frozen=True)
class Figures:
    """One row of the table; times in milliseconds, sorted."""

    name: str
    nodes: int
    create: list[float]
    watch: list[float]
    cpu_milliseconds: float
    overcommitted: int
    answers: tuple[float, ...] = ()
    """How long each took, in milliseconds."""

    def row(self) -> str:
        """The figures under the columns of HEADER."""
        times = [percentile(self.create, p) for p in (50, 90, 99)] + [percentile(self.watch, p) for p in (50, 90, 99)]
        figures = "".join(f"{one:>11.1f}" for one in (*times, self.create[-1]))
        return f"{self.name:<16}{self.nodes:>7,}{figures}{self.cpu_milliseconds:>11.2f}"


COLUMNS = ("create p50", "p90", "p99", "watch p50", "p90", "p99", "worst", "CPU/pod")
HEADER = f"{'milliseconds':<16}{'nodes':>7}" + "".join(f"{name:>11}" for name in COLUMNS)


def measure(name: str, nodes: int, programs: binaries.Binaries, options: argparse.Namespace) -> Figures:
    with control_plane(programs) as plane:
        process = queried_kscheduler(plane) if name == QUERIED else START[name](plane)
        queries = QueryService(process) if name == QUERIED else None
        try:
            clock = asyncio.run(observe(plane, process, nodes, options, queries))
            cpu = process.cpu_seconds() * 1_000 / len(clock.bound)
            excess = overcommitted(plane.api.items(NODES_PATH), plane.api.items(PODS_PATH))
        finally:
            process.stop()
            keep_log(process, options.logs, f"{name}.log")
    late = list(clock.sent)[1 + int(options.rate * options.warm_up) :]
    return Figures(
        name=name,
        nodes=nodes,
        create=sorted((clock.bound[pod] - clock.sent[pod]) * 1_000 for pod in late),
        watch=sorted((clock.bound[pod] - clock.added[pod]) * 1_000 for pod in late),
        cpu_milliseconds=cpu,
        overcommitted=len(excess),
        answers=() if queries is None else tuple(sorted(each * 1_000 for each in queries.seconds)),
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.latency", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--rate", type=float, default=50.0, help="pods a second")
    parser.add_argument("--warm-up", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long pods arrive that are counted")
    parser.add_argument("--rounds", type=int, default=1, help="measure each scheduler so many times, in turn")
    parser.add_argument("--only", choices=sorted(START), help="measure this scheduler alone")
    parser.add_argument("--asked", action="store_true", help="beside kscheduler that is asked, not kube-scheduler")
    parser.add_argument("--logs", type=Path, help="keep the schedulers' logs in this folder")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    programs = binaries.find()
    names = [options.only] if options.only else ["kscheduler", QUERIED if options.queried else "kube-scheduler"]
    print(f"mixed pods, {options.rate:.0f}/s for {options.seconds:.0f} s, {pinned.chosen().tag}, {os.cpu_count()} CPUs")
    print(HEADER, flush=True)
    rows = []
    for nodes in options.nodes:
        for number in range(options.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                rows.append(measure(name, nodes, programs, options))
                print(rows[-1].row(), flush=True)
                if rows[-1].answers:
                    middle, late = (percentile(rows[-1].answers, each) for each in (50, 99))
                    print(f"    {len(rows[-1].answers)} answers, p50 {middle:.0f} ms, p99 {late:.0f} ms", flush=True)
    return 0 if not any(row.overcommitted for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
