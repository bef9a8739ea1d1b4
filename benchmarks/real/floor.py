"""The floor under `make bench-real`: a client that decides nothing, and otherwise does a scheduler's work on the wire.

It lists nodes and pods, watches all pods, and sends a Binding and an Event for each pod that waits for its scheduler
name. Nodes take turns as long as they have room by pod count; no other rule is looked at. What a scheduler
needs beyond the floor's CPU and time is what its decisions, its caches and its care cost. As simple as a good client in
Python gets: aiohttp, on uvloop where that is installed; `--bare` writes HTTP/1.1 by itself (`floor_wire.py`), which is
as cheap as Python gets.

    python -m benchmarks.real.floor --kubeconfig FILE --scheduler-name NAME

It runs until it is stopped. A gated pod waits for its gates to go, and a pod that is gone leaves its place to another.
Limits: nodes are those of the start; a request that fails ends it with an error, unless the pod has gone or has got a
node meanwhile; there is no relist and no retry.
"""

import argparse
import asyncio
import json
import ssl
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from benchmarks.real.floor_wire import AiohttpPoster, BarePoster, Poster, RefusedError
from benchmarks.real.watch import follow

CONNECTIONS: Final = 32
GONE_OR_BOUND: Final = frozenset({404, 409})
NODES_PATH: Final = "/api/v1/nodes"
PODS_PATH: Final = "/api/v1/pods"
_MULTIPLES: Final = {"k": 1_000, "M": 1_000_000}


