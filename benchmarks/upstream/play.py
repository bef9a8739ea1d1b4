"""One measurement: a workload, a scheduler, an API server and an etcd of its own.

What upstream creates before it needs a scheduler is created once per workload and round, and each scheduler gets a copy
of etcd's data (`benchmarks.real.run`). Then the scheduler starts; a pod of the benchmark's own tells when it is ready.
From there on the workload is played as upstream plays it: pods come while the scheduler runs, from a process of its
own, and the benchmark's watch takes the times.
"""

import asyncio
import contextlib
import itertools
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.real import audit
from benchmarks.real.clock import percentile
from benchmarks.real.devices import GROUP_PATH, device_faults
from benchmarks.real.run import control_plane, keep_log, last_words, quiet, session, why
from benchmarks.real.watch import follow
from benchmarks.upstream import requests as steps
from benchmarks.upstream.claims import allocations
from benchmarks.upstream.clock import PodClock
from benchmarks.upstream.feeder import Done, Feeder
from benchmarks.upstream.requests import Batch, Request, Script, Step
from benchmarks.upstream.servers import FLOOR, START, apiserver_options, controllers, prepare
from benchmarks.upstream.table import Figures
from tests.controlplane.binaries import Binaries
from tests.controlplane.controlplane import ControlPlane
from tests.controlplane.process import Process

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
READY_NAMESPACE: Final = "benchmark-ready"
READY_SECONDS: Final = 120.0
STEADY_REQUESTS: Final = 32
LOOK_SECONDS: Final = 0.25
QUIET_ROUNDS: Final = 5
SHARED_DEVICES_GATE: Final = "DRAConsumableCapacity"


class StuckError(RuntimeError):
    """The scheduler does not get on; the text says how far it is."""


@dataclass(frozen=True)
class Patience:
    """How long a scheduler is waited for."""

    seconds: float
    """Without a bind."""
    limit_seconds: float
    """For one step."""


# --- what is there before a scheduler ---------------------------------------------------------------------------------


def prepared(programs: Binaries, script: Script, folder: Path) -> Path:
    """The data of etcd, in this folder, with all that the workload has before it needs a scheduler."""
    data = folder / "etcd"
    with control_plane(programs, apiserver_options=apiserver_options(script.workload)) as plane:
        prepare(plane, script.workload)
        asyncio.run(_prepare(plane, script, folder))
        plane.stop_apiserver()
        plane.etcd.stop()
        shutil.copytree(plane.folder / "etcd", data)
    return data


async def _prepare(plane: ControlPlane, script: Script, folder: Path) -> None:
    async with Feeder(plane.admin_kubeconfig, folder / "requests") as feeder:
        await send(feeder, Batch((Request(steps.NAMESPACES, _named(READY_NAMESPACE)),)))
        for step in script.prepared:
            if isinstance(step, steps.Create):
                for batch in step.batches:
                    await send(feeder, batch)
            elif isinstance(step, steps.AllocateClaims):
                await send(feeder, Batch(tuple(allocations(plane.api, script.workload.gates, step.namespace))))


def _named(name: str) -> bytes:
    return msgspec.json.encode({"metadata": {"name": name}})


async def send(feeder: Feeder, batch: Batch, per_second: float = 0.0) -> Done:
    """Raises RuntimeError if a request was refused that may not be."""
    done = await feeder.send(batch.requests, per_second)
    for one in done.refused:
        if one.code not in batch.may_be_refused:
            raise RuntimeError(f"{one.count:,} of {done.requests:,} requests were refused: {one.code} {one.text}")
    return done


# --- one scheduler ----------------------------------------------------------------------------------------------------


def measure(
    name: str, script: Script, scale: float, programs: Binaries, data: Path, patience: Patience, logs: Path | None
) -> Figures:
    """Plays the workload with this scheduler on a copy of the data; `round` is left at 0."""
    began = time.monotonic()
    with control_plane(programs, data, apiserver_options(script.workload)) as plane:
        process = START[name](plane, script.workload)
        claims = controllers(plane, script)
        try:
            if claims is not None:
                claims.start()
            figures = asyncio.run(Measurement(plane, process, script, patience, claims).take(name, scale))
        finally:
            process.stop()
            if claims is not None:
                claims.stop()
                keep_log(claims, logs, f"{script.workload.name.replace('/', '-')}-{name}-controllers.log")
            keep_log(process, logs, f"{script.workload.name.replace('/', '-')}-{name}.log")
    return msgspec.structs.replace(figures, seconds=time.monotonic() - began)


