"""One process with 100,000 nodes and 1,000,000 running pods: memory, time to fill, what decisions and events cost.

    python -m benchmarks.scale [--nodes 100000] [--pods 1000000] [--decisions 500]

Real are the reflectors (a WatchList, decoded from its bytes), informers, handlers, cache, counters, queue and the cycle
with all default plugins; the API server is an iterator. Objects are as kubelets leave them (`benchmarks.scale_objects`:
pods of 2 KB, nodes of 10 KB). At full size: 3 GiB and five minutes.

    memory      growth of the process's resident memory (Linux), first per node and then per pod. That is everything:
                stored objects, cache, counters, columns, and what the allocator keeps of the decoding
    fill        wall seconds from the first byte to the last handler, without the making of the objects
    list again  the same lists once more, as after a watch that has expired: of nodes each has changed (heartbeats), of
                pods none. The peak is of resident memory, beside what it is at rest before
    decisions   CPU of an attempt, and pods bound per CPU second from arrival to the binding being seen
    events      CPU of a watch event from its bytes to the last handler; then of the next attempt
    loop        how late a timer came that was due 5 ms later, and the most CPU between two of its beats: a busy machine
                delays the timer, and adds nothing to the CPU
"""

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from benchmarks import scale_objects
from benchmarks.scale_objects import Tree
from kscheduler.aio.collector import LongLived
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.bench.cluster import SCHEDULER_NAME, ServiceInProcess, StandIn
from kscheduler.bench.figures import resident_mebibytes
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import WatchDecoder, WatchEvent
from kscheduler.informers.reflector import Reflector
from kscheduler.telemetry.logs import pipeline

BEAT_SECONDS: Final = 0.005
# Lines that come together: what a socket's buffer holds.
BATCH: Final = 32
NODE_GOAL_KB, POD_GOAL_KB = 20, 12
ZONE, HOST = scale_objects.ZONE, scale_objects.HOST


class Bytes:
    """The API server of one kind: a WatchList of these objects, and then the end of the stream."""

    def __init__(self, objects: Iterator[bytes]) -> None:
        self._objects = objects

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, inactivity_seconds: float
    ) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """As `APIClient.stream`."""
        del path, params, inactivity_seconds
        yield self._batches()

    async def _batches(self) -> AsyncIterator[list[bytes]]:
        while batch := [line("ADDED", one) for one in islice(self._objects, BATCH)]:
            yield batch
            await asyncio.sleep(0)  # as a read from a socket
        end = {"resourceVersion": "99999999", "annotations": {"k8s.io/initial-events-end": "true"}}
        yield [line("BOOKMARK", msgspec.json.encode({"metadata": end}))]


def line(kind: str, obj: bytes) -> bytes:
    """An event of a watch."""
    return b'{"type":"%b","object":%b}' % (kind.encode(), obj)


class Pauses:
    """How long the event loop stood still, and how long the collector walked, in milliseconds."""

    def __init__(self) -> None:
        self.lags: list[float] = []
        self.collections: list[tuple[int, float]] = []
        """Generation and time."""
        self.busiest = self._began = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        gc.callbacks.append(self._collected)
        try:
            while True:
                due, cpu = time.perf_counter() + BEAT_SECONDS, time.thread_time()
                await asyncio.sleep(BEAT_SECONDS)
                self.lags.append((time.perf_counter() - due) * 1e3)
                self.busiest = max(self.busiest, (time.thread_time() - cpu) * 1e3)
        finally:
            gc.callbacks.remove(self._collected)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "stop":
            self.collections.append((info["generation"], (now - self._began) * 1e3))
        self._began = now

    def take(self) -> str:
        """What there was since the last time, in words."""
        full = [took for generation, took in self.collections if generation == 2]
        words = f"    loop late {summary(self.lags)} ms, most CPU between beats {self.busiest:.1f} ms"
        words += f"; {len(full)} full collections, the longest {max(full):.0f} ms" if full else ""
        self.lags.clear()
        self.collections.clear()
        self.busiest = 0.0
        return words


def summary(values: Sequence[float]) -> str:
    """Median, 99th percentile and maximum."""
    if not values:
        return "none"
    ordered = sorted(values)
    return f"p50 {ordered[len(ordered) // 2]:.1f}, p99 {ordered[int(len(ordered) * 0.99)]:.1f}, most {ordered[-1]:.1f}"


def peak_mebibytes() -> float:
    """The most resident memory since the start or the last `reset_peak`."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def reset_peak() -> None:
    """Let the kernel begin anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def whole_walk() -> float:
    """CPU milliseconds."""
    gc.unfreeze()
    began = time.thread_time()
    gc.collect()
    return (time.thread_time() - began) * 1e3


