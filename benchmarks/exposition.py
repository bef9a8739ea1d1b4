"""What a scrape of 12,000 lines costs: the copy on the event loop, the rendering beside it, and what the loop feels.

    python benchmarks/exposition.py [lines]

Prints the time of the copy (the loop stands still for it), the time of a whole scrape, and by how much a 1 ms timer
came late: idle, while scrapes are rendered in the thread as the service does it, and while the same rendering is done
on the loop, for comparison. The thread shares the interpreter lock with the loop: a turn of the loop may wait for the
switch interval (5 ms by default), which is the figure to look at.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from kscheduler.scheduling.observations import Observations
from kscheduler.service.metrics.scheduler import Gauges, scheduler_source
from kscheduler.telemetry.exposition import Exposition, TextFormat, render_samples

SCRAPES = 10
PERIOD_SECONDS = 0.001


def filled(lines: int) -> Observations:
    """Observations whose exposition has about so many lines: extension points of many profiles, 15 lines each."""
    observations = Observations()
    for number in range(lines // 15):
        observations.extension_point("Filter", "Success", f"profile-{number}", 0.0002)
    return observations


async def lateness_while(work: Callable[[], Coroutine[Any, Any, object]]) -> list[float]:
    """By how much each 1 ms sleep came late while `work` ran, in seconds, sorted."""
    late: list[float] = []
    task = asyncio.create_task(work())
    while not task.done():
        due = time.perf_counter() + PERIOD_SECONDS
        await asyncio.sleep(PERIOD_SECONDS)
        late.append(time.perf_counter() - due)
    await task
    return sorted(late)


def row(name: str, late: list[float]) -> str:
    median, p99 = late[len(late) // 2], late[int(len(late) * 0.99)]
    return f"{name:<28} {median * 1e3:9.2f} {p99 * 1e3:9.2f} {late[-1] * 1e3:9.2f}   ms (p50, p99, max)"


async def scrape_in_thread(exposition: Exposition) -> None:
    for gzipped in itertools.islice(itertools.cycle((False, True)), SCRAPES):
        await exposition.render(TextFormat.PROMETHEUS, gzipped=gzipped)


async def scrape_on_loop(observations: Observations) -> None:
    source = scheduler_source(observations, Gauges())
    for gzipped in itertools.islice(itertools.cycle((False, True)), SCRAPES):
        render_samples(list(source()), (), TextFormat.PROMETHEUS, gzipped)
        await asyncio.sleep(0)


async def main(lines: int) -> None:
    observations = filled(lines)
    source = scheduler_source(observations, Gauges())
    exposition = Exposition([source])
    text = (await exposition.render()).body
    begin = time.perf_counter()
    for _ in range(SCRAPES):
        list(source())
    copied = time.perf_counter()
    await scrape_in_thread(exposition)
    rendered = time.perf_counter()
    print(f"{len(text.splitlines())} lines, {len(text) / 1e6:.2f} MB")
    print(f"copy on the loop             {(copied - begin) / SCRAPES * 1e3:9.2f} ms")
    print(f"whole scrape                 {(rendered - copied) / SCRAPES * 1e3:9.2f} ms")
    print(row("timer, loop idle", await lateness_while(lambda: asyncio.sleep(0.5))))
    print(row("timer, rendering in thread", await lateness_while(lambda: scrape_in_thread(exposition))))
    print(row("timer, rendering on loop", await lateness_while(lambda: scrape_on_loop(observations))))
    exposition.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 12_000))