class Metadata(msgspec.Struct, rename="camel"):
    """Enough to bind an object and to report it."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    """Whether a pod waits, and for whom."""

    node_name: str = ""
    scheduler_name: str = ""
    scheduling_gates: tuple[msgspec.Raw, ...] = ()


class Pod(msgspec.Struct):
    """The little that a client needs who decides nothing."""

    metadata: Metadata
    spec: Spec


class WatchEvent(msgspec.Struct):
    """One line of the watch."""

    type: str
    object: Pod


class PodList(msgspec.Struct):
    """The pods when the client starts."""

    metadata: msgspec.Raw
    items: list[Pod]


class Allocatable(msgspec.Struct):
    """Of a node, its room by count."""

    pods: str


class NodeStatus(msgspec.Struct):
    """Of a node."""

    allocatable: Allocatable


class Node(msgspec.Struct):
    """A node by name and room."""

    metadata: Metadata
    status: NodeStatus


class NodeList(msgspec.Struct):
    """All nodes."""

    items: list[Node]


class Turns:
    """Nodes in turn, each as often as it has room for another pod."""

    def __init__(self, room: Mapping[str, int]) -> None:
        self._room = dict(room)
        self._turns = deque(room)

    def take(self, name: str) -> None:
        """A pod runs there already."""
        if name in self._room:
            self._room[name] -= 1

    def give_back(self, name: str) -> None:
        """A pod that ran there is gone."""
        if name in self._room:
            self._room[name] += 1
            if self._room[name] == 1:
                self._turns.append(name)

    def next(self) -> str | None:
        """The node whose turn it is, with one place less; None when all are full."""
        while self._turns:
            name = self._turns.popleft()
            if self._room[name] > 0:
                self._room[name] -= 1
                if self._room[name] > 0:
                    self._turns.append(name)
                return name
        return None


@dataclass(frozen=True)
class Server:
    """Where the API server is, and who asks it."""

    url: str
    token: str
    tls: ssl.SSLContext | None
    """None for plain HTTP."""

    @classmethod
    def read(cls, path: Path) -> "Server":
        """From a file as `tests/controlplane/kubeconfig.py` writes it: JSON, one cluster, a token."""
        written = json.loads(path.read_text())
        cluster, user = written["clusters"][0]["cluster"], written["users"][0]["user"]
        authority = cluster.get("certificate-authority")
        tls = ssl.create_default_context(cafile=authority) if authority else None
        return cls(cluster["server"], user.get("token", ""), tls)

    def headers(self) -> dict[str, str]:
        """Of every request."""
        credentials = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"Content-Type": "application/json"} | credentials

    def session(self, connections: int) -> aiohttp.ClientSession:
        """At most so many connections, kept open."""
        connector = aiohttp.TCPConnector(ssl=self.tls or True, limit=connections)
        timeout = aiohttp.ClientTimeout(total=None)
        return aiohttp.ClientSession(self.url, connector=connector, headers=self.headers(), timeout=timeout)


class Floor:
    """The pods that wait, and what is sent for each."""

    def __init__(self, scheduler_name: str, turns: Turns) -> None:
        self._scheduler_name = scheduler_name
        self._turns = turns
        self._waiting: asyncio.Queue[Metadata] = asyncio.Queue()
        self._gated: set[str] = set()
        """UIDs of pods that wait for their gates to go."""
        self._decode = msgspec.json.Decoder(WatchEvent).decode

    def see(self, pod: Pod) -> None:
        """A pod that is new to the client."""
        if pod.spec.node_name:
            self._turns.take(pod.spec.node_name)
        elif pod.spec.scheduler_name == self._scheduler_name:
            if pod.spec.scheduling_gates:
                self._gated.add(pod.metadata.uid)
            else:
                self._waiting.put_nowait(pod.metadata)

    def read(self, line: bytes, _now: float) -> str:
        """A line of the watch. Every one is decoded, as a scheduler must, and only new pods are taken."""
        event = self._decode(line)
        pod = event.object
        if event.type == "ADDED":
            self.see(pod)
        elif event.type == "DELETED":
            self._gated.discard(pod.metadata.uid)
            self._turns.give_back(pod.spec.node_name)
        elif self._gated and pod.metadata.uid in self._gated and not pod.spec.scheduling_gates:
            self._gated.discard(pod.metadata.uid)
            self.see(pod)
        return event.object.metadata.resource_version

    async def send(self, poster: Poster) -> None:
        """Binding and Event of one pod after the other. Raises RuntimeError without room, or if a request fails."""
        while True:
            pod = await self._waiting.get()
            node = self._turns.next()
            if node is None:
                raise RuntimeError(f"no node has room for {pod.namespace}/{pod.name}")
            try:
                await poster.post(binding_path(pod), binding(pod, node))
            except RefusedError as error:
                if error.code not in GONE_OR_BOUND:
                    raise
                self._turns.give_back(node)
                continue
            await poster.post(events_path(pod), event(pod, node, self._scheduler_name, datetime.now(UTC)))


def count(text: str) -> int:
    """Pods as the API server writes them: `110`, `30k`."""
    multiple = _MULTIPLES.get(text[-1])
    return int(text[:-1]) * multiple if multiple else int(text)


def binding_path(pod: Metadata) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"


def binding(pod: Metadata, node: str) -> bytes:
    target = {"kind": "Node", "name": node}
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    return msgspec.json.encode({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target})


def events_path(pod: Metadata) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{pod.namespace}/events"


def event(pod: Metadata, node: str, scheduler_name: str, now: datetime) -> bytes:
    """The Event that a scheduler writes for a pod it has bound."""
    about = {"apiVersion": "v1", "kind": "Pod", "resourceVersion": pod.resource_version}
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name}.{int(now.timestamp() * 1e6):x}", "namespace": pod.namespace},
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": scheduler_name,
        "reportingInstance": f"{scheduler_name}-floor",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": about | {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "note": f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        "type": "Normal",
    }
    return msgspec.json.encode(body)


async def get(http: aiohttp.ClientSession, path: str) -> bytes:
    async with http.get(path, params={"resourceVersion": "0"}) as response:
        response.raise_for_status()
        return await response.read()


async def run(server: Server, scheduler_name: str, *, bare: bool, connections: int) -> None:
    """Never returns."""
    async with AsyncExitStack() as stack:
        reading = await stack.enter_async_context(server.session(2))
        nodes = msgspec.json.decode(await get(reading, NODES_PATH), type=NodeList)
        floor = Floor(scheduler_name, Turns({n.metadata.name: count(n.status.allocatable.pods) for n in nodes.items}))
        pods = msgspec.json.decode(await get(reading, PODS_PATH), type=PodList)
        for pod in pods.items:
            floor.see(pod)
        version = msgspec.json.decode(pods.metadata)["resourceVersion"]
        writing = await stack.enter_async_context(server.session(connections))
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(reading, PODS_PATH, version, floor.read), name="watch")
            for number in range(connections):
                poster: Poster = AiohttpPoster(writing)
                if bare:
                    poster = await stack.enter_async_context(BarePoster(server.url, server.tls, server.headers()))
                group.create_task(floor.send(poster), name=f"sender {number}")


def fastest_loop() -> Callable[[Coroutine[Any, Any, None]], None]:
    """The one of uvloop where it is installed, as kscheduler does."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    started: Callable[[Coroutine[Any, Any, None]], None] = uvloop.run
    return started


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.real.floor", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--scheduler-name", required=True)
    parser.add_argument("--bare", action="store_true", help="HTTP/1.1 without aiohttp")
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    return parser.parse_args(arguments)


def main() -> None:
    options = parse()
    server = Server.read(options.kubeconfig)
    fastest_loop()(run(server, options.scheduler_name, bare=options.bare, connections=options.connections))


if __name__ == "__main__":
    main()
