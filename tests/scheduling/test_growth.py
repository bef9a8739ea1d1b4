"""A leader holds no more after its thousandth pod than after its hundredth, but for rings that have an end.

What grows after a leader is ready are the classes of the workloads that it places (a budget by the cluster's size, in
`scheduling.classes.class_engine`) and the rings of recent attempts. Counted are blocks of Python's allocator, so the
machine's load and what the C library keeps do not matter.
"""

import asyncio
import gc
import sys
from collections import deque
from typing import Any, Final, cast

import msgspec

from benchmarks import scale_objects
from benchmarks.scale import line
from kscheduler.api.kinds import NODES, PODS, Kind
from kscheduler.bench.cluster import SCHEDULER_NAME, ServiceInProcess, StandIn
from kscheduler.client.watch import WatchDecoder, WatchEvent

NODES_COUNT: Final = 20
APPS: Final = 5
MEASURED: Final = 600


class Leader:
    """A service in process with nodes, without its rings of attempts."""

    def __init__(self) -> None:
        self.cluster = StandIn()
        self.service = ServiceInProcess(self.cluster)
        recent = self.service.ports.log.recent
        recent.bound, recent.failed = deque(maxlen=APPS), deque(maxlen=APPS)
        self._decoders: dict[Kind, WatchDecoder[Any]] = {kind: WatchDecoder(kind) for kind in (NODES, PODS)}
        self._made = 0
        images = [scale_objects.image(number) for number in range(scale_objects.IMAGES)]
        for number in range(NODES_COUNT):
            self._see("ADDED", NODES, scale_objects.node(number, images))

    async def place(self, count: int) -> int:
        """So many pods that come, are bound and go again. Returns the blocks that are left of them."""
        before = self._blocks()
        for _ in range(count):
            number, self._made = self._made, self._made + 1
            tree = scale_objects.pending_pod(number, number % APPS, SCHEDULER_NAME, {})
            self._see("ADDED", PODS, tree)
            queued = self.service.queue.pop_nowait(self.service.clock.time())
            assert queued is not None
            attempt = self.service.scheduler.decide(queued)
            assert attempt is not None
            await self.service.scheduler.bind(attempt)
            self.cluster.deliver_all()
            self._see("DELETED", PODS, tree)
            await asyncio.sleep(0)
        return self._blocks() - before

    def _see(self, event: str, kind: Kind, tree: dict[str, Any]) -> None:
        read = self._decoders[kind].feed(line(event, msgspec.json.encode(tree)))
        self.cluster.informers[kind].apply(cast("WatchEvent[Any]", read))

    @staticmethod
    def _blocks() -> int:
        gc.collect()
        return sys.getallocatedblocks()


async def test_pods_that_came_and_went_leave_nothing_behind() -> None:
    leader = Leader()
    await leader.place(1200)  # what is bounded by a number has reached it: the last 1,024 deletions
    assert await leader.place(MEASURED) < MEASURED
