"""One measurement of `make bench-real`: a scheduler, a workload, an API server and an etcd of its own.

The cluster is filled once per workload and round, while no scheduler runs; what etcd then has on disk is kept
(`filled`), and every scheduler gets a copy of it under a new etcd and a new API server. So all meet the same objects
with the same UIDs, no scheduler finds the history of another, and no API server is warmer than another.
"""

import asyncio
import contextlib
import json
import shutil
import ssl
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import aiohttp
import msgspec

from benchmarks.real import audit as real_audit
from benchmarks.real import gangs
from benchmarks.real.clock import Clock, binds_per_second, percentile
from benchmarks.real.devices import GROUP_PATH, device_faults
from benchmarks.real.table import Figures
from benchmarks.real.watch import follow
from benchmarks.real.workloads import NAMESPACE, SCHEDULER_NAME, Object, Workload, node
from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.binaries import Binaries
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import Process
from tests.controlplane.rest import Api

CONNECTIONS: Final = 50
QUIET_SECONDS: Final = 1.0
QUIET_CPU_SECONDS: Final = 0.05
QUIET_ROUNDS: Final = 30
LOOK_SECONDS: Final = 1.0
LAST_BIND_SECONDS: Final = 20.0
LONGEST_LINE: Final = 400
NODES_PATH: Final = "/api/v1/nodes"
NAMESPACES_PATH: Final = "/api/v1/namespaces"
PODS_PATH: Final = f"{NAMESPACES_PATH}/{NAMESPACE}/pods"
CLAIMS_PATH: Final = f"{GROUP_PATH}/namespaces/{NAMESPACE}/resourceclaims"
EVENTS_PATH: Final = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"


def kscheduler(plane: ControlPlane) -> Process:
    return kscheduler_process.process(
        plane.kscheduler_kubeconfig(), plane.folder / "logs", scheduler_name=SCHEDULER_NAME
    )


def recording(plane: ControlPlane) -> Process:
    """Of kscheduler, with a recording of what it decides."""
    folder = plane.folder / "logs"
    options = ("--record", str(plane.folder / "recording"))
    return kscheduler_process.process(plane.kscheduler_kubeconfig(), folder, *options, scheduler_name=SCHEDULER_NAME)


def rival(plane: ControlPlane) -> Process:
    """kube-scheduler."""
    kubeconfig, logs = plane.kube_scheduler_kubeconfig, plane.folder / "logs"
    return kube_scheduler.process(plane.binaries, kubeconfig, logs, SCHEDULER_NAME)


def floor(plane: ControlPlane, *options: str) -> Process:
    """The client that decides nothing; it may do what kube-scheduler may."""
    kubeconfig, log = str(plane.kube_scheduler_kubeconfig), plane.folder / "logs" / "floor.log"
    command = [sys.executable, "-m", "benchmarks.real.floor", "--kubeconfig", kubeconfig]
    return Process("floor", [*command, "--scheduler-name", SCHEDULER_NAME, *options], log)


def bare_floor(plane: ControlPlane) -> Process:
    return floor(plane, "--bare")


START: Final[Mapping[str, Callable[[ControlPlane], Process]]] = MappingProxyType(
    {
        "kscheduler": kscheduler,
        "recording": recording,
        "kube-scheduler": rival,
        "floor": floor,
        "bare-floor": bare_floor,
    }
)


@dataclass(frozen=True)
class Size:
    """How much, and how long."""

    nodes: int
    pods: int
    arrivals: int
    """Pods that arrive one by one after the waiting ones are bound; none if 0."""
    arrivals_per_second: float
    patience_seconds: float
    """A scheduler that binds nothing for so long is given up."""
    limit_seconds: float
    """So is one that needs longer for all."""


# --- the cluster ------------------------------------------------------------------------------------------------------


@contextmanager
def control_plane(
    programs: Binaries, etcd_data: Path | None = None, apiserver_options: tuple[str, ...] = ()
) -> Iterator[ControlPlane]:
    """An API server and etcd, on a copy of this etcd data; stopped and removed in the end, whatever happens."""
    plane = ControlPlane(programs, Settings(controllers=False, apiserver_options=apiserver_options))
    try:
        if etcd_data is not None:
            shutil.copytree(etcd_data, plane.folder / "etcd")
        plane.start()
        yield plane
    finally:
        plane.stop()


def filled(programs: Binaries, workload: Workload, size: Size, folder: Path) -> Path:
    """The data of etcd, in this folder, of a cluster with the nodes and the waiting pods."""
    data = folder / workload.name
    with control_plane(programs, apiserver_options=options_of(workload)) as plane:
        asyncio.run(fill(plane.api, workload, size))
        plane.stop_apiserver()
        plane.etcd.stop()
        shutil.copytree(plane.folder / "etcd", data)
    return data


