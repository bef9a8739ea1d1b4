"""Who sees what on the plain port: health everybody, the rest this machine and who has the token."""

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import structlog
from msgspec.structs import replace

from kscheduler.client.access.connection import plain_connection
from kscheduler.config.loader import default_configuration
from kscheduler.server import Endpoints, Health, HTTPServing, LoopbackAccess, PermitTokenFile, Server
from kscheduler.server.access import HEALTH
from kscheduler.server.waiting_pods import WAITING_PODS, WaitingPodsEndpoint
from kscheduler.service import App, Options
from kscheduler.state.waiting_pods import WaitingPodTable
from kscheduler.telemetry.exposition import Exposition
from tests.server.site import PLAIN

SECRET = "correct horse battery staple"
NOTE = "pods: shop/checkout-7 cannot be decoded"
ELSEWHERE = "10.1.2.3"
STRANGERS = [ELSEWHERE, "fd00::1", "::ffff:10.1.2.3", "", "nonsense"]
NEIGHBOURS = ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"]


@asynccontextmanager
async def served(peer: str, token: PermitTokenFile | None = None) -> AsyncIterator[aiohttp.ClientSession]:
    """A plain server for which every request comes from `peer`."""
    exposition = Exposition([])
    endpoints = Endpoints(
        livez=Health("livez", {}),
        readyz=Health("readyz", {"api-server": lambda: "no request has succeeded"}, lambda: [NOTE, NOTE]),
        healthz=Health("healthz", {}),
        exposition=exposition,
        component_config=lambda: b'{"kind":"KubeSchedulerConfiguration"}',
        waiting_pods=WaitingPodsEndpoint(WaitingPodTable(), token),
    )
    access = LoopbackAccess(token, lambda _: peer)
    server = Server(endpoints, replace(PLAIN, access=lambda _places: access))
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        await server.aclose()
        exposition.close()


@pytest.fixture
def token(tmp_path: Path) -> PermitTokenFile:
    path = tmp_path / "token"
    path.write_text(SECRET)
    return PermitTokenFile(path)


async def status_of(client: aiohttp.ClientSession, path: str, secret: str = "") -> int:
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    async with client.get(path, headers=headers) as response:
        return response.status


@pytest.mark.parametrize("peer", STRANGERS)
async def test_strangers_see_health_and_nothing_else(peer: str) -> None:
    async with served(peer) as client:
        for path in HEALTH:
            assert await status_of(client, path) in (200, 500), path
        for path in ("/configz", "/metrics", "/version", "/", "/nowhere", WAITING_PODS):
            assert await status_of(client, path) == 403, path
        async with client.get("/readyz?verbose") as response:
            text = await response.text()
    assert "[-]api-server failed: no request has succeeded\n" in text, "why it is not ready is no secret"
    assert "[i]2 notes withheld: visible to clients that may get /configz, with a login or the permit token\n" in text
    assert "checkout" not in text


@pytest.mark.parametrize("peer", NEIGHBOURS)
async def test_this_machine_sees_configuration_and_notes_but_may_not_decide_about_pods(peer: str) -> None:
    async with served(peer) as client:
        assert await status_of(client, "/configz") == 200
        async with client.get("/readyz?verbose") as response:
            assert f"[i]{NOTE}\n" in await response.text()
        assert await status_of(client, WAITING_PODS) == 403


HOSTS = {
    "localhost": 200,
    "localhost:10259": 200,
    "LOCALHOST.:10259": 200,
    "127.0.0.1:10259": 200,
    "[::1]:10259": 200,
    "10.0.0.7:10259": 200,
    "evil.example": 403,
    "127.0.0.1.evil.example:10259": 403,
    "localhost.evil.example": 403,
    "[": 403,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
async def test_a_page_in_a_browser_on_this_machine_reads_nothing_by_a_name_of_its_own(host: str, status: int) -> None:
    async with served("127.0.0.1") as client:
        async with client.get("/configz", headers={"Host": host}) as response:
            assert response.status == status
        async with client.get("/readyz?verbose", headers={"Host": host}) as response:
            assert ("checkout" in await response.text()) == (status == 200)


async def test_by_any_name_the_token_opens(token: PermitTokenFile) -> None:
    headers = {"Host": "scheduler.example", "Authorization": f"Bearer {SECRET}"}
    async with served("127.0.0.1", token) as client, client.get("/configz", headers=headers) as response:
        assert response.status == 200


async def test_the_token_opens_what_is_guarded_from_elsewhere(token: PermitTokenFile) -> None:
    async with served(ELSEWHERE, token) as client:
        for secret, status in ((SECRET, 200), ("", 401), ("wrong", 401)):
            for path in ("/configz", WAITING_PODS):
                assert await status_of(client, path, secret) == status, (path, secret)


async def test_a_token_that_cannot_be_read_opens_nothing(token: PermitTokenFile, tmp_path: Path) -> None:
    async with served(ELSEWHERE, token) as client:
        (tmp_path / "token").unlink()
        assert await status_of(client, "/configz", SECRET) == 401


def lines_of_start(serving: HTTPServing, token_file: str = "") -> list[MutableMapping[str, Any]]:
    options = Options(default_configuration(), serving=serving, permit_token_file=token_file)
    app = App(options, plain_connection("http://127.0.0.1:1"))
    with structlog.testing.capture_logs() as lines:
        app.announce()
    app.http_app.exposition.close()
    return [
        line
        for line in lines
        if line["event"] != "setting_not_honoured" and ("http" in line["event"] or "open" in line["event"])
    ]


async def test_a_port_without_a_login_is_reported_at_the_start(token: PermitTokenFile, tmp_path: Path) -> None:
    for file in ("", str(tmp_path / "token")):
        (line,) = lines_of_start(HTTPServing.plain_on_loopback(), file)
        assert (line["event"], line["bind_address"]) == ("http_server_open_without_login", "127.0.0.1")
        assert ("token" in line["waiting_pods"]) == bool(file)


@pytest.mark.parametrize(("address", "is_reported"), [("10.0.0.7", True), ("0.0.0.0", True), ("127.0.0.1", False)])
async def test_metrics_that_other_machines_can_read_are_reported(address: str, is_reported: bool) -> None:
    serving = HTTPServing(secure_port=None, metrics_address=(address, 0))
    assert [line["event"] for line in lines_of_start(serving)] == ["metrics_open_without_login"] * is_reported


async def test_that_nothing_is_served_is_reported() -> None:
    assert [line["event"] for line in lines_of_start(HTTPServing(secure_port=None))] == ["http_server_off"]


async def test_https_needs_no_warning() -> None:
    assert lines_of_start(HTTPServing(secure_port=0)) == []
