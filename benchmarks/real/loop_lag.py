"""How late the event loop is while the service schedules at full speed, on a real API server.

    python -m benchmarks.real.loop_lag [--nodes 5000] [--pods 5000] [--workload mixed]

All nodes and pods are there when the service starts, as a process of its own; it then binds as fast as it can. The lag
is what the service says itself: `kscheduler_loop_lag_seconds`, a heartbeat every 20 ms, from the start of the process
to the last binding. So it contains the lists and the building of the cache. `/metrics` is read twice a second.
API server and etcd share the machine: a lag is also what the service waits for a core, which a machine of its own would
have free.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.real.clock import Clock, binds_per_second
from benchmarks.real.run import PODS_PATH, Size, control_plane, filled, kscheduler, session
from benchmarks.real.watch import follow
from benchmarks.real.workloads import WORKLOADS
from tests.controlplane import binaries
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.kscheduler_process import http_port
from tests.controlplane.process import Process

GOAL_SECONDS: Final = 0.05
SCRAPE_SECONDS: Final = 0.5
LAG: Final = "kscheduler_loop_lag_seconds"


async def observe(plane: ControlPlane, process: Process, pods: int, limit_seconds: float) -> tuple[Clock, str]:
    """When each pod was bound, and the last exposition."""
    clock, version = Clock(), plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
    async with session(plane.api) as http, aiohttp.ClientSession() as scraper:
        watch = asyncio.create_task(follow(http, PODS_PATH, version, clock.see), name="watch")
        process.start()
        exposition = ""
        try:
            async with asyncio.timeout(limit_seconds):
                while len(clock.bound) < pods:
                    await asyncio.sleep(SCRAPE_SECONDS)
                    exposition = await scrape(scraper, http_port(process)) or exposition
        finally:
            watch.cancel()
            await asyncio.wait({watch})
    return clock, exposition


async def scrape(scraper: aiohttp.ClientSession, port: int | None) -> str:
    """What `/metrics` shows; empty as long as no server listens."""
    if port is None:
        return ""
    async with scraper.get(f"http://127.0.0.1:{port}/metrics") as response:
        return await response.text()


def buckets(exposition: str) -> dict[float, float]:
    """How many beats were at most so late, by seconds."""
    families = {one.name: one for one in text_string_to_metric_families(exposition)}
    samples = families[LAG].samples
    return {float(one.labels["le"]): one.value for one in samples if one.name == f"{LAG}_bucket"}


def worst(exposition: str) -> float:
    """The longest lag of the last minute or two, seconds."""
    families = {one.name: one for one in text_string_to_metric_families(exposition)}
    return float(families["kscheduler_loop_lag_worst_seconds"].samples[0].value)


def quantile(counts: Mapping[float, float], share: float) -> float:
    """Seconds that so large a share of the beats does not exceed; within a bucket as Prometheus has it."""
    wanted = max(counts.values()) * share
    for (low, before), (high, count) in pairwise([(0.0, 0.0), *sorted(counts.items())]):
        if count >= wanted:
            return high if count == before else low + (high - low) * (wanted - before) / (count - before)
    return 0.0


def measure(options: argparse.Namespace) -> float:
    """Print the figures of one run; the 99th percentile in seconds."""
    workload, programs = WORKLOADS[options.workload], binaries.find()
    size = Size(options.nodes, options.pods, 0, 1.0, options.seconds, options.seconds)
    with tempfile.TemporaryDirectory(prefix="kscheduler-bench-") as folder:
        data = filled(programs, workload, size, Path(folder))
        with control_plane(programs, data) as plane:
            process = kscheduler(plane)
            try:
                clock, exposition = asyncio.run(observe(plane, process, size.pods, size.limit_seconds))
            finally:
                process.stop()
    counts = buckets(exposition)
    p50, p99 = quantile(counts, 0.5), quantile(counts, 0.99)
    print(f"{workload.name}: {size.pods:,} pods on {size.nodes:,} nodes", end=", ")
    print(
        f"{binds_per_second(clock.bound.values()):.0f} pods/s; {max(counts.values()):.0f} heartbeats late by", end=" "
    )
    print(f"p50 {p50 * 1e3:.1f}, p99 {p99 * 1e3:.1f} (goal 50), most {worst(exposition) * 1e3:.0f} ms", flush=True)
    return p99


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.loop_lag", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="mixed")
    parser.add_argument("--seconds", type=float, default=300.0, help="give up when it takes longer")
    return 0 if measure(parser.parse_args()) < GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
