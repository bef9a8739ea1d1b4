"""kscheduler and kube-scheduler side by side on a real API server with etcd: `make bench-real`.

Each scheduler gets a control plane of its own, so that neither finds the other's history in etcd or a warmer API
server. The nodes and all pods are created first, while no scheduler runs; then the scheduler starts, and a watch on the
pods takes the time of each bind. Settings that are the same for both: etcd does not wait for the disk,
priority-and-fairness is off, the in-flight limits are 3,000 and 1,000, and the client may send 5,000 requests a second.

- pods/s: binds after the first one, over the time from the first to the last, as the watch saw them.
- CPU ms/pod: all user and system time of the scheduler's process, its start included, over the pods. It is read when
  the process has been quiet for a second after the last bind, so Events that are sent late are counted.
- peak MiB: VmHWM of the process.

All of it shares one machine with the API server and etcd, which take most of the CPU: the figures compare two
schedulers on the same small machine, and say little about a scheduler that has a machine to itself.
"""

import argparse
import asyncio
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec

from tests.controlplane import binaries, kscheduler_process, kube_scheduler
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import Process
from tests.controlplane.rest import Api
from tests.e2e.audit import Object, overcommitted

CONNECTIONS = 50
QUIET_SECONDS = 1.0
QUIET_CPU_SECONDS = 0.05
QUIET_ROUNDS = 30
NODES_PATH = "/api/v1/nodes"
NAMESPACES_PATH = "/api/v1/namespaces"
PODS_PATH = "/api/v1/namespaces/bench/pods"
START = {
    "kscheduler": lambda plane: kscheduler_process.process(plane.kscheduler_kubeconfig(), plane.folder / "logs"),
    "kube-scheduler": lambda plane: kube_scheduler.process(
        plane.binaries, plane.kube_scheduler_kubeconfig, plane.folder / "logs", "kube-scheduler"
    ),
}


class WatchedSpec(msgspec.Struct):
    """The part of a pod's spec that a bind changes."""

    node_name: str = msgspec.field(default="", name="nodeName")


class WatchedMetadata(msgspec.Struct):
    """Enough to tell pods of one namespace apart."""

    name: str


class WatchedPod(msgspec.Struct):
    """A pod as the clock of the benchmark sees it."""

    metadata: WatchedMetadata
    spec: WatchedSpec


class WatchedEvent(msgspec.Struct):
    """One line of the watch."""

    object: WatchedPod


@dataclass
class Binds:
    """When each pod was first seen with a node, in seconds of the monotonic clock."""

    expected: int
    at: dict[str, float] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether every pod has been seen with a node."""
        return len(self.at) >= self.expected

    def see(self, line: bytes) -> None:
        """Notes the time if this line of the watch is a pod's first one with a node."""
        pod = DECODER.decode(line).object
        if pod.spec.node_name and pod.metadata.name not in self.at:
            self.at[pod.metadata.name] = time.monotonic()

    def per_second(self) -> float:
        """Binds after the first one, over the seconds since the first one. Zero if there are less than two."""
        if len(self.at) < 2:
            return 0.0
        seconds = max(self.at.values()) - min(self.at.values())
        return (len(self.at) - 1) / seconds


DECODER = msgspec.json.Decoder(WatchedEvent)


@dataclass(frozen=True)
class Figures:
    """One row of the table."""

    name: str
    pods: int
    bound: int
    pods_per_second: float
    first_bind_seconds: float
    cpu_milliseconds: float
    peak_mebibytes: float
    overcommitted: int

    def row(self) -> str:
        """The figures under the columns of HEADER."""
        all_bound = "yes" if self.bound == self.pods else f"{self.bound:,}"
        return (
            f"{self.name:<16}{self.pods_per_second:>9,.0f}{self.first_bind_seconds:>13.2f}{self.cpu_milliseconds:>12.2f}"
            f"{self.peak_mebibytes:>10,.0f}{all_bound:>11}{self.overcommitted:>15}"
        )


HEADER = (
    f"{'scheduler':<16}{'pods/s':>9}{'first bind s':>13}{'CPU ms/pod':>12}{'peak MiB':>10}{'all bound':>11}"
    f"{'overcommitted':>15}"
)


def node(number: int) -> Object:
    """A node with 32 CPUs, 128 GiB and room for 110 pods, in one of three zones."""
    name = f"node-{number:05}"
    capacity = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(number: int, scheduler_name: str) -> Object:
    """A plain pod: one container with requests, and nothing that restricts where it runs."""
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    metadata = {"name": f"pod-{number:05}", "namespace": "bench", "labels": {"app": "bench"}}
    spec = {"schedulerName": scheduler_name, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def session(api: Api) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(api.authority)), limit=CONNECTIONS + 1)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
    return aiohttp.ClientSession(api.url, connector=connector, headers=api.headers(), timeout=timeout)


