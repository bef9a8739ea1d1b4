"""A scheduler over a cluster in memory, in virtual time: what tests of whole attempts have in common."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.in_memory.at_work import at_work, turns, workers_over
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.state.cache import Cache
from tests.scheduling.around import RecordedEvents, ReportedFailures


class SchedulerInMemory(InMemoryCluster):
    """Bindings succeed at once; conditions, nominations and Events are kept. Nothing runs outside of `at_work`."""

    def __init__(
        self,
        config: LoadedConfig,
        known: Registry | None = None,
        *,
        workers: int = 4,
        cache: Cache | None = None,
        has_classes: bool | None = None,
        on_quarantine: Callable[[], None] | None = None,
        **ports: Any,
    ) -> None:
        """`ports`: by name, in place of those of the cluster."""
        super().__init__()
        self.clock = VirtualClock()
        self.reported = ReportedFailures()
        self.recorded = RecordedEvents()
        mine = {"statuses": self.reported, "events": self.recorded}
        self.assembly = Assembly(
            config,
            registry() if known is None else known,
            self.ports(**(mine | ports)),
            self.clock,
            cache=cache,
            has_classes=has_classes,
            on_quarantine=on_quarantine,
        )
        self.assembly.listen_to(self.listeners)
        self.cache, self.queue = self.assembly.cache, self.assembly.queue
        self.workers = workers_over(self.assembly, self, workers)

    def add(self, *objects: Node | Pod, initial: bool = False) -> None:
        """Nodes and pods appear, or change."""
        for obj in objects:
            self.put(PODS if isinstance(obj, Pod) else NODES, obj, initial=initial)

    def where(self, name: str) -> str:
        """The queue in which a pod waits; empty if it is in none."""
        found = self.queue.find(f"default/{name}")
        return found[0] if found is not None else ""

    def decide(self) -> Attempt | None:
        """Decide on the next pod."""
        queued = self.queue.pop_nowait(self.clock.time())
        assert queued is not None
        return self.assembly.scheduler.decide(queued)

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """With workers and flushes."""
        async with at_work(self.assembly, self.workers):
            await self.settle()
            yield

    async def settle(self, count: int = 60) -> None:
        """Let every task do what it can."""
        await turns(count)

    async def advance(self, seconds: float) -> None:
        """Time passes."""
        await self.clock.advance(seconds)
        await self.settle()
