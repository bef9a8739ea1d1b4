"""Connections that are kept: which request goes over which, and what a caller may conclude when one breaks."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.access.credentials import FixedCredentials
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import CredentialsError, NetworkError, NotSentError, UnknownOutcomeError
from kscheduler.client.http import pool as http_pool
from kscheduler.client.http.http1 import HttpRequest, MalformedResponseError
from kscheduler.client.http.pool import HTTPPool
from kscheduler.client.rest import APIClient
from tests.client.http.raw_server import OK, Peer, RawServer, raw_server
from tests.client.scripted import reply, scripted_server

CERTIFICATES = Path(__file__).parents[1] / "certificates"
NO_LISTENER: Mapping[str, str] = {}
GET = HttpRequest("GET", "/x")
POST = HttpRequest("POST", "/x", b"{}", "application/json")
# Long enough for any machine; what must run out is given less.
SECONDS = 20.0


@asynccontextmanager
async def pool_of(server: RawServer | Connection, idle_seconds: float = 60.0) -> AsyncIterator[HTTPPool]:
    connection = plain_connection(server.url) if isinstance(server, RawServer) else server
    pool = HTTPPool(connection, idle_seconds=idle_seconds)
    try:
        yield pool
    finally:
        await pool.close()
        assert pool.connections == 0


def server_side(name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / f"{name}.crt", CERTIFICATES / f"{name}.key")
    return context


# --- which connection -----------------------------------------------------------------------------------------------


async def test_requests_one_after_the_other_share_a_connection() -> None:
    async with raw_server() as server, pool_of(server) as pool:
        for _ in range(5):
            assert (await pool.send(POST, NO_LISTENER, SECONDS)).body == b"ok"
        assert [peer.requests for peer in server.peers] == [5]


async def test_there_are_never_more_connections_than_requests_at_a_time() -> None:
    async with raw_server() as server, APIClient(plain_connection(server.url), max_connections=4) as client:
        await asyncio.gather(*(client.post("/x", b"{}") for _ in range(50)))
        assert server.requests == 50
        assert len(server.peers) <= 4


async def test_the_connection_used_last_is_used_next_and_the_others_end_in_time() -> None:
    async with raw_server() as server, pool_of(server, idle_seconds=0.2) as pool:
        await asyncio.gather(*(pool.send(POST, NO_LISTENER, SECONDS) for _ in range(3)))
        assert pool.connections == 3
        for _ in range(3):
            await server.ended.get()
        assert (await pool.send(POST, NO_LISTENER, SECONDS)).status == 200
        assert len(server.peers) == 4


async def test_a_server_that_wants_the_connection_closed_gets_a_new_one_next() -> None:
    """So kube-apiserver spreads its clients (`--goaway-chance`) and sends them away before it stops."""

    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with raw_server(play) as server, pool_of(server) as pool:
        for _ in range(3):
            await pool.send(POST, NO_LISTENER, SECONDS)
        assert [peer.requests for peer in server.peers] == [1, 1, 1]


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    async def once(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)

    async with raw_server(once) as server, pool_of(server) as pool:
        for _ in range(3):
            await pool.send(POST, NO_LISTENER, SECONDS)
            while pool.connections:  # noqa: ASYNC110  # the loop's next turns bring the news
                await asyncio.sleep(0)
        assert [peer.requests for peer in server.peers] == [1, 1, 1]


async def test_what_nobody_queried_for_ends_the_connection() -> None:
    answered = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)
        await answered.wait()
        peer.say(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await peer.request()

    async with raw_server(play) as server, pool_of(server) as pool:
        await pool.send(POST, NO_LISTENER, SECONDS)
        answered.set()
        await server.ended.get()
        answered.clear()
        assert (await pool.send(POST, NO_LISTENER, SECONDS)).status == 200


async def test_bytes_beyond_an_answer_are_no_answer_to_the_next_request() -> None:
    async def play(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.say(OK + b"HTTP/1.1 500 Not Yours\r\nContent-Length: 0\r\n\r\n")

    async with raw_server(play) as server, pool_of(server) as pool:
        assert [(await pool.send(POST, NO_LISTENER, SECONDS)).status for _ in range(3)] == [200, 200, 200]


async def test_the_headers_change_with_the_identity() -> None:
    heads: list[bytes] = []

    async def play(peer: Peer) -> None:
        while True:
            heads.append(await peer.request())
            peer.say(OK)

    async with raw_server(play) as server, pool_of(server) as pool:
        for token in ("one", "two"):
            await pool.send(POST, {"Authorization": f"Bearer {token}"}, SECONDS)
    assert [b"Bearer one" in heads[0], b"Bearer two" in heads[1]] == [True, True]


# --- what breaks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_first", [pytest.param(True, id="new-connection"), pytest.param(False, id="kept-one")])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_write_that_got_no_answer_is_never_sent_twice(is_first: bool, how: str) -> None:
    """A server that closes an idle connection cannot be told from one that died over the request."""

    async def play(peer: Peer) -> None:
        if not is_first:
            await peer.request()
            peer.say(OK)
        await peer.request()
        if how == "reset":
            peer.reset()

    async with raw_server(play) as server, APIClient(plain_connection(server.url)) as client:
        if not is_first:
            await client.post("/x", b"{}")
        with pytest.raises(UnknownOutcomeError):
            await client.post("/x", b"{}")
        assert server.requests == 2 - is_first
        assert client.statistics().requests[("<error>", "POST")] == 1


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\nabc", id="cut-in-the-body"),
        pytest.param(b"HTTP/1.1 201 Cre", id="cut-in-the-head"),
        pytest.param(b"hello\r\n\r\n", id="not-http"),
    ],
)
async def test_a_broken_answer_leaves_the_outcome_of_a_write_unknown(answer: bytes) -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(answer)

    async with raw_server(play) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(UnknownOutcomeError):
            await client.post("/x", b"{}")
        with pytest.raises(NetworkError) as caught:
            await client.get("/x", retries=0)
        assert not isinstance(caught.value, UnknownOutcomeError)


async def test_a_request_that_is_late_takes_its_connection_with_it() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.request()  # never answers the first one
        peer.say(OK)

    async with raw_server(play) as server, pool_of(server) as pool:
        with pytest.raises(TimeoutError):
            await pool.send(POST, NO_LISTENER, 0.5)
        assert await server.ended.get() == 0
        assert (await pool.send(POST, NO_LISTENER, SECONDS)).status == 200


async def test_a_short_deadline_is_kept_while_a_long_one_runs() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        await peer.request()

    async with raw_server(play) as server, pool_of(server) as pool:
        long = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
        with pytest.raises(TimeoutError):
            await pool.send(POST, NO_LISTENER, 0.05)
        assert not long.done()
        long.cancel()
        await asyncio.wait({long})


async def test_the_answer_to_a_cancelled_request_goes_to_nobody() -> None:
    arrived, go = asyncio.Event(), asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            arrived.set()
            await go.wait()
            peer.say(b"HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n")
        peer.say(OK)
        await peer.request()

    async with raw_server(play) as server, pool_of(server) as pool:
        cancelled = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
        await arrived.wait()
        cancelled.cancel()
        await asyncio.wait({cancelled})
        go.set()
        assert (await pool.send(POST, NO_LISTENER, SECONDS)).body == b"ok"
        assert len(server.peers) == 2


@pytest.mark.parametrize("turns", range(12))
async def test_a_request_that_is_cancelled_at_any_moment_leaves_no_connection_behind(turns: int) -> None:
    async def never_answers(peer: Peer) -> None:
        await peer.request()
        await peer.request()

    async with raw_server(never_answers) as server, pool_of(server) as pool:
        sent = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
        for _ in range(turns):
            await asyncio.sleep(0)
        sent.cancel()
        await asyncio.wait({sent})
        async with asyncio.timeout(SECONDS):
            while pool.connections or len(server.peers) > server.ended.qsize():  # noqa: ASYNC110  # turns of the loop
                await asyncio.sleep(0)


async def test_an_answer_that_ends_with_the_connection_is_an_answer() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(b"HTTP/1.0 200 OK\r\n\r\nall of it")

    async with raw_server(play) as server, pool_of(server) as pool:
        assert (await pool.send(GET, NO_LISTENER, SECONDS)).body == b"all of it"


async def test_a_large_answer_comes_whole() -> None:
    body = b"0123456789abcdef" * 300_000

    async with scripted_server(reply(body)) as server, APIClient(plain_connection(server.url)) as client:
        assert await client.get("/x") == body
        assert await client.post("/x", body) == body


async def test_closing_fails_what_is_under_way_and_what_is_being_connected() -> None:
    arrived = asyncio.Event()

    async def play(peer: Peer) -> None:
        await peer.request()
        arrived.set()
        await peer.request()

    async with raw_server(play) as server:
        async with pool_of(server) as pool:
            sent = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
            await arrived.wait()
            connecting = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
            await asyncio.sleep(0)
        with pytest.raises(ConnectionAbortedError):
            await sent
        with pytest.raises(NotSentError):
            await connecting


async def test_a_connection_that_is_made_after_the_pool_was_closed_is_cut() -> None:
    async with raw_server() as server, pool_of(server) as pool:
        connecting = asyncio.ensure_future(pool.send(POST, NO_LISTENER, SECONDS))
        await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(NotSentError, match="being closed"):
            await connecting
        async with asyncio.timeout(SECONDS):
            assert await server.ended.get() == 0


async def test_a_server_that_does_not_take_what_was_sent_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It answers before it has read the body: a close in good order would wait until it has."""
    monkeypatch.setattr(http_pool, "_CLOSE_SECONDS", 0.01)

    async def answers_unread(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.say(OK)
        await asyncio.Event().wait()

    async with raw_server(answers_unread) as server:
        pool = HTTPPool(plain_connection(server.url))
        large = HttpRequest("POST", "/x", b"x" * 20_000_000, "application/json")
        assert (await pool.send(large, NO_LISTENER, SECONDS)).status == 200
        await pool.close()
        async with asyncio.timeout(SECONDS):
            while pool.connections:  # noqa: ASYNC110  # the loop's next turns bring the news
                await asyncio.sleep(0)


async def test_a_server_that_does_not_answer_the_handshake_was_sent_nothing() -> None:
    async def silent(peer: Peer) -> None:
        await peer.reader.read()

    async with raw_server(silent) as server:
        url = server.url.replace("http:", "https:")
        async with pool_of(Connection(url, "test", FixedCredentials(), TLSContexts(TLSFiles()))) as pool:
            with pytest.raises(NotSentError, match="within"):
                await pool.send(POST, NO_LISTENER, 0.05)


async def test_tls_towards_a_server_without_is_not_sent() -> None:
    async def play(peer: Peer) -> None:
        await peer.reader.read(1)
        peer.say(b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")

    async with raw_server(play) as server:
        url = server.url.replace("http:", "https:")
        async with pool_of(Connection(url, "test", FixedCredentials(), TLSContexts(TLSFiles()))) as pool:
            with pytest.raises(NotSentError):
                await pool.send(POST, NO_LISTENER, SECONDS)


async def test_a_token_that_cannot_be_sent_is_not_sent_and_not_reported() -> None:
    async with raw_server() as server, pool_of(server) as pool:
        with pytest.raises(CredentialsError) as caught:
            await pool.send(POST, {"Authorization": "Bearer secret\r\nX: y"}, SECONDS)
        assert "secret" not in str(caught.value)
        assert server.peers == []


async def test_a_server_that_closes_at_once_leaves_nobody_waiting() -> None:
    """Whether the close or the request is noticed first is a race; both have an outcome."""

    async def play(peer: Peer) -> None:
        peer.reset()

    async with raw_server(play) as server, pool_of(server) as pool:
        for _ in range(20):
            with pytest.raises((NotSentError, MalformedResponseError, OSError)):
                await pool.send(POST, NO_LISTENER, SECONDS)
        assert server.requests == 0


async def test_a_host_that_is_no_host_is_not_sent() -> None:
    async with pool_of(plain_connection(f"http://{'x' * 70}.invalid:1")) as pool:
        with pytest.raises(NotSentError):
            await pool.send(POST, NO_LISTENER, SECONDS)


# --- TLS, URLs, proxies ---------------------------------------------------------------------------------------------


async def test_connections_over_tls_are_kept_and_closed_in_good_order() -> None:
    async with raw_server(tls=server_side("first")) as server:
        contexts = TLSContexts(TLSFiles(authority=str(CERTIFICATES / "first.crt")))
        async with pool_of(Connection(server.url, "test", FixedCredentials(), contexts)) as pool:
            for _ in range(3):
                assert (await pool.send(POST, NO_LISTENER, SECONDS)).body == b"ok"
        await server.ended.get()
        assert [peer.requests for peer in server.peers] == [3]


async def test_a_write_that_got_no_answer_over_tls_has_an_unknown_outcome() -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(OK)
        await peer.request()

    async with raw_server(play, server_side("first")) as server:
        contexts = TLSContexts(TLSFiles(authority=str(CERTIFICATES / "first.crt")))
        async with pool_of(Connection(server.url, "test", FixedCredentials(), contexts)) as pool:
            await pool.send(POST, NO_LISTENER, SECONDS)
            with pytest.raises((MalformedResponseError, OSError)):
                await pool.send(POST, NO_LISTENER, SECONDS)
        assert server.requests == 2


async def test_new_certificates_take_new_connections() -> None:
    async with raw_server(tls=server_side("first")) as server:
        contexts = TLSContexts(TLSFiles(authority=str(CERTIFICATES / "first.crt")))
        async with pool_of(Connection(server.url, "test", FixedCredentials(), contexts)) as pool:
            await pool.send(POST, NO_LISTENER, SECONDS)
            contexts.follow(TLSFiles(verify=False))
            await pool.send(POST, NO_LISTENER, SECONDS)
            await pool.send(POST, NO_LISTENER, SECONDS)
        assert [peer.requests for peer in server.peers] == [1, 2]


async def test_a_path_in_the_servers_url_comes_first() -> None:
    async with (
        scripted_server(reply(b"ok")) as server,
        APIClient(plain_connection(f"{server.url}/k8s/clusters/c-1")) as client,
    ):
        await client.get("/api/v1/x", {"a": "b c"})
        assert server.requests[0].path == "/k8s/clusters/c-1/api/v1/x"
        assert server.requests[0].headers["Host"] == server.url.removeprefix("http://")


async def test_a_host_name_is_resolved() -> None:
    async with (
        raw_server() as server,
        pool_of(plain_connection(server.url.replace("127.0.0.1", "localhost"))) as pool,
    ):
        assert (await pool.send(POST, NO_LISTENER, SECONDS)).body == b"ok"


async def test_behind_a_proxy_requests_go_through_it() -> None:
    async with scripted_server(reply(b"ok"), reply(b"conflict", 409, Retry_After="3")) as proxy:
        connection = Connection("http://server.invalid:8080", "test", FixedCredentials("Bearer t"), proxy=proxy.url)
        async with APIClient(connection) as client:
            assert await client.post("/x", b"{}") == b"ok"
            with pytest.raises(Exception, match="409") as caught:
                await client.post("/x", b"{}")
        assert getattr(caught.value, "retry_after_seconds") == 3  # noqa: B009  # pytest.raises knows no more of it
        assert proxy.requests[0].headers["Host"] == "server.invalid:8080"
        assert proxy.requests[0].headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize(
    ("url", "proxy", "can"),
    [
        pytest.param("https://host:6443", None, True, id="plain"),
        pytest.param("https://[::1]:6443/prefix", None, True, id="address-and-prefix"),
        pytest.param("https://host:6443", "http://proxy:3128", False, id="proxy"),
        pytest.param("https://user:password@host:6443", None, False, id="password-in-the-url"),
    ],
)
async def test_what_is_unusual_is_left_to_aiohttp(url: str, proxy: str | None, can: bool) -> None:
    assert HTTPPool.can_serve(Connection(url, "test", FixedCredentials(), proxy=proxy)) is can
