"""What cache and queue hold, written to the log on demand (SIGUSR2), as kube-scheduler does.

One line per node and per pod that waits, under kube-scheduler's two messages, so that a dump can be searched. Limits:
the first thousand of each are written, their true numbers are told; the lines come in slices, so a dump of a busy
scheduler is no snapshot of one moment.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import asdict
from typing import Any, Final

from kscheduler.aio.slices import Slicer
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.logs import get_logger
from kscheduler.scheduling.truth.truth import PodsStored
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue

_log = get_logger(__name__)

MOST_NODES: Final = 1_000
MOST_PODS_PER_NODE: Final = 200
MOST_WAITING: Final = 1_000
SLICE_SECONDS: Final = 0.002


class Dump:
    """Writes dumps when asked, one at a time."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, pods: PodsStored, then: Callable[[], None]) -> None:
        """`then` is called after each dump: what should be checked on the same occasion."""
        self._cache = cache
        self._queue = queue
        self._pods = pods
        self._then = then
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Write a dump soon; several requests before it begins are one."""
        self._asked.set()

    async def run(self) -> None:
        """Wait for requests until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.write()
            self._then()

    async def write(self) -> None:
        """Write one dump."""
        await self._write_nodes()
        await self._write_queue()

    async def _write_nodes(self) -> None:
        names = self._cache.node_names()
        _log.info("Dump of cached NodeInfo", shown=min(len(names), MOST_NODES), **asdict(self._cache.statistics()))
        async for name in _sliced(names[:MOST_NODES]):
            info = self._cache.node_info(name)
            if info is not None:
                _log.info("Cached NodeInfo", **self._node(name, info))

    def _node(self, name: str, info: NodeInfo) -> dict[str, Any]:
        pods = list(info.pods.values())
        return {
            "node": name,
            "deleted": info.node is None,
            "requested": info.requested,
            "allocatable": dict(info.allocatable),
            "scheduled": len(pods),
            "pods": [self._counted(pod) for pod in pods[:MOST_PODS_PER_NODE]],
            "nominated": [_named(pod) for pod in self._cache.nominator.nominated_pods(name)],
        }

    def _counted(self, pod: PodInfo) -> dict[str, Any]:
        named = _named(pod)
        return {**named, "assumed": True} if self._cache.is_assumed(pod.uid) else named

    async def _write_queue(self) -> None:
        """Pods by way of the store: whatever waits is stored."""
        _log.info("Dump of scheduling queue", summary=asdict(self._queue.statistics()), most_shown=MOST_WAITING)
        shown = 0
        async for key in _sliced(self._pods.keys()):
            pod = self._pods.get(key)
            if pod is None or pod.spec.node_name:
                continue
            found = self._queue.find(key)
            if found is not None:
                _log.info("Pod in scheduling queue", queue=found[0], **_waiting(found[1]))
                shown += 1
            if shown == MOST_WAITING:
                return


def _named(pod: PodInfo) -> dict[str, Any]:
    status = pod.pod.status
    named = {"pod": pod.key, "uid": pod.uid, "phase": status.phase}
    return {**named, "nominated_node": status.nominated_node_name} if status.nominated_node_name else named


def _waiting(queued: QueuedPodInfo) -> dict[str, Any]:
    return {
        **_named(queued.pod),
        "priority": queued.pod.priority,
        "attempts": queued.attempts,
        "timestamp": queued.timestamp,
        "backoff_expiration": queued.backoff_expiration,
        "unschedulable_plugins": sorted(queued.unschedulable_plugins),
        "pending_plugins": sorted(queued.pending_plugins),
        "gating_plugin": queued.gating_plugin,
    }


async def _sliced(keys: Iterable[str]) -> AsyncIterator[str]:
    slicer = Slicer(SLICE_SECONDS)
    for key in keys:
        yield key
        if slicer.used_up():
            await slicer.turn()