def options_of(workload: Workload) -> tuple[str, ...]:
    """Flags of the API server that serves what the workload needs."""
    return gangs.API_SERVER if workload.has_gangs else ()


def follow_gangs(plane: ControlPlane, process: Process, name: str) -> None:
    """The scheduler follows pod groups, with the rights to do so."""
    flags = {"kscheduler": gangs.KSCHEDULER, "kube-scheduler": gangs.KUBE_SCHEDULER}.get(name, ())
    process.command += flags
    if name == "kscheduler":
        plane.grant("kscheduler-pod-groups", gangs.RULES)


async def fill(api: Api, workload: Workload, size: Size) -> None:
    async with session(api) as http:
        await create_all(http, NAMESPACES_PATH, [{"metadata": {"name": NAMESPACE}}])
        await create_all(http, NODES_PATH, (node(number) for number in range(size.nodes)))
        everything = size.pods + size.arrivals
        for path, objects in workload.beside(size.nodes, everything, NAMESPACE) if workload.beside else ():
            await create_all(http, path, objects)
        await create_all(http, PODS_PATH, (workload.pod(number) for number in range(size.pods)))


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
        await create(http, path, json.dumps(item))


async def create(http: aiohttp.ClientSession, path: str, body: str) -> None:
    async with http.post(path, data=body) as response:
        answer = await response.read()
        if response.status >= 400:
            raise RuntimeError(f"POST {path}: {response.status} {answer.decode(errors='replace')}")


async def arrive(http: aiohttp.ClientSession, pods: Iterable[Object], rate: float, clock: Clock) -> None:
    """One pod every 1/rate seconds, however long the answers take."""
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number, pod in enumerate(pods):
            body = json.dumps(pod)
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            clock.sent[pod["metadata"]["name"]] = time.monotonic()
            group.create_task(create(http, PODS_PATH, body))


# --- one scheduler ----------------------------------------------------------------------------------------------------


def measure(name: str, workload: Workload, size: Size, programs: Binaries, data: Path, logs: Path | None) -> Figures:
    """Starts this scheduler beside the cluster in `data`, and takes its figures; `round` is left at 0."""
    with control_plane(programs, data, options_of(workload)) as plane:
        process = START[name](plane)
        if workload.has_gangs:
            follow_gangs(plane, process, name)
        try:
            return asyncio.run(Measurement(plane, process, workload, size).take(name))
        finally:
            process.stop()
            keep_log(process, logs, f"{workload.name}-{name}.log")


