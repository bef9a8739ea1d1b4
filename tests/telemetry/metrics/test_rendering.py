"""Rendering happens off the loop, one at a time, shared by those who ask meanwhile, from a copy taken at once."""

import asyncio
import gzip
import threading
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client.metrics_core import Metric

from kscheduler.scheduling.observations import Observations
from kscheduler.service.metrics.scheduler import Gauges, scheduler_source
from kscheduler.telemetry.exposition import Exposition, TextFormat
from tests.told import CONFLICT


class Gate:
    """Something read on the rendering thread that waits until the test opens it."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.threads: list[str] = []
        self.entered = 0
        self.most_at_once = 0

    def read(self) -> Iterable[Metric]:
        self.entered += 1
        self.most_at_once = max(self.most_at_once, self.entered)
        self.threads.append(threading.current_thread().name)
        assert self.opened.wait(timeout=30)
        self.entered -= 1
        return ()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def observations() -> Observations:
    return Observations()


@pytest.fixture
def exposition(observations: Observations, gate: Gate) -> Iterator[Exposition]:
    exposition = Exposition([scheduler_source(observations, Gauges())], on_thread=[gate.read])
    yield exposition
    exposition.close()


async def test_the_loop_goes_on_while_a_thread_renders(exposition: Exposition, gate: Gate) -> None:
    scrape = asyncio.create_task(exposition.render())
    turns = 0
    while not gate.threads:
        await asyncio.sleep(0)
        turns += 1
    gate.opened.set()
    await scrape
    assert turns > 0
    assert threading.current_thread().name not in gate.threads


async def test_scrapes_that_come_while_one_is_rendered_share_it(exposition: Exposition, gate: Gate) -> None:
    scrapes = [asyncio.create_task(exposition.render()) for _ in range(10)]
    await asyncio.sleep(0)
    gate.opened.set()
    answers = await asyncio.gather(*scrapes)
    assert exposition.renderings == 1
    assert len({id(answer) for answer in answers}) == 1


async def test_different_formats_are_rendered_one_after_the_other(exposition: Exposition, gate: Gate) -> None:
    gate.opened.set()
    await asyncio.gather(
        *(exposition.render(text_format, gzipped=gzipped) for text_format in TextFormat for gzipped in (False, True))
    )
    assert exposition.renderings == 4
    assert gate.most_at_once == 1


async def test_the_answer_is_a_copy_of_the_moment_of_the_scrape(
    exposition: Exposition, observations: Observations, gate: Gate
) -> None:
    observations.bind_in_doubt(CONFLICT)
    scrape = asyncio.create_task(exposition.render())
    await asyncio.sleep(0)
    observations.bind_in_doubt(CONFLICT)
    gate.opened.set()
    assert b"kscheduler_bind_conflicts_total 1.0\n" in (await scrape).body


async def test_a_scraper_that_gives_up_does_not_take_the_answer_from_the_others(
    exposition: Exposition, gate: Gate
) -> None:
    impatient = asyncio.create_task(exposition.render())
    patient = asyncio.create_task(exposition.render())
    await asyncio.sleep(0)
    impatient.cancel()
    await asyncio.sleep(0)
    gate.opened.set()
    assert (await patient).body
    assert impatient.cancelled()


async def test_a_later_scrape_is_rendered_anew(exposition: Exposition, observations: Observations, gate: Gate) -> None:
    gate.opened.set()
    await exposition.render()
    observations.bind_in_doubt(CONFLICT)
    assert b"kscheduler_bind_conflicts_total 1.0\n" in (await exposition.render()).body


async def test_compressed_and_plain_say_the_same(exposition: Exposition, gate: Gate) -> None:
    gate.opened.set()
    plain = await exposition.render()
    compressed = await exposition.render(gzipped=True)
    assert gzip.decompress(compressed.body) == plain.body


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", TextFormat.PROMETHEUS, id="none"),
        pytest.param("*/*", TextFormat.PROMETHEUS, id="curl"),
        pytest.param("application/openmetrics-text;version=abc", TextFormat.OPENMETRICS, id="version-is-no-number"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
            TextFormat.OPENMETRICS,
            id="prometheus-server",
        ),
        pytest.param("text/plain;version=0.0.4", TextFormat.PROMETHEUS, id="plain"),
        pytest.param("application/openmetrics-text;q=0,text/plain", TextFormat.PROMETHEUS, id="refused"),
        pytest.param("Application/OpenMetrics-Text; version=1.0.0; q=0.9", TextFormat.OPENMETRICS, id="any-case"),
    ],
)
def test_openmetrics_is_for_who_names_it(accept: str, expected: TextFormat) -> None:
    assert TextFormat.accepted_by(accept) is expected
