"""What an event of a watch costs: from the bytes that have arrived to cache and queue, by what the event shows.

    python -m benchmarks.watch_events               CPU, and calls of functions, per event
    python -m benchmarks.watch_events --at-once 64  so many events arrive together

A pod's life in a cluster is a handful of events: it is created, our Binding shows, the kubelet reports twice or more,
it is deleted. Their lines are made as kube-apiserver writes them, `managedFields` included, and fed to the reflectors
of an assembled scheduler in place of a socket's, one story per kind of event. Meanwhile some pods are in flight and
some are parked, as in a busy scheduler, so that events are kept and asked about. Counted is the time of the quickest
batch, and what one event calls under a profiler, which repeats on any machine. Decisions and writes are not in it.
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from cProfile import Profile
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from benchmarks.decode import node, pod
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.bench.cluster import SCHEDULER_NAME, ServiceInProcess, StandIn
from kscheduler.client.http.lines import LineSplitter
from kscheduler.client.rest import APIClient
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.informers import Reflector
from kscheduler.telemetry.logs.pipeline import configure

NODES_THERE: Final = 500
# Pods of ours that are being tried meanwhile, and pods that fit nowhere.
IN_FLIGHT: Final = 8
PARKED: Final = 20
OTHERS: Final = "another-scheduler"
_SINCE: Final = "2026-11-21T12:00:0"
# Events that are timed together. The quickest batch counts: what else the machine does is noise.
BATCH: Final = 100
# The most frequent functions that are printed of a kind.
SHOWN: Final = 30


def _condition(kind: str, status: str, second: int) -> dict[str, Any]:
    return {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": f"{_SINCE}{second}Z"}


class PodStory:
    """A pod from its creation to its end, as lines of a watch."""

    def __init__(self, number: int, size: int, scheduler: str) -> None:
        self._pod = pod(number, size)
        self._pod["spec"]["schedulerName"] = scheduler
        self._node = f"node-{number % NODES_THERE}"
        self.uid: str = self._pod["metadata"]["uid"]
        del self._pod["spec"]["nodeName"]
        self._status: dict[str, Any] = {"phase": "Pending", "qosClass": "Burstable"}

    def pending(self) -> bytes:
        """It is created."""
        return self._line("ADDED")

    def bound(self) -> bytes:
        """It has a node."""
        self._pod["spec"]["nodeName"] = self._node
        self._status["conditions"] = [_condition("PodScheduled", "True", 1)]
        return self._line("MODIFIED")

    def creating(self) -> bytes:
        """The kubelet has seen it, and its containers are being made."""
        waiting = {"waiting": {"reason": "ContainerCreating"}}
        self._report("Pending", "False", waiting, {"hostIP": "10.0.0.7", "startTime": f"{_SINCE}2Z"})
        return self._line("MODIFIED")

    def running(self) -> bytes:
        """Its containers run, and are ready."""
        self._report("Running", "True", {"running": {"startedAt": f"{_SINCE}3Z"}}, {"podIP": "10.1.2.3"})
        return self._line("MODIFIED")

    def terminating(self) -> bytes:
        """Its deletion was asked for."""
        self._pod["metadata"]["deletionTimestamp"] = f"{_SINCE}9Z"
        self._pod["metadata"]["deletionGracePeriodSeconds"] = 30
        return self._line("MODIFIED")

    def deleted(self) -> bytes:
        """It is gone."""
        return self._line("DELETED")

    def _report(self, phase: str, ready: str, state: Mapping[str, Any], more: Mapping[str, Any]) -> None:
        kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        self._status["phase"] = phase
        self._status["conditions"] = [
            *(_condition(kind, ready, 3) for kind in kinds),
            _condition("PodScheduled", "True", 1),
        ]
        container = self._pod["spec"]["containers"][0]
        status = {
            "name": container["name"],
            "state": state,
            "lastState": {},
            "ready": ready == "True",
            "restartCount": 0,
            "image": container["image"],
            "imageID": f"{container['image']}@sha256:{'0' * 64}",
            "containerID": f"containerd://{self.uid}",
            "started": ready == "True",
            "allocatedResources": container["resources"]["requests"],
            "resources": container["resources"],
        }
        self._status |= {"containerStatuses": [status], **more}

    def _line(self, event: str) -> bytes:
        self._pod["metadata"]["resourceVersion"] = _next_version()
        body = {"kind": "Pod", "apiVersion": "v1", **self._pod, "status": self._status}
        return _event(event, body)


class NodeStory:
    """A node that reports."""

    def __init__(self, number: int) -> None:
        self._node = node(number)
        self._beats = 0

    def added(self) -> bytes:
        """It is there."""
        return self._line("ADDED")

    def beating(self) -> bytes:
        """It reports that nothing has changed."""
        return self._line("MODIFIED")

    def _line(self, event: str) -> bytes:
        self._beats += 1
        self._node["metadata"]["resourceVersion"] = _next_version()
        at = f"2026-11-21T12:{self._beats % 60:02d}:00Z"
        pressures = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        self._node["status"]["conditions"] = [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "lastHeartbeatTime": at,
                "lastTransitionTime": f"{_SINCE}0Z",
                "reason": f"KubeletHas{kind}",
                "message": f"kubelet has said so of {kind}",
            }
            for kind in pressures
        ]
        return _event(event, {"kind": "Node", "apiVersion": "v1", **self._node})


class _Versions:
    last = 1000


def _next_version() -> str:
    _Versions.last += 1
    return str(_Versions.last)


def _event(event: str, body: Mapping[str, Any]) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), json.dumps(body, separators=(",", ":")).encode())


class FedClient:
    """In place of an `APIClient`: lists are empty, and a watch brings what it was fed."""

    def __init__(self) -> None:
        self.chunks: Iterable[bytes] = ()

    async def get(self, *_path: object, **_options: object) -> bytes:
        """An empty list."""
        return b'{"metadata":{"resourceVersion":"1"},"items":[]}'

    @asynccontextmanager
    async def stream(self, *_path: object, **_options: object) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        """The lines of what was fed; then the watch ends."""
        yield self._lines()

    async def _lines(self) -> AsyncIterator[list[bytes]]:
        splitter = LineSplitter()
        for chunk in self.chunks:
            if lines := splitter.feed(chunk):
                yield lines


class FedScheduler:
    """An assembled scheduler whose watches of pods and nodes bring what they are fed."""

    def __init__(self) -> None:
        self._cluster = StandIn()
        self.service = ServiceInProcess(self._cluster)
        self._client = FedClient()
        self._in_flight: list[QueuedPodInfo] = []
        self._reflectors: dict[Kind, Reflector[Any]] = {}
        for kind in (PODS, NODES):
            client, informer = cast("APIClient", self._client), self._cluster.informers[kind]
            self._reflectors[kind] = Reflector(client, informer, watch_list=False)

    async def begin(self) -> None:
        """List first: there is nothing."""
        for reflector in self._reflectors.values():
            await reflector.step()

    async def feed(self, kind: Kind, chunks: Sequence[bytes]) -> None:
        """Bring these bytes, chunk by chunk."""
        self._client.chunks = chunks
        await self._reflectors[kind].step()

    def assume_all(self, node_of: Mapping[str, str]) -> None:
        """Assume each pod that is active on its node, and tell that its Binding was accepted."""
        service = self.service
        while (queued := service.queue.pop_nowait(service.clock.time())) is not None:
            service.cache.assume_pod(queued.pod, node_of[queued.pod.uid])
            service.cache.finish_binding(queued.pod.uid, service.clock.time())
            service.queue.done(queued.pod.uid)

    def occupy(self, number: int, size: int) -> list[bytes]:
        """The lines of pods that shall be in flight."""
        return [PodStory(number + each, size, SCHEDULER_NAME).pending() for each in range(IN_FLIGHT)]

    def pop(self) -> None:
        """Take all that is active for an attempt."""
        while (queued := self.service.queue.pop_nowait(self.service.clock.time())) is not None:
            self._in_flight.append(queued)

    def begin_anew(self) -> None:
        """What is in flight has ended, and as much is in flight again: the events that were kept for it are dropped."""
        for queued in self._in_flight:
            self.service.queue.rest(queued.pod.uid)
        for queued in self._in_flight:
            self.service.queue.resume(queued)

    def park(self) -> None:
        """Put all that is active where it waits for an event: NodeResourcesFit has rejected it."""
        queue, now = self.service.queue, self.service.clock.time()
        tried = []
        while (queued := queue.pop_nowait(now)) is not None:
            tried.append(queued)
        for queued in tried:
            queued.unschedulable_plugins = frozenset({"NodeAffinity"})
            queue.requeue(queued, now)


Measured = Callable[[str, Kind, Sequence[bytes]], Any]


def _chunks(lines: Sequence[bytes], at_once: int) -> list[bytes]:
    return [b"".join(lines[begin : begin + at_once]) for begin in range(0, len(lines), at_once)]


class Stories:
    """All kinds of events, each for as many pods."""

    def __init__(self, pods: int, size: int, at_once: int) -> None:
        self._pods, self._size, self._at_once = pods, size, at_once
        self._fed = FedScheduler()
        self.figures: dict[str, float] = {}
        self.calls: dict[str, dict[str, float]] = {}
        self.bytes: dict[str, float] = {}

    async def play(self, *, profiled: bool) -> None:
        """From an empty cluster to an empty cluster."""
        fed = self._fed
        await fed.begin()
        nodes = [NodeStory(number) for number in range(NODES_THERE)]
        await fed.feed(NODES, [b"".join(story.added() for story in nodes)])
        waiting = [PodStory(10**6 + number, self._size, SCHEDULER_NAME) for number in range(PARKED)]
        await fed.feed(PODS, [b"".join(story.pending() for story in waiting)])
        fed.park()
        ours = [PodStory(number, self._size, SCHEDULER_NAME) for number in range(self._pods)]
        others = [PodStory(10**5 + number, self._size, OTHERS) for number in range(self._pods)]
        measure = self._profile if profiled else self._time
        await measure("created", PODS, [story.pending() for story in ours])
        fed.assume_all({story.uid: story._node for story in ours})
        await fed.feed(PODS, fed.occupy(2 * 10**6, self._size))
        fed.pop()
        await measure("our Binding shows", PODS, [story.bound() for story in ours])
        await measure("its containers are made", PODS, [story.creating() for story in ours])
        await measure("it runs", PODS, [story.running() for story in ours])
        await measure("it is terminating", PODS, [story.terminating() for story in ours])
        await measure("it is gone", PODS, [story.deleted() for story in ours])
        await measure("another's is created", PODS, [story.pending() for story in others])
        await measure("another's is bound", PODS, [story.bound() for story in others])
        await measure("another's runs", PODS, [story.running() for story in others])
        await measure("another's is gone", PODS, [story.deleted() for story in others])
        rounds = max(1, self._pods // NODES_THERE)
        await measure("a node reports", NODES, [story.beating() for _ in range(rounds) for story in nodes])

    async def _time(self, name: str, kind: Kind, lines: Sequence[bytes]) -> None:
        gc.collect()
        gc.disable()  # in the service what is old is frozen
        for begin in range(0, len(lines), BATCH):
            chunks = _chunks(lines[begin : begin + BATCH], self._at_once)
            began = time.perf_counter()
            await self._fed.feed(kind, chunks)
            used = (time.perf_counter() - began) / BATCH * 1e6
            self.figures[name] = min(self.figures.get(name, 1e9), used)
            self._fed.begin_anew()
        gc.enable()
        self.bytes[name] = sum(map(len, lines)) / len(lines)

    async def _profile(self, name: str, kind: Kind, lines: Sequence[bytes]) -> None:
        chunks, profile = _chunks(lines, self._at_once), Profile()
        with profile:
            await self._fed.feed(kind, chunks)
        calls: dict[str, float] = {}
        for entry in profile.getstats():
            if isinstance(entry.code, str):
                of = entry.code
            else:
                of = f"{Path(entry.code.co_filename).name}:{entry.code.co_qualname}"
            if "comp>" not in of:
                calls[of] = calls.get(of, 0.0) + entry.callcount / len(lines)
        self.calls[name] = calls


class EventCost(msgspec.Struct, frozen=True):
    """What one event of a kind costs."""

    kind: str
    line_bytes: int
    microseconds: float
    python_calls: float
    builtin_calls: float
    by_function: dict[str, float]


async def costs(pods: int, size: int, at_once: int, rounds: int) -> list[EventCost]:
    """Of each kind of event, in the order of the stories."""
    timed: dict[str, float] = {}
    played = Stories(pods, size, at_once)
    for _ in range(rounds):
        played = Stories(pods, size, at_once)
        gc.collect()
        await played.play(profiled=False)
        timed = {name: min(used, timed.get(name, used)) for name, used in played.figures.items()}
    counted = Stories(pods, size, at_once)
    await counted.play(profiled=True)
    return [
        EventCost(
            name,
            round(played.bytes[name]),
            round(timed[name], 1),
            round(sum(number for of, number in calls.items() if ".py:" in of), 1),
            round(sum(number for of, number in calls.items() if ".py:" not in of), 1),
            dict(sorted(calls.items(), key=lambda one: (-one[1], one[0]))),
        )
        for name, calls in counted.calls.items()
    ]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.watch_events", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--pods", type=int, default=1000, help="so many events of each kind")
    parser.add_argument("--size", type=int, default=2600, help="bytes of a pod")
    parser.add_argument("--at-once", type=int, nargs="*", default=[1, 32], help="events that arrive together")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many")
    parser.add_argument("--functions", metavar="KIND", help="print what an event of this kind calls")
    options = parser.parse_args()
    configure(verbosity=0)
    for at_once in options.at_once:
        found = asyncio.run(costs(options.pods, options.size, at_once, options.rounds))
        print(f"{at_once} at once{'':<18}{'bytes':>7}{'us CPU':>8}{'Python calls':>14}{'builtin calls':>15}")
        for one in found:
            print(
                f"{one.kind:<27}{one.line_bytes:>7}{one.microseconds:>8}{one.python_calls:>14}{one.builtin_calls:>15}"
            )
            if one.kind == options.functions:
                for of, number in list(one.by_function.items())[: 3 * SHOWN]:
                    if number >= 0.2:
                        print(f"{number:>12.2f}  {of}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
