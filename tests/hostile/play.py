"""A scheduler with a cluster of nodes, into which hostile objects come beside sound pods.

All that the service does with a line of a watch is done: decoding, transforms, stores, handlers, queue and the real
workers; only the API server is a stand-in that answers at once. A step is one call of the event loop; it is measured in
CPU time of the thread, which other processes on the machine do not lengthen.
"""

import asyncio
import ctypes
import gc
import json
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.aio.tasks import BackgroundService, running
from kscheduler.api.kinds import NAMESPACES, NODES, PODS, Kind
from kscheduler.assembly import Assembly
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.assembly.ports import no_waiters
from kscheduler.bench.cluster import CountedEvents, StandIn, StandInClaims
from kscheduler.client.watch import Undecodable, WatchDecoder, WatchEvent
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.in_memory.at_work import workers_over
from kscheduler.scheduling.failures.status_writer import StatusWriter
from kscheduler.scheduling.groups.group_status_writer import GroupStatusWriter
from tests.hostile.cases import PLAYED_KINDS
from tests.hostile.crafted import Made
from tests.hostile.sound import Tree

# CPU of one round after which nobody waits for hostile objects any longer: sound pods are bound long before.
MAX_SECONDS: Final = 3.0
WORKERS: Final = 16
# What the work of `slowness` takes on a machine that is not busy.
_UNIT_SECONDS: Final = 0.0125
_GATES: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true"
_OTHER_GROUPS: Final = ("scheduler-plugins", "volcano")


_VERSIONS: Final = count(1)


class HostileCluster(Assembly):
    """The real assembly over a stand-in that has every kind."""

    def __init__(self, nodes: int = 1000) -> None:
        self.cluster = cluster = StandIn(PLAYED_KINDS)
        events = CountedEvents()
        self.status_writer = StatusWriter(cluster, events, cluster.pod_of, clock=REAL_CLOCK)
        self.group_writer = GroupStatusWriter(cluster, REAL_CLOCK)
        configured = ConfigurationReader(parse_feature_gates(_GATES, version="1.37"), ()).default("kscheduler")
        configuration = msgspec.structs.replace(configured.config.configuration, pod_group_apis=_OTHER_GROUPS)
        ports = cluster.ports(
            statuses=self.status_writer,
            group_statuses=self.group_writer,
            events=events,
            volume_writer=cluster,
            claim_storage=StandInClaims(cluster),
        )
        super().__init__(
            replaced(configured.config, configuration=configuration), configured.registry, ports, REAL_CLOCK
        )
        self.listen_to(cluster.informers)
        self.show([(NAMESPACES, {"metadata": {"name": name, "uid": name}}) for name in ("shop", "hostile")])
        self.show([(NODES, node(number)) for number in range(nodes)])
        self.show([_device_class(), *(_devices(number) for number in range(min(nodes, 20)))])

    def show(self, made: Sequence[Made], event: str = "ADDED") -> None:
        """Deliver each object as a line of its watch."""
        for kind, tree in made:
            self.hear(kind, line(event, tree))

    def hear(self, kind: Kind, watched: bytes) -> None:
        """A line of a kind's watch arrives."""
        decoded = _decoder(kind).feed(watched)
        informer = self.cluster.informers[kind]
        if isinstance(decoded, WatchEvent):
            informer.apply(decoded)
        elif isinstance(decoded, Undecodable):
            informer.apply_undecodable(decoded)
        else:
            raise TypeError(decoded)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """The workers and writers run."""
        workers = workers_over(self, self.cluster, WORKERS)
        services = (
            BackgroundService("workers", workers.run),
            BackgroundService("flush", workers.keep_flushing),
            BackgroundService("conditions", self.status_writer.run),
            BackgroundService("conditions of groups", self.group_writer.run),
            BackgroundService("evictions", self.evictions.run),
        )
        gc.collect()
        gc.freeze()  # as the service does: a collection that walks all nodes is not the doing of any pod
        try:
            async with running(*services):
                await asyncio.sleep(0)
                yield
        finally:
            gc.unfreeze()
            self.cluster.wake = no_waiters

    def is_idle(self) -> bool:
        """Whether nothing is ready, being tried, or written."""
        is_writing = self.claims is not None and len(self.claims) > 0
        return not self.queue.has_ready() and not len(self.evictions) and not is_writing


