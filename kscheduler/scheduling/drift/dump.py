"""A dump of cache and queue: to the log on demand (SIGUSR2), as in kube-scheduler, or for `/debug`.

One line per node and per waiting pod, under kube-scheduler's two messages, so that a dump can be searched. Limits: only
the first thousand of each are written, with their total numbers; the lines are written in slices, so the dump of a busy
scheduler is not a snapshot of one moment.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from kscheduler.aio.tasks import Slicer
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scheduling.drift.cache_comparer import PodsStored
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

MAX_NODES: Final = 1_000
MAX_PODS_PER_NODE: Final = 200
MAX_WAITING: Final = 1_000
SLICE_SECONDS: Final = 0.002
# In the place of a queue's name, for pods that have a node and wait until Permit plugins let them through.
AT_PERMIT: Final = "permit"
# In the place of a queue's name, for pods that wait until extenders can be asked about them.
EXTENDER_LINE: Final = "extender_line"
# In the place of a queue's name, for pods that wait since Bindings of their namespace hang.
NAMESPACE_LINE: Final = "namespace_line"

# A message with its fields.
Entry = tuple[str, dict[str, Any]]


class WaitsBesideQueue(msgspec.Struct, frozen=True):
    """Where pods wait that are in no sub-queue; each is asked when a dump is written."""

    in_line: Callable[[], Iterable[tuple[str, QueuedPodInfo]]] = tuple
    """Pods that wait until extenders can be asked about them, with the names of those."""
    behind_slow: Callable[[], Iterable[tuple[Hashable, QueuedPodInfo]]] = tuple
    """Pods that wait because Bindings of their namespace hang, with that."""
    at_permit: Callable[[], Mapping[str, Mapping[str, Any]]] = dict
    """By UID of a pod that waits for Permit: what is to be said about that."""


NO_OTHER_WAITS: Final = WaitsBesideQueue()


class Dump:
    """Writes dumps on request, one at a time."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        pods: PodsStored,
        then: Callable[[], None],
        waits: WaitsBesideQueue = NO_OTHER_WAITS,
    ) -> None:
        """`then` is called after each dump, for checks on the same occasion."""
        self._cache = cache
        self._queue = queue
        self._pods = pods
        self._then = then
        self._waits = waits
        self._requested = asyncio.Event()

    def ask(self) -> None:
        """Write a dump soon; several requests before it begins are one."""
        self._requested.set()

    async def run(self) -> None:
        """Wait for requests until cancelled."""
        while True:
            await self._requested.wait()
            self._requested.clear()
            await self.write()
            self._then()

    async def write(self) -> None:
        """Write one dump."""
        for entries in (self.cache_entries(), self.queue_entries()):
            async for message, fields in entries:
                _log.info(message, **fields)

    async def cache_entries(self) -> AsyncIterator[Entry]:
        """The nodes: a headline, then each."""
        names = self._cache.node_names()
        yield (
            "Dump of cached NodeInfo",
            {"shown": min(len(names), MAX_NODES), **asdict(self._cache.statistics())},
        )
        async for name in _sliced(names[:MAX_NODES]):
            info = self._cache.node_info(name)
            if info is not None:
                yield "Cached NodeInfo", self._node(name, info)

    def _node(self, name: str, info: NodeInfo) -> dict[str, Any]:
        pods = list(info.pods.values())
        return {
            "node": name,
            "deleted": info.node is None,
            "requested": info.requested,
            "allocatable": dict(info.allocatable),
            "scheduled": len(pods),
            "pods": [self._counted(pod) for pod in pods[:MAX_PODS_PER_NODE]],
            "nominated": [_pod_fields(pod) for pod in self._cache.nominator.nominated_pods(name)],
        }

    def _counted(self, pod: PodInfo) -> dict[str, Any]:
        fields = _pod_fields(pod)
        return {**fields, "assumed": True} if self._cache.is_assumed(pod.uid) else fields

    async def queue_entries(self) -> AsyncIterator[Entry]:
        """The waiting pods, found through the store, which holds all of them: a headline, then each."""
        yield "Dump of scheduling queue", {"summary": asdict(self._queue.statistics()), "most_shown": MAX_WAITING}
        shown = 0
        at_permit = self._waits.at_permit()
        behind_slow = {queued.pod.uid: queued for _, queued in self._waits.behind_slow()}
        in_line = {queued.pod.uid: (extender, queued) for extender, queued in self._waits.in_line()}
        async for key in _sliced(self._pods.keys()):
            pod = self._pods.get(key)
            if pod is None or pod.spec.node_name:
                continue
            found = self._queue.find(key)
            if found is not None:
                yield "Pod in scheduling queue", {"queue": found[0], **_waiting(found[1])}
                shown += 1
            elif pod.metadata.uid in in_line:  # in no queue, and nobody tries it yet
                extender, queued = in_line[pod.metadata.uid]
                yield "Pod in scheduling queue", {"queue": EXTENDER_LINE, "extender": extender, **_waiting(queued)}
                shown += 1
            elif pod.metadata.uid in behind_slow:
                waiting = _waiting(behind_slow[pod.metadata.uid])
                yield "Pod in scheduling queue", {"queue": NAMESPACE_LINE, **waiting}
                shown += 1
            elif pod.metadata.uid in at_permit:
                fields = {"pod": key, "uid": pod.metadata.uid, "phase": pod.status.phase}
                yield "Pod in scheduling queue", {"queue": AT_PERMIT, **fields, **at_permit[pod.metadata.uid]}
                shown += 1
            if shown == MAX_WAITING:
                return


def _pod_fields(pod: PodInfo) -> dict[str, Any]:
    status = pod.pod.status
    fields = {"pod": pod.key, "uid": pod.uid, "phase": status.phase}
    return {**fields, "nominated_node": status.nominated_node_name} if status.nominated_node_name else fields


def _waiting(queued: QueuedPodInfo) -> dict[str, Any]:
    return {
        **_pod_fields(queued.pod),
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
