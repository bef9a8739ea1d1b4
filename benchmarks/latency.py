"""From a pod's creation to its binding while mixed pods arrive steadily, beside kube-scheduler: `make bench-latency`.

Pods arrive open-loop, 50 a second at even distances, whatever the scheduler does; each is one of five kinds in turn:
plain, node affinity to a zone, hard spread over zones, hostname anti-affinity, preferred pod affinity. Each scheduler
gets a control plane of its own (settings as in `real.py`), the nodes first; it starts, places pods for some seconds to
warm up, and then the clock counts. The order of the two changes with each round.

The clock is the benchmark's alone and the same for both, a watch on the pods:

- create: from the moment at which the request that creates the pod is sent, to the arrival at the watch of the first
  event that shows it with a node. Contains the API server's admission and etcd's write of pod and Binding.
- watch: from the arrival of the pod's ADDED event to the arrival of that same event: what the scheduler and its bind
  take, as two messages of one stream tell it.

Percentiles are the smallest value that so many per cent of the pods do not exceed. All shares one machine with the API
server and etcd, so a scheduler that uses more CPU also slows those.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import aiohttp
import msgspec

from benchmarks.real import NAMESPACES_PATH, NODES_PATH, PODS_PATH, START, create_all, keep_log, node, session
from tests.controlplane import binaries
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import Process
from tests.e2e.audit import Object, overcommitted

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = 10
"""Of each kind so many Deployments take turns: the anti-affinity of one never needs more nodes than there are."""
FIRST_BIND_SECONDS = 60.0
LAST_BIND_SECONDS = 30.0


def term(key: str, app: str) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def in_zone(zone: str) -> Object:
    """Required node affinity."""
    place = {"key": ZONE, "operator": "In", "values": [zone]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [place]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def spread(app: str) -> Object:
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term(ZONE, app)}
    return {"topologySpreadConstraints": [constraint]}


def apart(app: str) -> Object:
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term(HOST, app)]}}}


def near(app: str) -> Object:
    weighted = {"weight": 10, "podAffinityTerm": term(ZONE, app)}
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}}}


KINDS = ("plain", "placed", "spread", "apart", "near")


def wishes(kind: str, number: int, app: str) -> Object:
    """What the spec of a pod of this kind says about where it wants to be."""
    return {
        "plain": {},
        "placed": in_zone(f"zone-{number % 3}"),
        "spread": spread(app),
        "apart": apart(app),
        "near": near(app),
    }[kind]


def mixed_pod(number: int, scheduler_name: str) -> Object:
    """The pod that comes as the `number`th."""
    kind = KINDS[number % len(KINDS)]
    app = f"{kind}-{number // len(KINDS) % APPS}"
    resources = {"requests": {"cpu": "100m", "memory": "256Mi"}}
    container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
    metadata = {"name": f"pod-{number:05}", "namespace": "bench", "labels": {"app": app}}
    spec = {"schedulerName": scheduler_name, "containers": [container], **wishes(kind, number, app)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class _Spec(msgspec.Struct):
    node_name: str = msgspec.field(default="", name="nodeName")


class _Metadata(msgspec.Struct):
    name: str


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(msgspec.Struct):
    object: _Pod


_DECODER = msgspec.json.Decoder(_Event)


@dataclass
class Clock:
    """When each pod was sent, seen first, and seen with a node, in seconds of the monotonic clock."""

    sent: dict[str, float] = field(default_factory=dict)
    added: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, line: bytes, now: float) -> None:
        """Notes what this line of the watch, which came at `now`, shows for the first time."""
        pod = _DECODER.decode(line).object
        self.added.setdefault(pod.metadata.name, now)
        if pod.spec.node_name:
            self.bound.setdefault(pod.metadata.name, now)
            self.changed.set()

    async def wait_for_binds(self, count: int, seconds: float) -> None:
        """Returns when so many pods are bound; raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while len(self.bound) < count:
                self.changed.clear()
                await self.changed.wait()


async def follow(http: aiohttp.ClientSession, version: str, clock: Clock) -> None:
    parameters = {"watch": "1", "resourceVersion": version}
    async with http.get(PODS_PATH, params=parameters) as response:
        rest = b""
        async for chunk in response.content.iter_any():
            now = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                clock.see(line, now)
    raise RuntimeError("the API server ended the watch on pods")