@dataclass(slots=True)
class Round:
    """What was measured while hostile objects were there."""

    longest_step: float = 0.0
    """Seconds of CPU of the longest call of the event loop."""
    latencies: list[float] = field(default_factory=list)
    """Seconds of CPU between the creation of a sound pod and its Binding."""
    unbound: list[str] = field(default_factory=list)
    """Sound pods that got no node."""

    @property
    def p99(self) -> float:
        """Of the latencies."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, round(len(ordered) * 0.99))] if ordered else 0.0


async def play(service: HostileCluster, hostile: Sequence[Made], *, sound: int = 20, name: str = "sound") -> Round:
    """Create the objects beside sound pods, wait until all are tried, and delete everything."""
    found = Round()
    began: dict[str, float] = {}
    pods = [sound_pod(f"{name}-{number}") for number in range(sound)]
    lines = [(kind, line("ADDED", tree)) for kind, tree in hostile]
    each = max(1, -(-len(pods) // (len(lines) + 1)))

    def on_bound(uid: str) -> None:
        if uid in began:
            found.latencies.append(time.thread_time() - began.pop(uid))

    service.cluster.on_bound = on_bound
    with longest_step(found):
        waiting = list(pods)
        for kind, watched in (*lines, (PODS, b"")):
            for one in waiting[:each]:
                began[one["metadata"]["uid"]] = time.thread_time()
                service.show([(PODS, one)])
                await asyncio.sleep(0)
            del waiting[:each]
            if watched:
                service.hear(kind, watched)
                await asyncio.sleep(0)
        limit = time.thread_time() + MAX_SECONDS
        while began or not service.is_idle():
            await asyncio.sleep(0)
            service.cluster.deliver_all()
            if time.thread_time() > limit:
                break
        for _ in range(5):  # who waits in the background gets its turns
            await asyncio.sleep(0)
            service.cluster.deliver_all()
        for kind, tree in reversed([*hostile, *((PODS, one) for one in pods)]):
            if kind is not NODES or tree["metadata"]["name"].startswith("hostile"):
                service.hear(kind, line("DELETED", tree))
            await asyncio.sleep(0)
            service.cluster.deliver_all()
    found.unbound.extend(began)
    return found


@contextmanager
def longest_step(found: Round) -> Iterator[None]:
    """Measure each call of the event loop."""
    handle: Any = asyncio.events.Handle
    original = handle._run

    def measured(self: Any) -> None:
        before = time.thread_time()
        original(self)
        found.longest_step = max(found.longest_step, time.thread_time() - before)

    handle._run = measured
    try:
        yield
    finally:
        handle._run = original


def slowness() -> float:
    """How many times as slow as the machine of the bounds this one is now, in CPU time of the thread; at least 1."""
    began = time.thread_time()
    for _ in range(20):
        msgspec.json.decode(json.dumps({f"key-{number}": str(number) for number in range(1000)}))
    return max(1.0, (time.thread_time() - began) / _UNIT_SECONDS)


def resident() -> int:
    """Bytes of this process in memory, after what is free was given back."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def line(event: str, tree: Tree) -> bytes:
    """A line of a watch."""
    metadata = {"resourceVersion": str(next(_VERSIONS)), **tree["metadata"]}
    return json.dumps({"type": event, "object": {**tree, "metadata": metadata}}).encode()


def node(number: int) -> Tree:
    """A node in one of three zones."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    labels = {"zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}"}
    metadata = {"name": f"node-{number}", "uid": f"uid-of-node-{number}", "labels": labels}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": room, "capacity": room}}


def sound_pod(name: str) -> Tree:
    """A plain pod of another namespace."""
    container = {"name": "main", "image": "shop", "resources": {"requests": {"cpu": "10m"}}}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-of-{name}", "labels": {"app": "shop"}}
    return {"metadata": metadata, "spec": {"schedulerName": "kscheduler", "containers": [container]}, "status": {}}


def _device_class() -> Made:
    kind = next(kind for kind in PLAYED_KINDS if kind.name == "DeviceClass")
    return kind, {"metadata": {"name": "gpu", "uid": "gpu"}, "spec": {}}


def _devices(number: int) -> Made:
    kind = next(kind for kind in PLAYED_KINDS if kind.name == "ResourceSlice")
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    devices = [
        {"name": f"gpu-{n}", "attributes": {"model": {"string": "a"}}, "capacity": {"memory": {"value": "40Gi"}}}
        for n in range(8)
    ]
    spec = {"driver": "gpu.example.com", "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return kind, {"metadata": {"name": f"slice-{number}", "uid": f"slice-{number}"}, "spec": spec}


@cache
def _decoder(kind: Kind) -> WatchDecoder[Any]:
    return WatchDecoder(kind)