async def create_all(http: aiohttp.ClientSession, path: str, objects: Iterable[Object]) -> None:
    remaining = iter(objects)
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(create_each(http, path, remaining))


async def create_each(http: aiohttp.ClientSession, path: str, remaining: Iterator[Object]) -> None:
    for item in remaining:
        async with http.post(path, data=json.dumps(item)) as response:
            if response.status >= 400:
                raise RuntimeError(f"POST {path}: {response.status} {await response.text()}")


async def watch_binds(http: aiohttp.ClientSession, version: str, binds: Binds) -> None:
    """Returns when all pods are bound."""
    parameters = {"watch": "1", "resourceVersion": version}
    async with http.get(PODS_PATH, params=parameters) as response:
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                binds.see(line)
            if binds.complete:
                return
    raise RuntimeError("the API server ended the watch on pods")


async def fill(plane: ControlPlane, name: str, nodes: int, pods: int) -> None:
    async with session(plane.api) as http:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": "bench"}}])
        await create_all(http, NODES_PATH, (node(number) for number in range(nodes)))
        await create_all(http, PODS_PATH, (pod(number, name) for number in range(pods)))


async def time_binds(plane: ControlPlane, process: Process, pods: int, seconds: float) -> tuple[Binds, float]:
    """Starts the scheduler and waits for all binds, or for `seconds`. Returns them and the moment of the start."""
    binds = Binds(pods)
    version = plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
    async with session(plane.api) as http:
        started = time.monotonic()
        process.start()
        try:
            await asyncio.wait_for(watch_binds(http, version, binds), seconds)
        except TimeoutError:
            print(
                f"{process.name}: {len(binds.at)} of {pods} bound in {seconds:.0f} s; {process.tail()}", file=sys.stderr
            )
    return binds, started


def wait_quiet(process: Process) -> None:
    """Returns when the process has used next to no CPU for a second: its late Events are sent."""
    before = process.cpu_seconds()
    for _ in range(QUIET_ROUNDS):
        time.sleep(QUIET_SECONDS)
        now = process.cpu_seconds()
        if now - before < QUIET_CPU_SECONDS:
            return
        before = now


def measure(name: str, programs: binaries.Binaries, options: argparse.Namespace) -> Figures:
    start: Callable[[ControlPlane], Process] = START[name]
    with ControlPlane(programs, Settings(controllers=False)) as plane:
        asyncio.run(fill(plane, name, options.nodes, options.pods))
        process = start(plane)
        try:
            binds, started = asyncio.run(time_binds(plane, process, options.pods, options.seconds))
            wait_quiet(process)
            return figures(name, plane.api, process, binds, started)
        finally:
            process.stop()
            keep_log(process, options.logs)


def figures(name: str, api: Api, process: Process, binds: Binds, started: float) -> Figures:
    pods, nodes = api.items(PODS_PATH), api.items(NODES_PATH)
    return Figures(
        name=name,
        pods=binds.expected,
        bound=sum(1 for item in pods if item["spec"].get("nodeName")),
        pods_per_second=binds.per_second(),
        first_bind_seconds=min(binds.at.values(), default=started) - started,
        cpu_milliseconds=process.cpu_seconds() * 1_000 / binds.expected,
        peak_mebibytes=process.peak_mebibytes(),
        overcommitted=len(overcommitted(nodes, pods)),
    )


def keep_log(process: Process, folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / process.log.name).write_text(process.text())


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=1, help="measure each scheduler so many times, in turn")
    parser.add_argument("--only", choices=sorted(START), help="measure this scheduler alone")
    parser.add_argument("--seconds", type=float, default=180.0, help="give up on a scheduler after so long")
    parser.add_argument("--logs", type=Path, help="keep the schedulers' logs in this folder")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    programs = binaries.find()
    names = [options.only] if options.only else list(START)
    size = f"{options.nodes:,} nodes, {options.pods:,} pending plain pods"
    print(f"{size}, Kubernetes {binaries.VERSION}, {os.cpu_count()} CPUs")
    print(HEADER, flush=True)
    rows = []
    for _ in range(options.rounds):
        for name in names:
            rows.append(measure(name, programs, options))
            print(rows[-1].row(), flush=True)
    return 0 if all(row.bound == row.pods and not row.overcommitted for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