async def create(http: aiohttp.ClientSession, pod: Object, clock: Clock) -> None:
    body = json.dumps(pod)
    clock.sent[pod["metadata"]["name"]] = time.monotonic()
    async with http.post(PODS_PATH, data=body) as response:
        if response.status >= 400:
            raise RuntimeError(f"POST {PODS_PATH}: {response.status} {await response.text()}")
        await response.read()


async def arrive(http: aiohttp.ClientSession, pods: Iterator[Object], rate: float, clock: Clock) -> None:
    """One pod every 1/rate seconds, however long the answers take."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, pod in enumerate(pods):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            group.create_task(create(http, pod, clock))


async def observe(plane: ControlPlane, process: Process, name: str, nodes: int, options: argparse.Namespace) -> Clock:
    """Fills the cluster, starts the scheduler, lets pods come; returns what the clock saw."""
    clock = Clock()
    warming, measured = int(options.rate * options.warm_up), int(options.rate * options.seconds)
    async with session(plane.api) as http:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": "bench"}}])
        await create_all(http, NODES_PATH, (node(number) for number in range(nodes)))
        version = plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
        watch = asyncio.create_task(follow(http, version, clock), name="watch")
        try:
            process.start()
            await create(http, mixed_pod(0, name), clock)
            await clock.wait_for_binds(1, FIRST_BIND_SECONDS)
            numbers = range(1, 1 + warming + measured)
            await arrive(http, (mixed_pod(number, name) for number in numbers), options.rate, clock)
            await clock.wait_for_binds(1 + warming + measured, LAST_BIND_SECONDS)
        finally:
            watch.cancel()
            await asyncio.wait({watch})
    return clock


@dataclass(frozen=True)
class Figures:
    """One row of the table; times in milliseconds, sorted."""

    name: str
    nodes: int
    create: list[float]
    watch: list[float]
    cpu_milliseconds: float
    overcommitted: int

    def row(self) -> str:
        """The figures under the columns of HEADER."""
        times = [percentile(self.create, p) for p in (50, 90, 99)] + [percentile(self.watch, p) for p in (50, 90, 99)]
        figures = "".join(f"{one:>11.1f}" for one in (*times, self.create[-1]))
        return f"{self.name:<16}{self.nodes:>7,}{figures}{self.cpu_milliseconds:>11.2f}"


COLUMNS = ("create p50", "p90", "p99", "watch p50", "p90", "p99", "worst", "CPU/pod")
HEADER = f"{'milliseconds':<16}{'nodes':>7}" + "".join(f"{name:>11}" for name in COLUMNS)


def percentile(ordered: list[float], per_cent: float) -> float:
    return ordered[max(0, ceil(len(ordered) * per_cent / 100) - 1)]


def measure(name: str, nodes: int, programs: binaries.Binaries, options: argparse.Namespace) -> Figures:
    with ControlPlane(programs, Settings(controllers=False)) as plane:
        process = START[name](plane)
        try:
            clock = asyncio.run(observe(plane, process, name, nodes, options))
            cpu = process.cpu_seconds() * 1_000 / len(clock.bound)
            excess = overcommitted(plane.api.items(NODES_PATH), plane.api.items(PODS_PATH))
        finally:
            process.stop()
            keep_log(process, options.logs)
    late = list(clock.sent)[1 + int(options.rate * options.warm_up) :]
    return Figures(
        name=name,
        nodes=nodes,
        create=sorted((clock.bound[pod] - clock.sent[pod]) * 1_000 for pod in late),
        watch=sorted((clock.bound[pod] - clock.added[pod]) * 1_000 for pod in late),
        cpu_milliseconds=cpu,
        overcommitted=len(excess),
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 5_000])
    parser.add_argument("--rate", type=float, default=50.0, help="pods a second")
    parser.add_argument("--warm-up", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long pods arrive that are counted")
    parser.add_argument("--rounds", type=int, default=1, help="measure each scheduler so many times, in turn")
    parser.add_argument("--only", choices=sorted(START), help="measure this scheduler alone")
    parser.add_argument("--logs", type=Path, help="keep the schedulers' logs in this folder")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    # A run that is terminated stops its servers, as one that is interrupted.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    programs = binaries.find()
    names = [options.only] if options.only else list(START)
    print(f"mixed pods, {options.rate:.0f}/s for {options.seconds:.0f} s, {binaries.VERSION}, {os.cpu_count()} CPUs")
    print(HEADER, flush=True)
    rows = []
    for nodes in options.nodes:
        for number in range(options.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                rows.append(measure(name, nodes, programs, options))
                print(rows[-1].row(), flush=True)
    return 0 if not any(row.overcommitted for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
