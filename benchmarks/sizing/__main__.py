"""What the service needs, by nodes and running pods: the table "Sizing" of docs/operations.md.

    python -m benchmarks.sizing [--sizes 100/3000,...] [--rest-seconds 30] [--pods 1000]

Two replicas as `kscheduler run` starts them (HTTPS, leader election), on an embedded API server in this process. Each
size: both start, one after the other; the cluster is at rest; pods come at 50 a second; then all watches are lost with
their history, so that everything is read again beside what is held. CPU columns are CPU time from the kernel, not wall
time: they stand on a machine that others use as well. Not in it: Prometheus' scrapes, and plugins of your own.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.runs import machine
from benchmarks.sizing.process import MeasuredReplica, replica
from benchmarks.sizing.table import Replica, SizeFigures, SizingRun, markdown, write
from benchmarks.sizing.world import SizingWorld
from kscheduler.embedded.apiserver import EmbeddedAPIServer

SIZES: Final = "100/3000,500/15000,1000/30000"
PODS_PER_SECOND: Final = 50.0


def parse_sizes(text: str) -> list[tuple[int, int]]:
    """Nodes and pods. Raises ValueError."""
    sizes = [(int(nodes), int(pods)) for nodes, _, pods in (size.partition("/") for size in text.split(","))]
    if any(min(size) < 1 for size in sizes):
        raise ValueError("nodes and pods must be at least 1")
    return sizes


async def measure(nodes: int, pods: int, rest_seconds: float, count: int, folder: Path) -> SizeFigures:
    """One size."""
    async with EmbeddedAPIServer() as server:
        world = SizingWorld(server, nodes, pods)
        world.fill()
        async with replica("leader", server.url, folder) as leader:
            started = [await _started(leader)]
            async with replica("follower", server.url, folder) as follower:
                started.append(await _started(follower))
                return await _phases(world, [leader, follower], started, rest_seconds, count)


async def _started(process: MeasuredReplica) -> tuple[float, float, float]:
    cpu, peak = await process.ready(), process.peak()
    await process.quiet()
    return cpu, peak, process.resident()


async def _phases(
    world: SizingWorld,
    replicas: list[MeasuredReplica],
    started: list[tuple[float, float, float]],
    rest_seconds: float,
    count: int,
) -> SizeFigures:
    """Rest, binds, and the loss of all watches; the first of the replicas leads."""
    marks, began = [[one.cpu_seconds() for one in replicas]], time.monotonic()
    await world.rest(rest_seconds)
    rested = time.monotonic() - began
    marks.append([one.cpu_seconds() for one in replicas])
    bound = await world.offer(count, PODS_PER_SECOND)
    marks.append([one.cpu_seconds() for one in replicas])
    resident = [one.resident() for one in replicas]
    world.lose_watches()
    for one in replicas:
        await one.quiet()
    leader, follower = (
        Replica(
            *started[number],
            rest_cpu_share=(marks[1][number] - marks[0][number]) / rested,
            bind_cpu_seconds=marks[2][number] - marks[1][number],
            bind_resident=resident[number],
            peak=one.peak(),
        )
        for number, one in enumerate(replicas)
    )
    return SizeFigures(world.nodes, world.pods, round(rested, 1), bound, PODS_PER_SECOND, leader, follower)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizing", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=parse_sizes, default=SIZES, help="NODES/PODS,... (default %(default)s)")
    parser.add_argument("--rest-seconds", type=float, default=30.0, help="default %(default)s")
    parser.add_argument("--pods", type=int, default=1000, help="to bind at 50/s (default %(default)s)")
    options = parser.parse_args()
    run = SizingRun(machine(), ())
    for nodes, pods in options.sizes:
        with tempfile.TemporaryDirectory(prefix="kscheduler-sizing-") as folder:
            figures = asyncio.run(measure(nodes, pods, options.rest_seconds, options.pods, Path(folder)))
        run = SizingRun(run.machine, (*run.figures, figures))
        print(f"{nodes:,} nodes, {pods:,} pods: {figures}", file=sys.stderr, flush=True)
        if parse_sizes(SIZES)[: len(run.figures)] == [(one.nodes, one.pods) for one in run.figures]:
            write(run)  # not a part, nor sizes of somebody's own: docs/operations.md holds what this file holds
    print(markdown(run.figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
