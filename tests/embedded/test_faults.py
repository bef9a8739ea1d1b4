"""Faults: each does what its name says, to the requests it is meant for, as often as it was told."""

import aiohttp
import msgspec
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import FaultRequest, Faults, InjectedFault
from tests.embedded.cluster_client import Client, pod

PODS = "/api/v1/namespaces/default/pods"
BINDING = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}


async def version(client: Client) -> str:
    return str((await client.get("/api/v1/pods"))["metadata"]["resourceVersion"])


async def test_answers_are_given_as_often_as_queried(client: Client, server: EmbeddedAPIServer) -> None:
    server.faults.add(InjectedFault("answer", method="POST", path="*/pods", code=429, retry_after_seconds=2, count=2))
    for expected in (429, 429, 201):
        async with client.session.post(client.url + PODS, json=pod()) as response:
            assert response.status == expected
            assert response.headers.get("Retry-After") == ("2" if expected == 429 else None)
    assert server.faults.happened == {"answer": 2}


async def test_a_reset_before_applying_changes_nothing(client: Client, server: EmbeddedAPIServer) -> None:
    server.faults.add(InjectedFault("reset", method="POST", path="*/pods", count=1))
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(PODS, pod())
    assert (await client.get("/api/v1/pods"))["items"] == []


async def test_a_write_may_be_applied_and_its_answer_lost(client: Client, server: EmbeddedAPIServer) -> None:
    await client.post(PODS, pod())
    server.faults.add(InjectedFault("apply_then_reset", method="POST", path="*/binding", count=1))
    with pytest.raises(aiohttp.ClientConnectionError):
        await client.post(f"{PODS}/p/binding", BINDING)
    assert (await client.get(f"{PODS}/p"))["spec"]["nodeName"] == "n1"


async def test_a_delay_comes_before_the_answer(client: Client, server: EmbeddedAPIServer) -> None:
    server.faults.add(InjectedFault("delay", path="/api/v1/nodes", seconds=5))
    with pytest.raises(TimeoutError):
        await client.get("/api/v1/nodes", timeout=aiohttp.ClientTimeout(total=0.05))
    assert (await client.get("/api/v1/pods"))["items"] == []


async def test_dropped_watches_end_and_new_ones_resume(client: Client, server: EmbeddedAPIServer) -> None:
    start = await version(client)
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        server.faults.drop_watches()
        assert await events.rest() == []
    await client.post(PODS, pod("a"))
    async with client.watch("/api/v1/pods", resourceVersion=start) as events:
        assert await events.take(1) == [("ADDED", "a")]


async def test_stalled_watches_send_nothing_until_they_go_on(client: Client, server: EmbeddedAPIServer) -> None:
    async with client.watch("/api/v1/pods", resourceVersion=await version(client)) as events:
        server.faults.stall_watches()
        await client.post(PODS, pod("a"))
        assert (await client.get(f"{PODS}/a"))["metadata"]["name"] == "a"
        assert events.response.content.total_bytes == 0
        server.faults.clear()
        assert await events.take(1) == [("ADDED", "a")]


async def test_a_line_may_be_cut_in_the_middle(client: Client, server: EmbeddedAPIServer) -> None:
    server.faults.add(InjectedFault("cut_event", path="/api/v1/pods", count=1))
    async with client.watch("/api/v1/pods", resourceVersion=await version(client)) as events:
        await client.post(PODS, pod("a"))
        with pytest.raises(aiohttp.ClientError):
            await events.response.content.read()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("lose_event", [("ADDED", "b")]),
        ("duplicate_event", [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]),
    ],
)
async def test_one_event_is_lost_or_doubled(
    client: Client, server: EmbeddedAPIServer, action: str, expected: list[tuple[str, str]]
) -> None:
    server.faults.obey(msgspec.convert({"add": {"action": action, "count": 1}}, FaultRequest))
    async with client.watch("/api/v1/pods", resourceVersion=await version(client)) as events:
        for name in "ab":
            await client.post(PODS, pod(name))
        assert await events.take(len(expected)) == expected


async def test_faults_can_be_ordered_over_http(client: Client, server: EmbeddedAPIServer) -> None:
    order = {"add": {"action": "answer", "method": "GET", "path": "/api/v1/nodes", "code": 500}}
    status, shown = await client.request("POST", "/_faults", order)
    assert (status, shown["active"][0]["code"]) == (200, 500)
    assert (await client.request("GET", "/api/v1/nodes"))[0] == 500
    await client.request("POST", "/_faults", {"clear": True})
    assert (await client.get("/api/v1/nodes"))["items"] == []
    status, refused = await client.request("POST", "/_faults", {"add": {"action": "explode"}})
    assert (status, refused["reason"]) == (400, "BadRequest")
    assert "'explode'" in refused["message"]
    assert refused["message"].endswith(
        "there are answer, delay, reset, apply_then_reset, cut_event, lose_event, duplicate_event"
    )
    status, refused = await client.request("POST", "/_faults", {"do": "help"})
    assert status == 400
    assert refused["message"].endswith("there are drop_watches, stall_watches, resume_watches, expire_history")
    assert server.faults.active == []


async def test_the_admin_endpoint_is_off_unless_queried_for() -> None:
    async with EmbeddedAPIServer() as server, aiohttp.ClientSession() as session:
        status, _ = await Client(session, server.url).request("POST", "/_faults", {"clear": True})
    assert status == 404


def test_probabilities_are_drawn_from_the_seed() -> None:
    def draws(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add(InjectedFault("reset", probability=0.5))
        return [bool(faults.for_request("GET", "/")) for _ in range(50)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)
    assert 10 < sum(draws(1)) < 40
