"""The embedded API server's proxy to services: what is asked comes through whole, and nobody's credentials do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import BY_KEY, NAMESPACES
from kscheduler.embedded.apiserver import EmbeddedAPIServer

SERVICES = "/api/v1/namespaces/tools/services"


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A service that tells what it was sent; yields its port."""

    async def report(request: web.BaseRequest) -> web.StreamResponse:
        names = ("Authorization", "Kscheduler-Authorization", "Accept")
        heard = {name: request.headers.get(name) for name in names}
        body = {"method": request.method, "path": str(request.rel_url), "body": await request.text(), **heard}
        return web.json_response(body, status=422, headers={"Retry-After": "7"})

    runner = web.ServerRunner(web.Server(report))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def put_service(server: EmbeddedAPIServer, address: str = "", port: int = 0) -> None:
    metadata = {"name": "echo"}
    server.registry.create(NAMESPACES, "", {"metadata": {"name": "tools"}})
    server.registry.create(BY_KEY["services"], "tools", {"metadata": metadata, "spec": {"ports": [{"port": 80}]}})
    if address:
        subset = {"addresses": [{"ip": address}], "ports": [{"port": port, "appProtocol": "http"}]}
        server.registry.create(BY_KEY["endpoints"], "tools", {"metadata": metadata, "subsets": [subset]})


async def ask(server: EmbeddedAPIServer, path: str) -> tuple[int, Object, str]:
    """Status, JSON, Retry-After."""
    headers = {"Authorization": "Bearer mine", "Kscheduler-Authorization": "Bearer asker", "Accept": "text/plain"}
    async with (
        aiohttp.ClientSession() as session,
        session.request("POST", f"{server.url}{path}", data=b"what if", headers=headers) as response,
    ):
        return response.status, await response.json(), response.headers.get("Retry-After", "")


@pytest.mark.parametrize("target", ["echo", "echo:80", "https:echo:80"])
async def test_a_request_comes_through_whole_but_for_its_credentials(target: str) -> None:
    async with EmbeddedAPIServer() as server, echo() as port:
        put_service(server, "127.0.0.1", port)
        status, heard, retry_after = await ask(server, f"{SERVICES}/{target}/proxy/a/b?x=1%202&y=")
        assert (status, retry_after) == (422, "7")
        assert heard == {
            "method": "POST",
            "path": "/a/b?x=1%202&y=",
            "body": "what if",
            "Authorization": None,
            "Kscheduler-Authorization": "Bearer asker",
            "Accept": "text/plain",
        }


async def test_a_service_that_cannot_be_reached_is_reported_as_the_real_server_tells_it() -> None:
    async with EmbeddedAPIServer() as server:
        put_service(server, "192.0.2.1", 80)
        status, answer, _ = await ask(server, f"{SERVICES}/other/proxy/")
        assert (status, answer["message"]) == (404, 'services "other" not found')
        status, answer, _ = await ask(server, f"{SERVICES}/echo/proxy/")
        assert (status, answer["message"]) == (503, 'no endpoints available for service "echo"')
    async with EmbeddedAPIServer() as server:
        put_service(server, "127.0.0.1", 1)
        status, answer, _ = await ask(server, f"{SERVICES}/echo/proxy/")
        assert (status, answer["message"].partition(":")[0]) == (503, "error trying to reach service")
