"""What could not be read is read again within a minute, alone; what has no name is listed; both end and are bounded."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import NODES, PODS
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import Undecodable
from kscheduler.informers import Informer
from kscheduler.informers.informer import UNNAMED
from kscheduler.informers.rereading import RELIST_REASON, Rereader, Rereads
from tests.client.scripted import Explanation, ScriptedServer, reply, scripted_server
from tests.informers.test_reflector import pod, pod_list, refusal


def garbled(name: str, version: str = "11", namespace: str = "ns") -> Undecodable:
    return Undecodable("ADDED", namespace, name, "", version, "", "spec: expected an object")


class Bench:
    """A rereader on a scripted server."""

    def __init__(self, server: ScriptedServer, client: APIClient) -> None:
        self.server = server
        self.clock = VirtualClock()
        self.informer: Informer[Pod] = Informer(PODS, clock=self.clock)
        self.relists: list[str] = []
        self.rereader = Rereader(client, self.informer, self.relists.append, self.clock)

    async def seconds(self, seconds: int) -> None:
        """Let time pass, a look each second."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            await self.rereader.look()


@asynccontextmanager
async def bench(*answers: Explanation) -> AsyncIterator[Bench]:
    async with scripted_server(*answers) as server, APIClient(plain_connection(server.url)) as client:
        yield Bench(server, client)


async def test_an_object_is_queried_for_by_its_name_and_taken_as_if_the_watch_had_brought_it() -> None:
    async with bench(pod_list(pod("a", "12"))) as harness:
        harness.informer.apply_undecodable(garbled("a"))
        await harness.seconds(3)
        (request,) = harness.server.requests
        assert request.path == "/api/v1/namespaces/ns/pods"
        assert request.query["fieldSelector"] == f"metadata.name=a,{PODS.field_selector}"
        assert harness.informer.store.get("ns/a") is not None
        statistics = harness.informer.statistics()
        assert (statistics.undecodable, statistics.reread) == ({}, {"read": 1, "gone": 0})


async def test_an_object_that_is_gone_meanwhile_ends_it_and_leaves_the_store() -> None:
    async with bench(pod_list()) as harness:
        await harness.informer.replace([], [garbled("a")])
        await harness.seconds(3)
        assert harness.informer.statistics().undecodable == {}
        assert harness.informer.statistics().reread == {"read": 0, "gone": 1}
        await harness.seconds(60)
        assert len(harness.server.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(pod_list(pod("a", "12", containers=7)), id="still unreadable"),
        pytest.param(refusal(500), id="server error"),
        pytest.param(reply("<html>"), id="html"),
        pytest.param(reply('{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[]}'), id="another kind"),
        pytest.param(refusal(404, "NotFound"), id="404"),
    ],
)
async def test_what_stays_unreadable_is_tried_less_and_less_often_and_at_least_once_a_minute_at_first(
    answer: Explanation,
) -> None:
    async with bench(answer) as harness:
        harness.informer.apply_undecodable(garbled("a"))
        await harness.seconds(64)
        assert 5 <= len(harness.server.requests) <= 7
        assert harness.informer.is_unreadable("ns/a")
        await harness.seconds(1000)
        assert len(harness.server.requests) <= 12


async def test_what_the_watch_brings_meanwhile_is_not_overwritten() -> None:
    proceed = asyncio.Event()

    async def late(request: object) -> object:
        await proceed.wait()
        return await pod_list(pod("a", "12"))(request)  # type: ignore[arg-type]

    async with bench(late) as harness:  # type: ignore[arg-type]
        harness.informer.apply_undecodable(garbled("a"))
        await harness.seconds(1)
        reading = asyncio.create_task(harness.seconds(1))
        await harness.server.arrived.wait()
        harness.informer.apply_undecodable(garbled("a", "13"))
        proceed.set()
        await reading
        assert harness.informer.is_unreadable("ns/a"), "the answer may be older than what came meanwhile"


async def test_objects_without_a_name_are_listed_and_lists_are_bounded() -> None:
    async with bench(pod_list()) as harness:
        harness.informer.apply_undecodable(garbled(""))
        await harness.seconds(11)
        assert (harness.relists, harness.server.requests) == ([RELIST_REASON], [])
        await harness.seconds(3600)
        assert len(harness.relists) <= 12
        await harness.informer.replace([], [])
        assert harness.informer.statistics().undecodable == {}
        await harness.seconds(700)
        count = len(harness.relists)
        harness.informer.apply_undecodable(garbled(""))
        await harness.seconds(11)
        assert len(harness.relists) == count + 1


@pytest.mark.parametrize("name", ["../nodes/n", "a,status.phase=Failed", "a/b", "a b", "a?x", "-a", "\u00e4"])
async def test_what_is_no_name_gets_into_no_request(name: str) -> None:
    async with bench(pod_list()) as harness:
        harness.informer.apply_undecodable(garbled(name))
        await harness.seconds(60)
        assert harness.server.requests == []
        assert harness.relists


async def test_thousands_of_unreadable_objects_cost_ten_requests_a_second() -> None:
    async with bench(pod_list(pod("a", "12", containers=7))) as harness:
        for number in range(1000):
            harness.informer.apply_undecodable(garbled(f"p{number}"))
        await harness.seconds(5)
        assert len(harness.server.requests) <= 50


async def test_ten_objects_are_read_side_by_side_and_a_list_for_the_nameless_waits_for_none_of_them() -> None:
    """A server that does not answer for one of them must not keep the others for ten seconds each."""
    answered = asyncio.Event()

    async def hangs(request: object) -> object:
        await answered.wait()
        return await pod_list()(request)  # type: ignore[arg-type]

    async with bench(hangs) as harness:  # type: ignore[arg-type]
        for name in (*(f"p{number}" for number in range(10)), ""):
            harness.informer.apply_undecodable(garbled(name))
        await harness.seconds(1)
        await harness.clock.advance(10.0)
        looking = asyncio.create_task(harness.rereader.look())
        await asyncio.wait_for(harness.server.received(9), 60)
        assert harness.relists == [RELIST_REASON]
        answered.set()
        await looking


def test_a_relist_soon_after_another_waits_longer_and_still_less_than_a_minute() -> None:
    rereads = Rereads()
    assert rereads.due([UNNAMED], 0.0) == []
    assert rereads.due([UNNAMED], 10.0) == [UNNAMED]
    rereads.tried(UNNAMED, 10.0)
    assert rereads.due([], 11.0) == []
    assert rereads.due([UNNAMED], 20.0) == []
    assert rereads.due([UNNAMED], 64.0) == []
    assert rereads.due([UNNAMED], 65.0) == [UNNAMED]


async def test_a_node_with_a_namespace_is_read_as_the_node_that_it_is() -> None:
    node = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "12"}}
    body = json.dumps({"kind": "NodeList", "metadata": {"resourceVersion": "12"}, "items": [node]})
    async with scripted_server(reply(body)) as server, APIClient(plain_connection(server.url)) as client:
        clock = VirtualClock()
        informer: Informer[Node] = Informer(NODES, clock=clock)
        rereader = Rereader(client, informer, lambda _: None, clock)
        informer.apply_undecodable(garbled("n"))
        await rereader.look()
        await clock.advance(1.0)
        await rereader.look()
        assert (server.requests[0].path, server.requests[0].query) == (
            "/api/v1/nodes",
            {"fieldSelector": "metadata.name=n"},
        )
        assert informer.store.keys() == ["n"]
        assert informer.statistics().undecodable == {}
