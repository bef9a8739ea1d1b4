"""The workers of a scheduler over a cluster in memory."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from kscheduler.aio.tasks import while_running
from kscheduler.assembly import Assembly
from kscheduler.in_memory.cluster import InMemoryCluster
from kscheduler.scheduling.work.concurrency import AdaptiveLimit
from kscheduler.scheduling.work.workers import Workers

WORKERS: Final = 4


def workers_over(assembly: Assembly, cluster: InMemoryCluster, count: int = WORKERS) -> Workers:
    """Create `count` workers, woken by each arrival in the queue."""
    limit = AdaptiveLimit(count, count)
    workers = Workers(count, assembly.queue, assembly.scheduler, limit, assembly.clock, assembly.observers)
    cluster.wake = workers.wake
    return workers


@asynccontextmanager
async def at_work(assembly: Assembly, workers: Workers, *more: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """With workers, flushes of the queue, and `more` beside them; what one of them fails with is raised at the end."""
    tasks = [asyncio.ensure_future(work) for work in (workers.run(), workers.keep_flushing(), *more)]
    try:
        async with while_running(tasks):
            yield
    finally:
        await assembly.scheduler.awaited.drain(0.0)


async def turns(count: int) -> None:
    """Let every task do what it can without time passing: so many turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)