class Measurement:
    """What happens from the start of a scheduler to its last figure."""

    def __init__(self, plane: ControlPlane, process: Process, workload: Workload, size: Size) -> None:
        self._plane = plane
        self._process = process
        self._workload = workload
        self._size = size
        self._clock = Clock()
        self._start_cpu_seconds = 0.0

    async def take(self, name: str) -> Figures:
        """Waiting pods first, then pods that arrive; last of all the audit."""
        version = self._plane.api.get(PODS_PATH, limit="1")["metadata"]["resourceVersion"]
        async with session(self._plane.api) as http:
            watch = asyncio.create_task(follow(http, PODS_PATH, version, self._clock.see), name="watch")
            try:
                figures = await self._waiting_pods(name, watch)
                latencies = [] if figures.stuck else await self._arriving_pods(http)
            finally:
                watch.cancel()
                await asyncio.wait({watch})
        return self._judged(figures, latencies)

    async def _waiting_pods(self, name: str, watch: asyncio.Task[None]) -> Figures:
        before = self._plane.apiserver.cpu_seconds()
        self._process.start()
        started = time.monotonic()
        stuck = await self._all_bound(started, watch)
        if not stuck:
            await quiet(self._process)
        times = list(self._clock.bound.values())
        alive = self._process.running
        return Figures(
            workload=self._workload.name,
            scheduler=name,
            round=0,
            nodes=self._size.nodes,
            pods=self._size.pods,
            bound=len(times),
            pods_per_second=binds_per_second(times),
            first_bind_seconds=min(times, default=started) - started,
            start_cpu_seconds=self._start_cpu_seconds,
            cpu_milliseconds=self._process.cpu_seconds() * 1_000 / self._size.pods if alive else 0.0,
            apiserver_cpu_milliseconds=(self._plane.apiserver.cpu_seconds() - before) * 1_000 / self._size.pods,
            peak_mebibytes=self._process.peak_mebibytes() if alive else 0.0,
            events=count(self._plane.api, EVENTS_PATH),
            stuck=stuck,
        )

    async def _all_bound(self, started: float, watch: asyncio.Task[None]) -> str:
        """Returns when all are bound, or why the scheduler was given up. Raises RuntimeError if the watch ends."""
        while len(self._clock.bound) < self._size.pods:
            if watch.done():
                watch.result()
            reason = given_up(self._clock, started, time.monotonic(), self._size, is_running=self._process.running)
            if reason:
                return "\n".join((f"{reason}; {why(self._plane.api.items(PODS_PATH))}", *last_words(self._process)))
            await self._next_look()
        return ""

    async def _next_look(self) -> None:
        """Returns at the first bind, at the last, and every second."""
        is_first = not self._start_cpu_seconds
        with contextlib.suppress(TimeoutError):
            await self._clock.wait_for_binds(1 if is_first else self._size.pods, LOOK_SECONDS)
        if is_first and self._clock.bound:
            self._start_cpu_seconds = self._process.cpu_seconds()

    async def _arriving_pods(self, http: aiohttp.ClientSession) -> list[float]:
        """Milliseconds from creation to bind, sorted; only of pods that were bound, the audit tells of the others."""
        numbers = range(self._size.pods, self._size.pods + self._size.arrivals)
        pods = [self._workload.pod(number) for number in numbers]
        await arrive(http, pods, self._size.arrivals_per_second, self._clock)
        with contextlib.suppress(TimeoutError):
            await self._clock.wait_for_binds(self._size.pods + self._size.arrivals, LAST_BIND_SECONDS)
        return self._clock.latencies(pod["metadata"]["name"] for pod in pods)

    def _judged(self, figures: Figures, latencies: list[float]) -> Figures:
        """With the audit of all that is bound, and the latencies."""
        nodes, pods = self._plane.api.items(NODES_PATH), self._plane.api.items(PODS_PATH)
        faults = real_audit.room_faults(nodes, pods)
        if "floor" not in figures.scheduler:
            faults += real_audit.rule_faults(nodes, pods)
        if self._workload.beside is not None:
            faults += device_faults(self._plane.api.items(CLAIMS_PATH))
        if "floor" not in figures.scheduler:
            faults += gangs.gang_faults(pods)
        late = 0 if figures.stuck else self._size.arrivals - len(latencies)
        if late:
            faults.append(f"{late} of the pods that arrived were not bound in {LAST_BIND_SECONDS:.0f} s")
        p50, p99 = (percentile(latencies, p) if latencies else None for p in (50, 99))
        return msgspec.structs.replace(
            figures, faults=tuple(faults), latency_p50_milliseconds=p50, latency_p99_milliseconds=p99
        )


def given_up(clock: Clock, started: float, now: float, size: Size, *, is_running: bool) -> str:
    """Why it makes no sense to wait longer for this scheduler; empty if it does."""
    bound = f"{len(clock.bound):,} of {size.pods:,} pods bound"
    if not is_running:
        return f"its process has ended, {bound}"
    last = clock.last_bind() or started
    if now - last > size.patience_seconds:
        return f"no bind for {size.patience_seconds:.0f} s, {bound}"
    if now - started > size.limit_seconds:
        return f"not ready after {size.limit_seconds:.0f} s, {bound}"
    return ""


def why(pods: Iterable[Object]) -> str:
    """What the waiting pods' conditions say, the most frequent message first."""
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    conditions = (one for pod in waiting for one in pod.get("status", {}).get("conditions", ()))
    messages = Counter(str(one.get("message", "")) for one in conditions if one["type"] == "PodScheduled")
    shown = [f"{number:,} pods: {message}" for message, number in messages.most_common(3)]
    return "; ".join(shown) or f"{len(waiting):,} pods wait and have no condition"


def last_words(process: Process) -> Iterator[str]:
    """The end of its log, each line as long as a reader bears: a JSON log has tracebacks in one line."""
    for line in process.tail().splitlines():
        yield line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2 :]}"


def count(api: Api, path: str) -> int:
    """How many objects the API server has there."""
    page = api.get(path, limit="1")
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


async def quiet(process: Process, rounds: int = QUIET_ROUNDS) -> None:
    """Returns when the process has used next to no CPU for a second: its late Events are sent; or after the rounds."""
    before = process.cpu_seconds()
    for _ in range(rounds):
        await asyncio.sleep(QUIET_SECONDS)
        now = process.cpu_seconds()
        if now - before < QUIET_CPU_SECONDS:
            return
        before = now


def keep_log(process: Process, folder: Path | None, name: str) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(process.text())
