"""A server on loopback with health that the test decides."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import aiohttp
import pytest

from kscheduler.scheduling.observations import Observations
from kscheduler.server import Endpoints, Health, Limits, Port, Server
from kscheduler.service.metrics.scheduler import Gauges, scheduler_source
from kscheduler.telemetry.exposition import Exposition
from tests.server.site import PLAIN, Condition, Site, StartSite


@pytest.fixture
def condition() -> Condition:
    return Condition()


@pytest.fixture
def observations() -> Observations:
    return Observations()


@pytest.fixture
def exposition(observations: Observations) -> Iterator[Exposition]:
    exposition = Exposition([scheduler_source(observations, Gauges())])
    yield exposition
    exposition.close()


@pytest.fixture
async def start_site(
    condition: Condition, observations: Observations, exposition: Exposition
) -> AsyncIterator[StartSite]:
    """Starts servers with limits of the test's choice, and ends them."""
    endpoints = Endpoints(
        livez=Health("livez", {"loop-heartbeat": condition.check("loop-heartbeat")}),
        readyz=Health(
            "readyz",
            {name: condition.check(name) for name in ("shutdown", "sched-handler-sync")},
            lambda: condition.notes,
        ),
        healthz=Health("healthz", {}),
        exposition=exposition,
        component_config=lambda: b'{"kind":"KubeSchedulerConfiguration","parallelism":16}',
    )
    async with AsyncExitStack() as ends:

        async def start(limits: Limits, port: Port = PLAIN) -> Site:
            server = Server(endpoints, port, limits=limits)
            await server.start()
            ends.push_async_callback(server.aclose)
            client = await ends.enter_async_context(aiohttp.ClientSession(f"http://127.0.0.1:{server.port}"))
            return Site(server, condition, observations, exposition, client)

        yield start


@pytest.fixture
async def site(start_site: StartSite) -> Site:
    return await start_site(Limits(turns_per_second=1_000_000.0))
