"""Preemptions of one namespace whose requests hang: those of others evict as soon as before."""

import asyncio
from statistics import quantiles

from kscheduler.aio import VirtualClock
from kscheduler.framework.cluster.preemption import Preemption
from tests.scheduling.eviction.stage import Stage

HOSTILE = "hostile"


async def latencies(hostile: int) -> list[float]:
    """How long each of twenty sound preemptions a second took until its victim was asked to go, in virtual seconds."""
    stage = Stage(VirtualClock())
    started: dict[str, float] = {}
    evict = stage.writes.evict_pod

    async def evicted(pod, condition):  # type: ignore[no-untyped-def]
        await stage.clock.sleep(0.02)
        started[pod.metadata.name] = stage.clock.monotonic()
        return await evict(pod, condition)

    stage.writes.evict_pod = evicted  # type: ignore[method-assign]
    running = asyncio.create_task(stage.evictions.run())

    def begin(namespace: str, name: str) -> None:
        preemptor = stage.pod(f"big-{name}", namespace=namespace, node="", priority=100)
        victim = stage.pod(name, namespace=namespace)
        if namespace == HOSTILE:
            stage.writes.gates[name] = asyncio.Event()
        stage.evictions.begin(Preemption(preemptor, "n", (victim,), "DefaultPreemption", ()))

    created: dict[str, float] = {}
    for number in range(700):
        if number == 60:
            for each in range(hostile):
                begin(HOSTILE, f"h{each}")
        created[f"s{number}"] = stage.clock.monotonic()
        begin(f"team-{number % 3}", f"s{number}")
        await stage.clock.advance(0.0)
        await stage.clock.advance(0.05)
    await stage.clock.advance(1.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return [started[name] - at for name, at in created.items()]


async def test_preemptions_of_others_evict_as_soon_as_before_beside_a_thousand_that_hang() -> None:
    alone, beside = await latencies(0), await latencies(1000)
    assert quantiles(beside, n=100)[98] <= 2 * quantiles(alone, n=100)[98]
    assert max(beside) <= 1.1, "until those that hang are found to be late"
