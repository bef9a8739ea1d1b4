"""A write leaves only if the fence says so in the instant in which it would, after all waiting."""

import asyncio
from typing import NoReturn

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.errors import FencedError
from kscheduler.client.rest import APIClient
from tests.client.http.raw_server import OK, Peer, RawServer, answer_all, raw_server


class CountingFence:
    """Open for a number of questions."""

    def __init__(self, opens: int) -> None:
        self.opens = opens
        self.refusals: list[str] = []

    def is_open(self) -> bool:
        self.opens -= 1
        return self.opens >= 0

    async def refused(self, write: str) -> NoReturn:
        self.refusals.append(write)
        raise FencedError(write)


def client_of(server: RawServer, fence: CountingFence, max_connections: int = 8) -> APIClient:
    return APIClient(plain_connection(server.url), fence=fence, max_connections=max_connections)


WRITES = ("post", "put", "patch", "delete")


@pytest.mark.parametrize("method", WRITES)
async def test_a_write_that_may_not_leave_is_refused_and_nothing_is_sent(method: str) -> None:
    fence = CountingFence(opens=0)
    async with raw_server(answer_all) as server, client_of(server, fence) as client:
        with pytest.raises(FencedError):
            await getattr(client, method)("/x", b"{}")
        assert server.requests == 0
        assert fence.refusals == [f"{method.upper()} /x"]


async def test_reads_pass_whatever_the_fence_says() -> None:
    async with raw_server(answer_all) as server, client_of(server, CountingFence(opens=0)) as client:
        assert await client.get("/x") == b"ok"


@pytest.mark.parametrize("method", WRITES)
async def test_each_write_is_queried_about(method: str) -> None:
    fence = CountingFence(opens=2)
    async with raw_server(answer_all) as server, client_of(server, fence) as client:
        for _ in range(2):
            assert await getattr(client, method)("/x", b"{}") == b"ok"
        with pytest.raises(FencedError):
            await getattr(client, method)("/x", b"{}")
        assert server.requests == 2


async def test_a_write_that_has_waited_for_its_place_is_queried_about_when_it_has_it() -> None:
    """The first holds the only place; while it waits for its answer the right to write ends."""
    let_go = asyncio.Event()

    async def answer_late(peer: Peer) -> None:
        await peer.request()
        await let_go.wait()
        peer.say(OK)
        await answer_all(peer)

    fence = CountingFence(opens=1)
    async with raw_server(answer_late) as server, client_of(server, fence, max_connections=1) as client:
        first = asyncio.create_task(client.post("/first", b"{}"))
        second = asyncio.create_task(client.post("/second", b"{}"))
        while not server.requests:  # noqa: ASYNC110  # a request that arrives tells nobody
            await asyncio.sleep(0)
        let_go.set()
        assert await first == b"ok"
        with pytest.raises(FencedError):
            await second
        assert server.requests == 1


async def test_a_refused_write_does_not_cost_the_connection() -> None:
    fence = CountingFence(opens=0)
    async with raw_server(answer_all) as server, client_of(server, fence) as client:
        with pytest.raises(FencedError):
            await client.post("/x", b"{}")
        assert await client.get("/x") == b"ok"
        assert len(server.peers) == 1


async def test_connections_of_a_fenced_client_are_reset_so_that_the_kernel_sends_nothing_after_the_end() -> None:
    ends: list[str] = []

    async def look(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)
        try:
            await peer.request()
        except (asyncio.IncompleteReadError, ConnectionError) as end:
            ends.append(type(end).__name__)
            raise

    async with raw_server(look) as server:
        for fence in (CountingFence(opens=1), None):
            async with APIClient(plain_connection(server.url), fence=fence) as client:
                await client.post("/x", b"{}")
            await server.ended.get()
    assert ends == ["ConnectionResetError", "IncompleteReadError"]
