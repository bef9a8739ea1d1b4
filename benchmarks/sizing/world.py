"""The cluster around the service: nodes that report, pods that come and go, in an embedded API server.

Objects are written past admission, straight into the store; watches show them as they show every other write. Their
sizes are those of `benchmarks.scale_objects`: 10 KB a node, 2.4 KB a pod.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final

from benchmarks import scale_objects
from benchmarks.scale_objects import Tree
from kscheduler.api.machinery.resources import NAMESPACES, NODES, PODS
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.store import Change

SCHEDULER_NAME: Final = "kscheduler"
# `nodeStatusReportFrequency` of the kubelet; its Lease, every 10 s, reaches no scheduler.
HEARTBEAT_SECONDS: Final = 300.0
# Of all pods: of 1,000 pods one is replaced a minute.
REPLACED_PER_SECOND: Final = 1 / 60_000
START_SECONDS: Final = 1.0
BIND_PATIENCE_SECONDS: Final = 60.0


def replaced_per_second(pods: int) -> float:
    """How many pods are replaced at rest."""
    return pods * REPLACED_PER_SECOND


class SizingWorld:
    """So many nodes and running pods."""

    def __init__(self, server: EmbeddedAPIServer, nodes: int, pods: int) -> None:
        self.server, self.nodes, self.pods = server, nodes, pods
        self.bound = 0
        self._made = self._removed = self._reported = 0
        self._images = [scale_objects.image(number) for number in range(scale_objects.IMAGES)]

    def fill(self) -> None:
        """Write everything; nobody watches yet."""
        for number in range(scale_objects.NAMESPACES):
            self.server.registry.create(NAMESPACES, "", {"metadata": {"name": f"team-{number}"}})
        for number in range(self.nodes):
            self._put(NODES.collection, scale_objects.node(number, self._images))
        for number in range(self.pods):
            self._put(PODS.collection, self._running(number))
        self.server.store.subscribe(PODS.collection, self._see)
        # What is here stays: the collector of this process need not walk over it, and delay the API server.
        gc.collect()
        gc.freeze()

    async def rest(self, seconds: float) -> None:
        """Nodes report, spread evenly, and a few pods are replaced."""
        await asyncio.gather(
            steadily(self.nodes / HEARTBEAT_SECONDS, seconds, self._report),
            steadily(replaced_per_second(self.pods), seconds, self._replace),
        )

    async def offer(self, count: int, per_second: float) -> int:
        """Pods at a steady rate, the cluster otherwise at rest. How many were bound. SystemExit if some were not."""
        before = self.bound
        seconds = count / per_second
        await asyncio.gather(steadily(per_second, seconds, self._create), self.rest(seconds))
        deadline = time.monotonic() + BIND_PATIENCE_SECONDS
        while self.bound - before < count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.bound - before} of {count} pods were bound")
            await asyncio.sleep(0.1)
        return self.bound - before

    def lose_watches(self) -> None:
        """All watches end and cannot be resumed: every reflector reads its kind again."""
        self.server.store.compact()
        self.server.watches.streams.drop()

    def _report(self) -> None:
        number, self._reported = self._reported % self.nodes, self._reported + 1
        node = scale_objects.node(number, self._images)
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self._put(NODES.collection, node)

    def _replace(self) -> None:
        gone = self._running(self._removed % self.pods)
        self._removed += 1
        self.server.store.remove(PODS.collection, (gone["metadata"]["namespace"], gone["metadata"]["name"]))
        self._create()

    def _create(self) -> None:
        app = self._made % max(1, self.pods // scale_objects.REPLICAS)
        self._put(PODS.collection, scale_objects.pending_pod(self._made, app, SCHEDULER_NAME, {}))
        self._made += 1

    def _see(self, change: Change) -> None:
        """The kubelet starts what was bound."""
        pod = change.record.value
        if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending" and change.previous is not None:
            self.bound += 1
            key = pod["metadata"]["namespace"], pod["metadata"]["name"]
            asyncio.get_running_loop().call_later(START_SECONDS, self._start, key)

    def _start(self, key: tuple[str, str]) -> None:
        record = self.server.store.get(PODS.collection, *key)
        if record is not None:
            status = {**record.value["status"], **self._running(0)["status"]}
            self._put(PODS.collection, {**record.value, "status": status})

    def _running(self, number: int) -> Tree:
        return scale_objects.running_pod(number, self.pods, self.nodes, SCHEDULER_NAME)

    def _put(self, collection: str, value: Tree) -> None:
        self.server.store.put(collection, value)


async def steadily(per_second: float, seconds: float, action: Callable[[], None]) -> None:
    """Call `action` so often for so long; one that is late is made up for."""
    began = time.monotonic()
    for number in range(round(per_second * seconds)):
        await asyncio.sleep(max(0.0, began + number / per_second - time.monotonic()))
        action()
    await asyncio.sleep(max(0.0, began + seconds - time.monotonic()))
