"""Watches over connections of our own: what is read when, which connection carries what, and how a watch ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.http import watch_pool
from kscheduler.client.http.http1 import CutResponseError, MalformedResponseError, NotHTTPError
from kscheduler.client.http.watch_pool import StreamedAnswer, WatchConnection, WatchPool
from tests.client.http.raw_server import Peer, Play, raw_server

SECONDS = 20.0
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_MORE = b"0\r\n\r\n"
IDENTITY = {"Authorization": "Bearer t"}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def watches(play: Play) -> AsyncIterator[WatchPool]:
    async with raw_server(play) as server:
        pool = WatchPool(plain_connection(server.url))
        try:
            yield pool
        finally:
            await pool.close()
            assert pool.connections == 0


def saying(*data: bytes, more: bool = True) -> Play:
    """Answers each request with this."""

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            for part in data:
                peer.say(part)
            if not more:
                return

    return play


async def everything(answer: StreamedAnswer) -> bytes:
    found = b""
    while part := await answer.next_bytes():
        found += part
    return found


async def test_the_head_comes_first_and_the_body_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def play(peer: Peer) -> None:
        request = await peer.request()
        assert b"GET /w?watch=true HTTP/1.1" in request
        assert b"Authorization: Bearer t" in request
        peer.say(b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD)
        await go_on.wait()
        peer.say(chunk(b"one\n") + chunk(b"two"))
        await go_on.wait()
        peer.say(chunk(b"\n") + NO_MORE)
        await peer.request()

    async with watches(play) as pool:
        answer = await pool.open("/w?watch=true", IDENTITY, SECONDS)
        assert (answer.status, answer.content_type) == (200, "application/json")
        go_on.set()
        assert await everything(answer) == b"one\ntwo\n"
        assert await answer.next_bytes() == b"", "an end stays one"


async def test_a_watch_that_has_ended_in_order_leaves_its_connection_to_the_next_one() -> None:
    async with watches(saying(HEAD, chunk(b"{}\n"), NO_MORE)) as pool:
        for _ in range(3):
            answer = await pool.open("/w", IDENTITY, SECONDS)
            assert await everything(answer) == b"{}\n"
            answer.close()
        assert pool.connections == 1


async def test_what_has_come_can_be_read_while_the_next_watch_is_on_the_connection() -> None:
    async with watches(saying(HEAD, chunk(b"{}\n"), NO_MORE)) as pool:
        first = await pool.open("/w", IDENTITY, SECONDS)
        second = await pool.open("/w", IDENTITY, SECONDS)
        assert await everything(second) == b"{}\n"
        assert await everything(first) == b"{}\n"


async def test_a_watch_that_nobody_reads_any_more_ends_with_its_connection() -> None:
    async with watches(saying(HEAD)) as pool:
        first, second = [await pool.open("/w", IDENTITY, SECONDS) for _ in range(2)]
        assert pool.connections == 2
        first.close()
        first.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert pool.connections == 1
        second.close()


async def test_a_refusal_is_read_as_far_as_a_message_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_pool, "LARGEST_REFUSAL", 5)
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Type: Text/Plain; charset=utf-8\r\nContent-Length: 9\r\n\r\nforbidden"
    async with watches(saying(refusal)) as pool:
        answer = await pool.open("/w", IDENTITY, SECONDS)
        assert (answer.status, answer.content_type, answer.headers["content-length"]) == (403, "text/plain", "9")
        assert await answer.beginning() == b"forbi"


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        pytest.param((HEAD, chunk(b"a\n")), CutResponseError, id="cut"),
        pytest.param((HEAD, chunk(b"a\n"), b"zz\r\n"), MalformedResponseError, id="no chunk"),
    ],
)
async def test_a_broken_watch_fails_after_what_came_before(said: tuple[bytes, ...], failure: type[Exception]) -> None:
    async with watches(saying(*said, more=False)) as pool:
        answer = await pool.open("/w", IDENTITY, SECONDS)
        assert await answer.next_bytes() == b"a\n"
        with pytest.raises(failure):
            await answer.next_bytes()


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    async with watches(saying(b"HTTP/1.1 200 OK\r\n\r\n", b"a\n", more=False)) as pool:
        assert await everything(await pool.open("/w", IDENTITY, SECONDS)) == b"a\n"


@pytest.mark.parametrize(
    ("said", "failure"),
    [
        pytest.param((), CutResponseError, id="nothing"),
        pytest.param((b"SSH-2.0-OpenSSH\r\n",), NotHTTPError, id="no HTTP"),
    ],
)
async def test_without_a_head_it_is_no_watch(said: tuple[bytes, ...], failure: type[Exception]) -> None:
    async with watches(saying(*said, more=False)) as pool:
        with pytest.raises(failure):
            await pool.open("/w", IDENTITY, SECONDS)


async def test_a_silent_watch_ends_and_a_silent_server_is_not_waited_for() -> None:
    async with watches(saying(HEAD)) as pool:
        answer = await pool.open("/w", IDENTITY, 0.05)
        with pytest.raises(TimeoutError):
            await answer.next_bytes()
    async with watches(saying()) as pool:
        with pytest.raises(TimeoutError):
            await pool.open("/w", IDENTITY, 0.05)


class Valve(asyncio.Transport):
    """A transport that is read or not."""

    def __init__(self) -> None:
        super().__init__()
        self.turned: list[str] = []

    def write(self, data: object) -> None:
        del data

    def pause_reading(self) -> None:
        self.turned.append("off")

    def resume_reading(self) -> None:
        self.turned.append("on")

    def abort(self) -> None:
        pass


async def test_who_reads_slowly_is_neither_flooded_nor_taken_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_pool, "_MOST_BUFFERED_BYTES", 1000)
    pool = WatchPool(plain_connection("http://127.0.0.1:1"))
    connection, valve = WatchConnection(pool, None), Valve()
    connection.connection_made(valve)
    answer = connection.begin_watch(b"GET", SECONDS)
    connection.data_received(HEAD + chunk(b"x" * 1000))
    assert valve.turned == []
    connection.data_received(chunk(b"y"))
    connection.data_received(chunk(b"z"))  # was on its way
    assert valve.turned == ["off"]
    connection.ends_at = 0.0
    connection.close(TimeoutError("the pool's timer"))
    assert connection.ends_at > 0, "it is not silent: nobody looks"
    assert await answer.next_bytes() == b"x" * 1000 + b"yz"
    assert valve.turned == ["off", "on"]
    connection.close(TimeoutError("the pool's timer"))
    with pytest.raises(TimeoutError):
        await answer.next_bytes()
    connection.connection_lost(None)


async def test_closing_the_client_fails_watches_that_are_under_way() -> None:
    async with watches(saying(HEAD)) as pool:
        answer = await pool.open("/w", IDENTITY, SECONDS)
        await pool.close()
        with pytest.raises(ConnectionAbortedError):
            await answer.next_bytes()
