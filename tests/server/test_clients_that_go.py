"""A client that goes away in the middle of a request or an answer is no bug of the service: no line, no count."""

import asyncio

import pytest
import structlog
from aiohttp import web

from kscheduler.server import Server
from kscheduler.server.handlers import Handler
from kscheduler.server.health import Health
from kscheduler.server.routes import Endpoints, ServedPage
from kscheduler.telemetry.exposition import Exposition
from kscheduler.telemetry.logs.caught import Boundary, caught
from tests.server.site import PLAIN


async def _reads_the_body(request: web.Request) -> web.StreamResponse:
    return web.Response(body=await request.read())


async def _sends_without_end(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x")
        await asyncio.sleep(0)


async def _has_a_bug(request: web.Request) -> web.StreamResponse:
    raise ConnectionResetError("by somebody else")


async def _queried(handler: Handler, sent: bytes, exposition: Exposition, *, goes: bool) -> tuple[int, list[str]]:
    """How many bugs were counted, and the lines."""
    done, before = asyncio.Event(), caught()[Boundary.HTTP]

    async def page(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        finally:
            done.set()

    endpoints = Endpoints(
        livez=Health("livez", {}),
        readyz=Health("readyz", {}),
        healthz=Health("healthz", {}),
        exposition=exposition,
        component_config=lambda: b"{}",
        pages={"/page": ServedPage(page, "POST", is_long=True, only_reads=True)},
    )
    server = Server(endpoints, PLAIN)
    await server.start()
    try:
        with structlog.testing.capture_logs() as lines:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"POST /page HTTP/1.1\r\nHost: localhost\r\n" + sent)
            if goes:
                await asyncio.wait([asyncio.create_task(reader.read(1))], timeout=0.2)
                writer.transport.abort()
            await asyncio.wait_for(done.wait(), 5)
            await server.aclose()
            writer.transport.abort()
    finally:
        await server.aclose()
    return caught()[Boundary.HTTP] - before, [line["event"] for line in lines if line["log_level"] != "info"]


@pytest.mark.parametrize(
    ("handler", "sent"),
    [
        pytest.param(_reads_the_body, b"Content-Length: 100\r\n\r\nhalf", id="half a body"),
        pytest.param(_sends_without_end, b"\r\n", id="a closed tab"),
    ],
)
async def test_a_client_that_goes_is_no_bug(handler: Handler, sent: bytes, exposition: Exposition) -> None:
    assert await _queried(handler, sent, exposition, goes=True) == (0, [])


async def test_a_lost_connection_to_somebody_else_is_a_bug(exposition: Exposition) -> None:
    assert await _queried(_has_a_bug, b"\r\n", exposition, goes=False) == (1, ["http_handler_failed"])
