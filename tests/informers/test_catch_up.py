"""A new leader's store holds what was written before it looks: by the watch if something happens, else by a list."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from kscheduler.aio.clock import REAL_CLOCK
from kscheduler.api.kinds import PODS
from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.informers import catch_up
from kscheduler.informers.catch_up import CatchUp
from kscheduler.informers.factory import InformerFactory
from tests.builders import pod_tree
from tests.service.running import put

SECONDS = 20.0
Lines = list[dict[str, object]]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured  # type: ignore[misc]


@asynccontextmanager
async def synced(server: EmbeddedAPIServer) -> AsyncIterator[tuple[CatchUp, InformerFactory]]:
    """A store of pods that a watch keeps up to date."""
    async with APIClient(plain_connection(server.url)) as client:
        informers = InformerFactory(client, (PODS,))
        keeping = asyncio.create_task(informers.run())
        try:
            assert await informers.wait_for_sync(SECONDS) == ()
            yield CatchUp(client, informers, PODS, REAL_CLOCK), informers
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})


def how(lines: Lines) -> list[object]:
    return [line["how"] for line in lines if line["event"] == "caught_up"]


async def test_where_nothing_happens_the_pods_are_listed(lines: Lines) -> None:
    """Other objects have moved the version on; no event of a pod will ever show it."""
    async with EmbeddedAPIServer(seed=1, bookmark_seconds=1000.0) as server:
        put(server, "pods", pod_tree("old"))
        async with synced(server) as (catching, informers):
            server.store.put("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
            await asyncio.wait_for(catching.run(), SECONDS)
            assert informers.informer(PODS).relists == {"start": 1, catch_up.REASON: 1}
    assert how(lines) == ["list"]


async def test_a_pod_that_the_watch_has_lost_is_there_afterwards(lines: Lines) -> None:
    async with EmbeddedAPIServer(seed=1, bookmark_seconds=1000.0) as server, synced(server) as (catching, informers):
        server.faults.add(InjectedFault("lose_event", count=1))
        put(server, "pods", pod_tree("lost"))
        await asyncio.wait_for(catching.run(), SECONDS)
        assert informers.informer(PODS).store.get("default/lost") is not None
    assert how(lines) == ["list"]


async def test_a_store_that_takes_its_time_to_be_replaced_is_waited_for() -> None:
    """As one of 100,000 pods does, in slices: the list has ended before its pods are there."""
    async with EmbeddedAPIServer(seed=1, bookmark_seconds=1000.0) as server, synced(server) as (catching, informers):
        informer = informers.informer(PODS)
        replace, may_replace = informer.replace, asyncio.Event()

        async def slow_replace(objects: Any, undecodable: Any) -> None:
            await may_replace.wait()
            await replace(objects, undecodable)

        informer.replace = slow_replace  # type: ignore[method-assign, assignment]
        server.faults.add(InjectedFault("lose_event", count=1))
        put(server, "pods", pod_tree("lost"))
        catching_up = asyncio.create_task(catching.run())
        await asyncio.wait({catching_up}, timeout=0.3)
        assert not catching_up.done()
        may_replace.set()
        await asyncio.wait_for(catching_up, SECONDS)
        assert informer.store.get("default/lost") is not None


async def test_where_pods_come_and_go_the_watch_shows_it(lines: Lines) -> None:
    async with EmbeddedAPIServer(seed=1) as server, synced(server) as (catching, informers):
        put(server, "pods", pod_tree("new"))
        await asyncio.wait_for(catching.run(), SECONDS)
        assert informers.informer(PODS).store.get("default/new") is not None
        assert informers.informer(PODS).relists == {"start": 1}
    assert how(lines) == ["watch"]


async def test_while_the_api_server_refuses_it_waits_and_says_so(lines: Lines) -> None:
    async with EmbeddedAPIServer(seed=1) as server, synced(server) as (catching, _):
        server.faults.add(InjectedFault("answer", method="GET", path="*/pods", count=2))
        put(server, "pods", pod_tree("new"))
        await asyncio.wait_for(catching.run(), SECONDS)
    assert [line["event"] for line in lines].count("waiting_to_catch_up") == 2
    assert len(how(lines)) == 1