@dataclass
class Window:
    """A time in which upstream measures."""

    began: float
    cpu_began: float
    namespaces: frozenset[str]
    labels: Mapping[str, str]
    ended: float = 0.0
    cpu_seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    """Of the pods that were bound in it."""
    latencies: list[float] = field(default_factory=list)
    """In milliseconds, of the same pods."""
    arrivals: list[float] = field(default_factory=list)


class Measurement:
    """What happens from the start of a scheduler to its last figure."""

    def __init__(
        self, plane: ControlPlane, process: Process, script: Script, patience: Patience, controllers: Process | None
    ) -> None:
        self._plane = plane
        self._process = process
        self._controllers = controllers
        self._script = script
        self._patience = patience
        self._clock = PodClock()
        self._windows: list[Window] = []
        self._open: Window | None = None
        self._pods: dict[str, steps.CreatePods] = {}
        """By key, what operations have created."""
        self._pending: set[str] = set()
        """Of these, what no step has waited for."""
        self._feeder: Feeder
        self._http: aiohttp.ClientSession
        self._beside: list[asyncio.Task[None]] = []

    async def take(self, name: str, scale: float) -> Figures:
        """The audit comes last."""
        version = self._plane.api.get(PODS, limit="1")["metadata"]["resourceVersion"]
        stuck = ""
        async with AsyncExitStack() as stack:
            self._http = await stack.enter_async_context(session(self._plane.api))
            folder = self._plane.folder / "requests"
            self._feeder = await stack.enter_async_context(Feeder(self._plane.admin_kubeconfig, folder))
            watch = asyncio.create_task(follow(self._http, PODS, version, self._clock.see), name="watch")
            try:
                self._beside.append(watch)
                await self._start()
                for step in self._script.played:
                    await self._play(step)
            except StuckError as error:
                stuck = "\n".join((str(error), *last_words(self._process)))
                if self._open is not None:
                    await self._close()
            finally:
                await _cancel(*self._beside)
        return self._judged(self._figures(name, scale, stuck))

    async def _start(self) -> None:
        """Returns when the scheduler has tried a pod, and rests."""
        self._process.start()
        container = {"name": "main", "image": "registry.example/app:1"}
        pod = {"metadata": {"name": "ready"}, "spec": {"containers": [container]}}
        path = f"{steps.NAMESPACES}/{READY_NAMESPACE}/pods"
        await send(self._feeder, Batch((Request(path, msgspec.json.encode(pod)),)))
        await self._wait({f"{READY_NAMESPACE}/ready"}, is_for_attempts=True, seconds=READY_SECONDS)
        async with self._http.delete(f"{path}/ready", params={"gracePeriodSeconds": "0"}) as response:
            await response.read()
        for each in (self._process, self._controllers):
            if each is not None:
                await quiet(each)

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _play(self, step: Step) -> None:
        match step:
            case steps.Create(batches=batches):
                for batch in batches:
                    await send(self._feeder, batch)
            case steps.AllocateClaims(namespace=namespace):
                found = allocations(self._plane.api, self._script.workload.gates, namespace)
                await send(self._feeder, Batch(tuple(found)))
            case steps.CreatePods():
                await self._create_pods(step)
            case steps.Churn():
                self._beside.append(asyncio.create_task(self._churn(step), name="churn"))
            case steps.Update():
                await self._update(step)
            case steps.DeletePods():
                await self._delete(step)
            case _:
                await self._control(step)

    async def _control(self, step: Step) -> None:
        match step:
            case steps.Barrier(namespaces=namespaces, labels=labels, is_for_attempts=is_for_attempts):
                keys = self._selected(self._pending, namespaces, labels)
                await self._wait(keys, is_for_attempts=is_for_attempts)
                if not is_for_attempts:
                    self._pending -= keys
            case steps.Sleep(seconds=seconds):
                await asyncio.sleep(seconds)
            case steps.StartMeasuring(namespaces=namespaces, labels=labels):
                self._begin(namespaces, labels)
            case steps.StopMeasuring():
                await self._close()

    async def _create_pods(self, step: steps.CreatePods) -> None:
        for batch in step.before:
            await send(self._feeder, batch)
        if step.measured:
            self._begin(step.namespaces, {})
        if step.another is not None:
            await self._steady(step)
        else:
            self._pods |= dict.fromkeys(step.keys, step)
            await send(self._feeder, step.pods)
            if step.waits:
                await self._wait(step.keys)
            else:
                self._pending |= set(step.keys)
        if step.measured:
            await self._close()

    async def _steady(self, step: steps.CreatePods) -> None:
        """Who is bound is deleted, and another one created."""
        assert step.another is not None
        bound: asyncio.Queue[str] = asyncio.Queue()
        numbers = itertools.count(len(step.keys))
        self._pods |= dict.fromkeys(step.keys, step)

        async def replace() -> None:
            assert step.another is not None
            while True:
                key = await bound.get()
                namespace, _, name = key.partition("/")
                path = f"{steps.NAMESPACES}/{namespace}/pods"
                async with self._http.delete(f"{path}/{name}", params={"gracePeriodSeconds": "0"}) as response:
                    await response.read()
                key, request = step.another(next(numbers))
                self._pods[key] = step
                async with self._http.post(request.path, data=request.body) as response:
                    await response.read()

        self._clock.on_bound = lambda key: bound.put_nowait(key) if key in self._pods else None
        tasks = [asyncio.create_task(replace(), name="replace") for _ in range(STEADY_REQUESTS)]
        try:
            await send(self._feeder, step.pods)
            await asyncio.sleep(step.steady_seconds)
        finally:
            self._clock.on_bound = None
            await _cancel(*tasks)
        if not any(key in self._clock.bound for key in step.keys):
            raise StuckError(f"no pod of {len(step.keys):,} was bound in {step.steady_seconds:.0f} s")

    async def _churn(self, step: steps.Churn) -> None:
        """Until it is cancelled; what is refused comes again, as upstream's does."""
        names: list[list[str]] = [[""] * max(step.number, 1) for _ in step.requests]
        for count in itertools.count():
            if not step.recreate and step.number and count >= step.number:
                return
            await asyncio.sleep(step.interval_seconds)
            for request, kept in zip(step.requests, names, strict=True):
                place = count % len(kept)
                if step.recreate and kept[place]:
                    async with self._http.delete(f"{request.path}/{kept[place]}") as response:
                        await response.read()
                    kept[place] = ""
                    continue
                async with self._http.post(request.path, data=request.body) as response:
                    made = await response.json()
                kept[place] = made["metadata"]["name"] if response.status < 400 else ""

    async def _update(self, step: steps.Update) -> None:
        """Objects side by side; at a rate, each with its status."""
        if step.per_second:
            whole = tuple(one for each in step.requests for one in each)
            parts_of_each = len(whole) / max(len(step.requests), 1)
            await send(self._feeder, Batch(whole, step.may_be_refused), step.per_second * parts_of_each)
            return
        for part in zip(*step.requests, strict=True):
            await send(self._feeder, Batch(tuple(part), step.may_be_refused))

    async def _delete(self, step: steps.DeletePods) -> None:
        """The pods that are there now."""
        keys = [key for key in self._selected(self._pods, {step.namespace}, step.labels) if key not in self._clock.gone]
        found = tuple(Request(_pod_path(key), b"{}", "DELETE") for key in keys)
        task = asyncio.create_task(self._send_beside(Batch(found, frozenset({404})), step.per_second), name="deletion")
        if step.waits:
            await task
        else:
            self._beside.append(task)

    async def _send_beside(self, batch: Batch, per_second: int) -> None:
        """Slow ones in this process, so that the feeder is free for what follows."""
        if not per_second:
            await send(self._feeder, batch)
            return
        began = time.monotonic()
        for number, one in enumerate(batch.requests):
            await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
            async with self._http.delete(one.path) as response:
                await response.read()

    def _selected(self, keys: Iterable[str], namespaces: Iterable[str], labels: Mapping[str, str]) -> set[str]:
        names = frozenset(namespaces)
        return {
            key
            for key in keys
            if (not names or key.partition("/")[0] in names) and labels.items() <= self._pods[key].labels.items()
        }

    # --- waiting ------------------------------------------------------------------------------------------------------

    async def _wait(self, keys: Iterable[str], *, is_for_attempts: bool = False, seconds: float | None = None) -> None:
        """Raises StuckError."""
        wait = self._clock.wait_for(keys, is_for_attempts=is_for_attempts)
        began, whole = time.monotonic(), len(wait.remaining)
        last, progress = began, (0, 0)
        try:
            while not wait.changed.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await wait.changed.wait()
                now = time.monotonic()
                seen = (len(self._clock.bound), len(self._clock.tried))
                last, progress = (now, seen) if seen != progress else (last, progress)
                reason = self._given_up(now - last, now - began, seconds)
                if reason and wait.remaining:
                    raise StuckError(f"{reason}, {len(wait.remaining):,} of {whole:,} pods wait; {self._why()}")
                self._check_others()
        finally:
            self._clock.end(wait)

    def _given_up(self, idle: float, waited: float, seconds: float | None) -> str:
        """Why it makes no sense to wait longer; empty if it does."""
        if not self._process.running:
            return "its process has ended"
        if idle > (seconds or self._patience.seconds):
            return f"no bind for {idle:.0f} s"
        if waited > self._patience.limit_seconds:
            return f"not ready after {waited:.0f} s"
        return ""

    def _why(self) -> str:
        return why(self._plane.api.items(PODS))

    def _check_others(self) -> None:
        """Raises what the watch or another task beside has raised, and RuntimeError if the controllers have ended."""
        if self._controllers is not None and not self._controllers.running:
            raise RuntimeError(f"the controllers have ended; {self._controllers.tail()}")
        for task in self._beside:
            if task.done():
                task.result()

    # --- measuring ----------------------------------------------------------------------------------------------------

    def _begin(self, namespaces: frozenset[str], labels: Mapping[str, str]) -> None:
        self._open = Window(time.monotonic(), self._process.cpu_seconds(), namespaces, labels)

    async def _close(self) -> None:
        """Ends the window. What the scheduler does late, such as Events, is its CPU, too."""
        window, self._open = self._open, None
        if window is None:
            return
        window.ended = time.monotonic()
        if self._process.running:
            await quiet(self._process, rounds=QUIET_ROUNDS)
            window.cpu_seconds = self._process.cpu_seconds() - window.cpu_began
        clock = self._clock
        for key in self._selected(self._pods, window.namespaces, window.labels):
            bound = clock.bound.get(key)
            if bound is not None and window.began <= bound <= window.ended:
                window.times.append(bound)
                window.latencies.append((bound - clock.added[key]) * 1_000)
                if self._pods[key].another is None:  # in a steady state pods come because others are bound
                    window.arrivals.append(clock.added[key])
        self._windows.append(window)

    def _figures(self, name: str, scale: float, stuck: str) -> Figures:
        workload = self._script.workload
        measured = sum(len(window.times) for window in self._windows)
        latencies = sorted(each for window in self._windows for each in window.latencies)
        cpu = sum(window.cpu_seconds for window in self._windows)
        return Figures(
            workload=workload.name,
            folder=str(workload.path.parent.name),
            scheduler=name,
            round=0,
            nodes=self._script.nodes,
            pods=self._script.pods,
            scale=scale,
            measured=measured,
            pods_per_second=_rate([window.times for window in self._windows]),
            fed_per_second=_rate([window.arrivals for window in self._windows]),
            latency_p50_milliseconds=percentile(latencies, 50) if latencies else None,
            latency_p99_milliseconds=percentile(latencies, 99) if latencies else None,
            cpu_milliseconds=cpu * 1_000 / measured if measured else 0.0,
            peak_mebibytes=self._process.peak_mebibytes() if self._process.running else 0.0,
            threshold=workload.threshold,
            stuck=stuck,
        )

    def _judged(self, figures: Figures) -> Figures:
        """With the audit of all that is bound: the floor, which breaks rules by design, is not judged."""
        if figures.scheduler == FLOOR:
            return figures
        api, gates = self._plane.api, self._script.workload.gates
        pods = api.items(PODS)
        faults = audit.room_faults(api.items(NODES), pods)
        if gates.get("DynamicResourceAllocation") and not gates.get(SHARED_DEVICES_GATE):
            faults += device_faults(api.items(f"{GROUP_PATH}/resourceclaims"))
        return msgspec.structs.replace(figures, faults=tuple(faults))


def _rate(windows: Iterable[list[float]]) -> float:
    """Over all windows, what came after the first of each, over the seconds since the first of each."""
    count, seconds = 0, 0.0
    for times in windows:
        if len(times) > 1:
            count += len(times) - 1
            seconds += max(times) - min(times)
    return count / seconds if seconds else 0.0


def _pod_path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"{steps.NAMESPACES}/{namespace}/pods/{name}"


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