class Scale:
    """The service, filled and measured."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.nodes, self.pods = nodes, pods
        self.cluster = StandIn()
        self.service = ServiceInProcess(self.cluster)
        self.pauses = Pauses()
        self._decoders: dict[Kind, WatchDecoder[Any]] = {kind: WatchDecoder(kind) for kind in (NODES, PODS)}
        self._images = [scale_objects.image(number) for number in range(scale_objects.IMAGES)]

    async def play(self, decisions: int) -> None:
        """Fill and measure."""
        services = (BackgroundService("long-lived", LongLived().run), BackgroundService("pauses", self.pauses.run))
        async with running(*services):
            await self._fill(NODES, scale_objects.nodes(self.nodes), self.nodes, NODE_GOAL_KB)
            await self._fill(PODS, scale_objects.pods(self.pods, self.nodes, SCHEDULER_NAME), self.pods, POD_GOAL_KB)
            gc.collect()
            rest, peak = resident_mebibytes(), peak_mebibytes()
            print(f"all in {rest:,.0f} MiB at rest; peak of the lists {peak:,.0f} MiB, {peak / rest:.2f} times that")
            await self._list_again(NODES, scale_objects.nodes(self.nodes, version=2), self.nodes)
            await self._list_again(PODS, scale_objects.pods(self.pods, self.nodes, SCHEDULER_NAME), self.pods)
            for name, wish in self._classes().items():
                await self._decide_many(name, wish, decisions)
            await self._events(decisions)
        print(f"a collection that walks over everything, as comes twice a day: {whole_walk():.0f} ms of CPU")

    async def _fill(self, kind: Kind, objects: Iterator[bytes], count: int, goal: int) -> None:
        before, began, cpu = resident_mebibytes(), time.perf_counter(), time.process_time()
        made = Counted(objects)
        reflector = Reflector(cast("APIClient", Bytes(made)), self.cluster.informers[kind])
        await reflector.step()
        seconds, cpu = time.perf_counter() - began - made.wall, time.process_time() - cpu - made.cpu
        each = (resident_mebibytes() - before) * 2**20 / count / 1000
        if len(self.cluster.informers[kind].store) != count:
            raise SystemExit(f"{len(self.cluster.informers[kind].store)} {kind.plural} arrived, not {count}")
        length = made.bytes / count / 1000
        print(f"{count:>9,} {kind.plural} of {length:.1f} KB: {each:.1f} KB each (goal {goal})", end="")
        print(f", filled in {seconds:.1f} s, {cpu / count * 1e6:.0f} us of CPU each\n{self.pauses.take()}", flush=True)

    async def _list_again(self, kind: Kind, objects: Iterator[bytes], count: int) -> None:
        gc.collect()
        reset_peak()
        rest, began = resident_mebibytes(), time.perf_counter()
        made = Counted(objects)
        await Reflector(cast("APIClient", Bytes(made)), self.cluster.informers[kind]).step()
        seconds, peak = time.perf_counter() - began - made.wall, peak_mebibytes()
        gc.collect()
        print(f"{count:>9,} {kind.plural} listed again in {seconds:.1f} s: peak {peak:,.0f} MiB, ", end="")
        print(f"{peak / rest:.2f} times {rest:,.0f} MiB at rest, {resident_mebibytes():,.0f} MiB after", flush=True)

    # --- decisions ----------------------------------------------------------------------------------------------------

    def _classes(self) -> dict[str, Tree]:
        """Classes of pods that are there already: 10,000 of them match none of the new ones' selectors."""
        selector = {"matchLabels": {"app": "service-3"}}
        zones = {"topologyKey": ZONE, "maxSkew": 5, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        hosts = {**zones, "topologyKey": HOST, "whenUnsatisfiable": "ScheduleAnyway"}
        near = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ZONE, "labelSelector": selector}]}
        apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, "labelSelector": selector}]}
        return {
            "plain": {},
            "hard zone and soft host spread": {"topologySpreadConstraints": [zones, hosts]},
            "required zone affinity": {"affinity": {"podAffinity": near}},
            "required host anti-affinity": {"affinity": {"podAntiAffinity": apart}},
        }

    async def _decide_many(self, name: str, wish: Tree, count: int) -> None:
        first = await self._decide(wish, -1)
        await asyncio.sleep(2 * BEAT_SECONDS)  # what was under way since the last class is not counted to this one
        self.pauses.take()
        began = time.process_time()
        attempts = [await self._decide(wish, number) for number in range(count)]
        cpu = time.process_time() - began
        print(f"{name:<32}{count / cpu:>8,.0f} decisions per CPU second; an attempt {summary(attempts)} us", end="")
        print(f", the first of its class {first / 1000:.1f} ms\n{self.pauses.take()}", flush=True)

    async def _decide(self, wish: Tree, number: int) -> float:
        """One pod from its bytes to its binding being seen; CPU microseconds of the attempt."""
        self._see("ADDED", PODS, scale_objects.pending_pod(number, 3, SCHEDULER_NAME, wish))
        service, began = self.service, time.thread_time()
        queued = service.queue.pop_nowait(service.clock.time())
        if queued is None:
            raise SystemExit("the pod is not ready")
        attempt = service.scheduler.decide(queued)
        took = (time.thread_time() - began) * 1e6
        if attempt is None:
            raise SystemExit(f"{queued.key} found no node")
        await service.scheduler.bind(attempt)
        self.cluster.deliver_all()
        self._see("DELETED", PODS, scale_objects.pending_pod(number, 3, SCHEDULER_NAME, wish))
        await asyncio.sleep(0)
        return took

    def _see(self, event: str, kind: Kind, obj: Tree) -> None:
        """The watch shows it."""
        read = self._decoders[kind].feed(line(event, msgspec.json.encode(obj)))
        if not isinstance(read, WatchEvent):
            raise SystemExit(f"not readable: {read}")
        self.cluster.informers[kind].apply(read)

    # --- events -------------------------------------------------------------------------------------------------------

    async def _events(self, count: int) -> None:
        events: dict[str, Callable[[int], tuple[Kind, Tree]]] = {
            "node: heartbeat": lambda number: (NODES, self._node(number % self.nodes)),
            "node: label": lambda number: (NODES, self._node(number % self.nodes, label=f"x{number}")),
            "node: less allocatable": lambda number: (NODES, self._node(number % self.nodes, cpu="31800m")),
            "node: joins": lambda number: (NODES, self._node(self.nodes + number)),
            "pod: status": lambda number: (PODS, self._running(number)),
            "pod: label": lambda number: (PODS, self._running(number, label=f"x{number}")),
        }
        for name, make in events.items():
            await self._event(name, make, count)

    async def _event(self, name: str, make: Callable[[int], tuple[Kind, Tree]], count: int) -> None:
        handled, decided = [], []
        for number in range(count):
            kind, obj = make(number)
            written, decoder = (
                line("ADDED", msgspec.json.encode(obj)),
                self._decoders[kind],
            )  # or MODIFIED: all the same
            began = time.thread_time()
            self.cluster.informers[kind].apply(cast("WatchEvent[Any]", decoder.feed(written)))
            handled.append((time.thread_time() - began) * 1e6)
            decided.append(await self._decide({}, number))
        print(
            f"{name:<32}handled in {summary(handled)} us; the next attempt {summary(decided)} us\n{self.pauses.take()}"
        )

    def _node(self, number: int, label: str = "", cpu: str = "") -> Tree:
        node = scale_objects.node(number, self._images, self._version())
        if label:
            node["metadata"]["labels"]["example.com/seen"] = label
        if cpu:
            node["status"]["allocatable"]["cpu"] = cpu
        return node

    def _running(self, number: int, label: str = "") -> Tree:
        pod = scale_objects.running_pod(number % self.pods, self.pods, self.nodes, SCHEDULER_NAME)
        pod["metadata"]["resourceVersion"] = str(30_000_000 + self._version())
        if label:
            pod["metadata"]["labels"]["seen"] = label
        return pod

    def _version(self) -> int:
        return time.monotonic_ns() // 1000


class Counted(Iterator[bytes]):
    """What it costs to make objects is not the service's."""

    def __init__(self, objects: Iterator[bytes]) -> None:
        self._objects = objects
        self.bytes, self.wall, self.cpu = 0, 0.0, 0.0

    def __next__(self) -> bytes:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            made = next(self._objects)
            self.bytes += len(made)
            return made
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=1_000_000)
    parser.add_argument("--decisions", type=int, default=500, help="of each class, and after each kind of event")
    options = parser.parse_args()
    if min(options.nodes, options.pods, options.decisions) < 1:
        raise SystemExit("--nodes, --pods and --decisions must be at least 1")
    pipeline.configure(verbosity=0)
    asyncio.run(Scale(options.nodes, options.pods).play(options.decisions))


if __name__ == "__main__":
    main()
