"""Permit by hand over HTTP: shut by default, open to the token alone, and clear about what it did not do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.addresses import is_loopback
from kscheduler.framework.status import Code
from kscheduler.server import Endpoints, Health, PermitTokenFile, Server, WaitingPodsEndpoint
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable
from kscheduler.telemetry.exposition import Exposition
from tests.builders import pod_info
from tests.server.site import PLAIN

TOKEN = "correct horse battery staple"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
BODY = {"plugin": "Gang"}


def holding(clock: VirtualClock) -> WaitingPodTable:
    """One pod that waits for two plugins, and one that waits for one."""
    waiting = WaitingPodTable()
    for name, timeouts in (("a", {"Gang": 60.0, "Quota": 90.0}), ("b", {"Gang": 30.0})):
        deadlines = {plugin: clock.monotonic() + seconds for plugin, seconds in timeouts.items()}
        waiting.hold(PodAtPermit(pod_info(name), "node-1", deadlines, timeouts))
    return waiting


@asynccontextmanager
async def served(
    waiting: WaitingPodTable, token: PermitTokenFile | None, clock: VirtualClock
) -> AsyncIterator[aiohttp.ClientSession]:
    exposition = Exposition([])
    endpoints = Endpoints(
        livez=Health("livez", {}),
        readyz=Health("readyz", {}),
        healthz=Health("healthz", {}),
        exposition=exposition,
        component_config=lambda: b"{}",
        waiting_pods=WaitingPodsEndpoint(waiting, token, clock),
    )
    server = Server(endpoints, PLAIN)
    await server.start()
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as client:
            yield client
    finally:
        await server.aclose()
        exposition.close()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(start=100.0, wall=1_790_000_000.0)


@pytest.fixture
def waiting(clock: VirtualClock) -> WaitingPodTable:
    return holding(clock)


@pytest.fixture
def token(tmp_path: Path) -> PermitTokenFile:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return PermitTokenFile(path)


@pytest.fixture
async def client(
    waiting: WaitingPodTable, token: PermitTokenFile, clock: VirtualClock
) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(waiting, token, clock) as client:
        yield client


async def ask(
    client: aiohttp.ClientSession, path: str, body: Any = None, headers: dict[str, str] = AUTHORIZED
) -> tuple[int, Any]:
    """GET without a body, POST with one; status and answer."""
    method = "GET" if body is None else "POST"
    async with client.request(method, path, json=body, headers=headers) as response:
        assert response.content_type == "application/json"
        return response.status, await response.json()


async def test_the_list_names_pods_nodes_plugins_and_deadlines(client: aiohttp.ClientSession) -> None:
    status, answer = await ask(client, "/waiting-pods")
    assert status == 200
    assert answer["items"][0] == {
        "namespace": "default",
        "name": "a",
        "uid": "uid-of-a",
        "node": "node-1",
        "pending": [
            {"plugin": "Gang", "deadline": "2026-09-21T14:14:20Z"},
            {"plugin": "Quota", "deadline": "2026-09-21T14:14:50Z"},
        ],
    }
    assert [item["name"] for item in answer["items"]] == ["a", "b"]


@pytest.mark.parametrize("pod", ["uid-of-b", "default/b"], ids=["by-uid", "by-name"])
async def test_the_last_permission_lets_a_pod_go(
    client: aiohttp.ClientSession, waiting: WaitingPodTable, pod: str
) -> None:
    status, answer = await ask(client, f"/waiting-pods/{pod}/allow", BODY)
    assert (status, answer["pending"]) == (200, [])
    held = waiting.get("uid-of-b")
    assert held is not None
    assert held.verdict is not None
    assert held.verdict.is_success


async def test_a_permission_leaves_the_other_plugins_to_be_queried(
    client: aiohttp.ClientSession, waiting: WaitingPodTable
) -> None:
    status, answer = await ask(client, "/waiting-pods/uid-of-a/allow", BODY)
    assert (status, answer["pending"]) == (200, ["Quota"])
    held = waiting.get("uid-of-a")
    assert held is not None
    assert held.verdict is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param({**BODY, "message": "no quota left"}, "no quota left", id="in-words"),
        pytest.param(BODY, "rejected by hand at plugin Gang", id="without-a-word"),
    ],
)
async def test_a_rejection_is_one_by_the_plugin(
    client: aiohttp.ClientSession, waiting: WaitingPodTable, body: dict[str, str], message: str
) -> None:
    assert (await ask(client, "/waiting-pods/default/a/reject", body))[0] == 200
    held = waiting.get("uid-of-a")
    assert held is not None
    assert held.verdict is not None
    assert (held.verdict.code, held.verdict.plugin) == (Code.UNSCHEDULABLE, "Gang")
    assert held.verdict.message == message


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        pytest.param("/waiting-pods/nobody/allow", BODY, 404, id="unknown-uid"),
        pytest.param("/waiting-pods/other/a/reject", BODY, 404, id="unknown-name"),
        pytest.param("/waiting-pods/uid-of-b/allow", {"plugin": "Quota"}, 409, id="plugin-not-pending"),
        pytest.param("/waiting-pods/uid-of-b/allow", {}, 400, id="no-plugin"),
        pytest.param("/waiting-pods/uid-of-b/allow", {"plugin": 1}, 400, id="plugin-is-no-text"),
        pytest.param("/waiting-pods/uid-of-b/allow", {**BODY, "plugins": []}, 400, id="unknown-field"),
        pytest.param("/waiting-pods/uid-of-b/allow", [], 400, id="no-object"),
        pytest.param("/waiting-pods/uid-of-b/reject", {**BODY, "message": "x" * 2000}, 400, id="long-message"),
    ],
)
async def test_what_is_not_done_is_reported_why(
    client: aiohttp.ClientSession, waiting: WaitingPodTable, path: str, body: Any, code: int
) -> None:
    status, answer = await ask(client, path, body)
    assert (status, answer["code"]) == (code, code)
    assert answer["reason"]
    assert answer["message"]
    assert all(held.verdict is None for held in waiting.all())


async def test_a_pod_with_a_verdict_gets_no_other(client: aiohttp.ClientSession, waiting: WaitingPodTable) -> None:
    held = waiting.get("uid-of-b")
    assert held is not None
    held.reject("Gang", "too late")
    assert (await ask(client, "/waiting-pods/uid-of-b/allow", BODY))[0] == 409


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"Authorization": "Bearer wrong"}, id="wrong"),
        pytest.param({"Authorization": f"Bearer {TOKEN}x"}, id="longer"),
        pytest.param({"Authorization": f"Basic {TOKEN}"}, id="another-scheme"),
        pytest.param({"Authorization": "Bearer"}, id="empty"),
    ],
)
async def test_without_the_token_nothing_is_reported_or_done(
    client: aiohttp.ClientSession, waiting: WaitingPodTable, headers: dict[str, str]
) -> None:
    for path, body in (
        ("/waiting-pods", None),
        ("/waiting-pods/uid-of-b/allow", BODY),
        ("/waiting-pods/x/allow", BODY),
    ):
        status, answer = await ask(client, path, body, headers)
        assert (status, answer["reason"]) == (401, "Unauthorized"), "even whether there is such a pod"
    assert all(held.verdict is None for held in waiting.all())


async def test_by_default_the_paths_are_shut_and_say_what_opens_them(
    waiting: WaitingPodTable, clock: VirtualClock
) -> None:
    async with served(waiting, None, clock) as client:
        for path, body in (("/waiting-pods", None), ("/waiting-pods/uid-of-b/allow", BODY)):
            status, answer = await ask(client, path, body)
            assert status == 403
            assert "--permit-token-file" in answer["message"]
        async with client.get("/") as response:
            assert "/waiting-pods" not in (await response.json())["paths"]
    assert all(held.verdict is None for held in waiting.all())


async def test_only_json_is_taken_which_no_web_page_can_send_unasked(
    client: aiohttp.ClientSession, waiting: WaitingPodTable
) -> None:
    headers = {**AUTHORIZED, "Content-Type": "text/plain"}
    async with client.post("/waiting-pods/uid-of-b/allow", data=b'{"plugin":"Gang"}', headers=headers) as response:
        assert response.status == 415
    assert all(held.verdict is None for held in waiting.all())


async def test_reading_does_not_change_anything_by_another_method(client: aiohttp.ClientSession) -> None:
    async with client.get("/waiting-pods/uid-of-b/allow", headers=AUTHORIZED) as response:
        assert response.status == 405


async def test_a_changed_token_counts_at_once_and_one_that_cannot_be_read_opens_nothing(
    waiting: WaitingPodTable, clock: VirtualClock, tmp_path: Path
) -> None:
    path = tmp_path / "changing"
    path.write_text("the first long token")
    async with served(waiting, PermitTokenFile(path), clock) as client:
        assert (await ask(client, "/waiting-pods"))[0] == 401
        path.write_text(TOKEN)
        assert (await ask(client, "/waiting-pods"))[0] == 200
        for spoil in (lambda: path.write_text(""), path.unlink):
            spoil()
            assert (await ask(client, "/waiting-pods", headers={"Authorization": "Bearer "}))[0] == 503
            assert (await ask(client, "/waiting-pods"))[0] == 503


@pytest.mark.parametrize(
    ("host", "is_private"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("", False), ("::", False)],
)
def test_who_listens_for_others_too_is_warned_that_the_token_goes_in_clear(host: str, is_private: bool) -> None:
    assert is_loopback(host) is is_private


def test_a_token_that_could_be_guessed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_text("secret\n")
    with pytest.raises(ValueError, match="at least 16 characters"):
        PermitTokenFile(path).read()
