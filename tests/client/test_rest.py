"""REST manners: what is retried, what is not, and what an error lets the caller conclude."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import web

from kscheduler.aio import TokenBucket, VirtualClock
from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.access.credentials import TokenFile
from kscheduler.client.errors import (
    APIError,
    ForeignResponseError,
    NetworkError,
    NotSentError,
    StalledError,
    UnknownOutcomeError,
)
from kscheduler.client.failure_text import network_error
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import APIClient
from kscheduler.client.retry_after import LONGEST_RETRY_AFTER_SECONDS
from tests.client.scripted import lines, reply, scripted_server, stall, vanish

STATUS = '{"kind":"Status","code":%d,"reason":"%s","message":"%s"}'


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_request_carries_body_type_and_user_agent_and_little_else() -> None:
    async with (
        scripted_server(reply(b'{"ok":1}', status=201)) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        assert await client.post("/api/v1/x?dryRun=All", b'{"a":1}') == b'{"ok":1}'
        request = server.requests[0]
        assert (request.method, request.path, request.query, request.body) == (
            "POST",
            "/api/v1/x",
            {"dryRun": "All"},
            b'{"a":1}',
        )
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["User-Agent"].startswith("kscheduler/")
        assert set(request.headers) == {"Host", "User-Agent", "Accept", "Content-Type", "Content-Length"}


async def test_a_refusal_reports_code_reason_message_causes() -> None:
    body = STATUS % (422, "Invalid", "no") + ""
    body = body[:-1] + ',"details":{"causes":[{"reason":"FieldValueRequired","message":"m","field":"spec.x"}]}}'
    async with scripted_server(reply(body, status=422)) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(APIError) as caught:
            await client.put("/api/v1/x", b"{}")
    error = caught.value
    assert (error.code, error.reason, error.message, error.causes[0].field) == (422, "Invalid", "no", "spec.x")
    assert error.is_invalid
    assert not error.is_conflict


@pytest.mark.parametrize(
    ("code", "reason", "predicate"),
    [
        pytest.param(409, "Conflict", "is_conflict", id="conflict"),
        pytest.param(409, "AlreadyExists", "is_already_exists", id="already exists"),
        pytest.param(404, "NotFound", "is_not_found", id="not found"),
        pytest.param(410, "Expired", "is_gone", id="gone"),
        pytest.param(403, "Forbidden", "is_forbidden", id="forbidden"),
        pytest.param(500, "InternalError", "is_server_error", id="server error"),
        pytest.param(504, "Timeout", "is_timeout", id="timeout"),
    ],
)
async def test_a_refusal_without_retry_after_is_not_retried(code: int, reason: str, predicate: str) -> None:
    async with scripted_server(reply(STATUS % (code, reason, "x"), code)) as server:
        async with APIClient(plain_connection(server.url)) as client:
            with pytest.raises(APIError) as caught:
                await client.post("/x", b"{}")
        assert len(server.requests) == 1
    assert getattr(caught.value, predicate)


async def test_a_refusal_that_is_no_status_becomes_one_line() -> None:
    page = reply(b"upstream\nis away", 502)
    async with scripted_server(page) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(APIError, match=r"502 BadGateway: upstream is away \(POST /x\)"):
            await client.post("/x", b"{}")


async def test_a_proxys_page_is_reported_by_its_title() -> None:
    page = reply(b"<html><head><title>503 Service\nTemporarily Away</title></head><body>long</body></html>", 503)
    async with scripted_server(page) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(APIError, match=r"an HTML page \(503 Service Temporarily Away\) in place of an answer"):
            await client.post("/x", b"{}")


@pytest.mark.parametrize("code", [pytest.param(429, id="throttled"), pytest.param(503, id="unavailable")])
async def test_retry_after_is_honoured_to_the_second_even_for_writes(code: int) -> None:
    clock = VirtualClock()
    busy = reply(STATUS % (code, "", "busy"), code, Retry_After="7")
    async with (
        scripted_server(busy, busy, reply(b"done")) as server,
        APIClient(plain_connection(server.url), clock=clock) as client,
    ):
        posting = asyncio.create_task(client.post("/x", b"{}"))
        waits = [await clock.run_to_next(), await clock.run_to_next()]
        assert await posting == b"done"
        assert waits == [7.0, 7.0]
        assert client.statistics().throttled == (2 if code == 429 else 0)
        assert client.statistics().retries == 2


async def test_after_ten_retries_the_refusal_comes_out() -> None:
    clock = VirtualClock()
    async with scripted_server(reply(STATUS % (429, "", "busy"), 429, Retry_After="1")) as server:
        async with APIClient(plain_connection(server.url), clock=clock) as client:
            posting = asyncio.create_task(client.post("/x", b"{}"))
            for _ in range(10):
                await clock.run_to_next()
            with pytest.raises(APIError) as caught:
                await posting
        assert caught.value.is_too_many_requests
        assert len(server.requests) == 11


async def test_a_request_is_not_held_for_an_hour_because_a_proxy_says_so() -> None:
    clock = VirtualClock()
    busy = reply(STATUS % (429, "", "busy"), 429, Retry_After="3600")
    async with (
        scripted_server(busy, reply(b"done")) as server,
        APIClient(plain_connection(server.url), clock=clock) as client,
    ):
        getting = asyncio.create_task(client.get("/x"))
        assert await clock.run_to_next() == LONGEST_RETRY_AFTER_SECONDS
        assert await getting == b"done"


async def test_a_refused_connection_is_certainly_not_sent() -> None:
    async with APIClient(plain_connection(f"http://127.0.0.1:{closed_port()}")) as client:
        with pytest.raises(NotSentError):
            await client.post("/x", b"{}")
        assert not await client.is_reachable()
        assert client.statistics().requests == {("<error>", "POST"): 1}


async def test_a_write_whose_answer_is_lost_has_an_unknown_outcome_and_is_not_repeated() -> None:
    async with scripted_server(vanish) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(UnknownOutcomeError):
            await client.post("/x", b"{}")
        assert len(server.requests) == 1


async def test_a_write_that_times_out_has_an_unknown_outcome() -> None:
    async with scripted_server(stall) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(UnknownOutcomeError):
            await client.patch("/x", b"{}", timeout_seconds=0.05)


async def test_a_request_that_waits_for_its_place_is_not_lost_meanwhile() -> None:
    """Else hundreds of preemptions that share a few connections would take each other's patches for lost."""
    async with (
        scripted_server(stall, reply(b'{"ok":1}')) as server,
        APIClient(plain_connection(server.url), max_connections=1, timeout_seconds=0.3) as client,
    ):
        first = asyncio.ensure_future(client.post("/api/v1/x", b"{}"))
        second = asyncio.ensure_future(client.post("/api/v1/y", b"{}"))
        assert await second == b'{"ok":1}'
        with pytest.raises(UnknownOutcomeError):
            await first


async def test_a_read_is_repeated_when_the_connection_breaks() -> None:
    clock = VirtualClock()
    async with scripted_server(vanish, reply(b"here")) as server:
        async with APIClient(plain_connection(server.url), clock=clock) as client:
            reading = asyncio.create_task(client.get("/x", {"a": "b c"}, retries=1))
            assert await clock.run_to_next() == 1.0
            assert await reading == b"here"
        assert server.requests[-1].query == {"a": "b c"}


async def test_a_rotated_token_is_read_at_once_when_the_server_refuses_the_old_one(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    async with scripted_server(reply(b"{}"), reply(STATUS % (401, "", ""), 401), reply(b"ok")) as server:
        connection = Connection(server.url, "test", TokenFile(str(token), VirtualClock()))
        async with APIClient(connection) as client:
            await client.get("/a")
            token.write_text("new\n")
            assert await client.post("/b", b"{}") == b"ok"
        assert [request.headers["Authorization"] for request in server.requests] == [
            "Bearer old",
            "Bearer old",
            "Bearer new",
        ]


async def test_a_token_is_read_again_each_minute_less_ten_seconds(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", VirtualClock()
    token.write_text("old")
    credentials = TokenFile(str(token), clock)
    token.write_text("new")
    await clock.advance(49)
    assert await credentials.authorization() == "Bearer old"
    await clock.advance(1)
    assert await credentials.authorization() == "Bearer new"
    token.unlink()
    await clock.advance(60)
    assert await credentials.authorization() == "Bearer new"


async def test_headers_are_current_until_the_token_is_due_to_be_read(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", VirtualClock()
    token.write_text("old")
    connection = Connection("http://127.0.0.1:1", "x", TokenFile(str(token), clock))
    assert connection.current_headers() is None  # nobody has asked yet
    headers = await connection.headers()
    await clock.advance(49)
    assert connection.current_headers() is headers
    token.write_text("new")
    await clock.advance(1)
    assert connection.current_headers() is None
    renewed = await connection.headers()
    assert renewed == {"Authorization": "Bearer new"}
    assert connection.current_headers() is renewed


async def test_a_token_that_was_rotated_is_sent_without_a_refusal(tmp_path: Path) -> None:
    token, clock = tmp_path / "token", VirtualClock()
    token.write_text("old")
    async with scripted_server(reply(b"ok")) as server:
        connection = Connection(server.url, "x", TokenFile(str(token), clock))
        async with APIClient(connection, clock=clock) as client:
            await client.get("/version")
            token.write_text("new")
            await clock.advance(50)
            await client.get("/version")
            await client.get("/version")
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer old",
        "Bearer new",
        "Bearer new",
    ]


async def test_credentials_that_stay_refused_come_out_as_401_after_one_retry_at_most() -> None:
    async with scripted_server(reply(STATUS % (401, "", "who"), 401)) as server:
        async with APIClient(plain_connection(server.url)) as client:
            with pytest.raises(APIError) as caught:
                await client.get("/x")
        assert caught.value.is_unauthorized
        assert len(server.requests) == 1


async def test_the_bucket_spaces_requests() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(2.0, 1, clock)
    async with scripted_server(reply()) as server, APIClient(plain_connection(server.url), bucket=bucket) as client:
        await client.get("/1")
        second = asyncio.create_task(client.get("/2"))
        assert await clock.next_sleep() == pytest.approx(0.5)
        assert len(server.requests) == 1
        await clock.advance(0.5)
        await second


async def test_a_stream_yields_whole_lines_however_they_are_cut() -> None:
    big = "x" * 5_000_000
    async with (
        scripted_server(lines('{"a', '":1}\n\n{"b":2}\n{"c"', f':"{big}"}}\n')) as server,
        APIClient(plain_connection(server.url)) as client,
        client.stream("/w", {"watch": "true"}) as stream,
    ):
        assert client.statistics().watches == 1
        got = [line async for batch in stream for line in batch]
    assert got[:2] == [b'{"a":1}', b'{"b":2}']
    assert len(got[2]) == len(big) + 8


async def read_to_the_end(client: APIClient, inactivity_seconds: float = 70.0) -> None:
    async with client.stream("/w", {}, inactivity_seconds=inactivity_seconds) as stream:
        async for _ in stream:
            pass


async def test_a_silent_stream_is_given_up() -> None:
    async with (
        scripted_server(lines("{}\n", then=asyncio.Event().wait)) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        with pytest.raises(StalledError):
            await read_to_the_end(client, inactivity_seconds=0.05)
        assert client.statistics().watches == 0


async def test_a_silent_stream_is_no_outage() -> None:
    """It may be quiet. Whether somebody is there shows when it is opened again."""
    clock = VirtualClock()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())
    async with (
        scripted_server(lines("{}\n", then=asyncio.Event().wait)) as server,
        APIClient(plain_connection(server.url), clock=clock, reachability=reachability) as client,
    ):
        with pytest.raises(StalledError):
            await read_to_the_end(client, inactivity_seconds=0.05)
    assert [*reachability.lines(clock.monotonic() + 5.0)] == []


async def test_an_outage_is_as_long_as_the_first_request_has_had_no_answer() -> None:
    clock = VirtualClock()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())
    async with (
        scripted_server(stall, stall) as server,
        APIClient(plain_connection(server.url), clock=clock, reachability=reachability) as client,
    ):
        renewal = asyncio.create_task(client.put("/lease", b"{}"))
        await asyncio.sleep(0.1)
        await clock.advance(5.0)
        renewal.cancel()
        await asyncio.wait({renewal})
        with pytest.raises(StalledError):
            await client.get("/readyz", retries=0, timeout_seconds=0.1)
    await clock.advance(2.0)
    assert reachability.statistics(clock.monotonic()).unreachable_seconds == 7.0


@pytest.mark.parametrize("is_watch", [False, True], ids=["request", "watch"])
@pytest.mark.parametrize(("status", "failure"), [(200, ForeignResponseError), (500, APIError)])
async def test_an_answer_that_comes_late_and_is_none_dates_the_outage_too(
    status: int, failure: type[Exception], *, is_watch: bool
) -> None:
    """A page of a load balancer, for example."""
    clock, is_due = VirtualClock(), asyncio.Event()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())

    async def late(_request: web.Request) -> web.StreamResponse:
        await is_due.wait()
        return web.Response(body=b"<html>", status=status, content_type="text/html")

    async with (
        scripted_server(late) as server,
        APIClient(plain_connection(server.url), clock=clock, reachability=reachability) as client,
    ):
        asked = asyncio.create_task(read_to_the_end(client) if is_watch else client.get("/api", retries=0))
        await asyncio.sleep(0.1)
        await clock.advance(5.0)
        is_due.set()
        with pytest.raises(failure):
            await asked
    await clock.advance(2.0)
    assert reachability.statistics(clock.monotonic()).unreachable_seconds == 7.0


async def test_a_stream_that_is_cut_is_a_network_error() -> None:
    async with scripted_server(lines("{}\n{", cut=True)) as server, APIClient(plain_connection(server.url)) as client:
        with pytest.raises(NetworkError):
            await read_to_the_end(client)


async def test_a_refused_stream_is_an_api_error_with_retry_after() -> None:
    async with (
        scripted_server(reply(STATUS % (429, "", "busy"), 429, Retry_After="3")) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        with pytest.raises(APIError) as caught:
            async with client.stream("/w", {}):
                pass
    assert caught.value.retry_after_seconds == 3


async def test_durations_and_codes_are_counted() -> None:
    async with (
        scripted_server(reply(), reply(status=404), reply()) as server,
        APIClient(plain_connection(server.url)) as client,
    ):
        await client.get("/x")
        with pytest.raises(APIError):
            await client.get("/x")
        await client.post("/x", b"")
        statistics = client.statistics()
    assert statistics.requests == {("200", "GET"): 1, ("404", "GET"): 1, ("200", "POST"): 1}
    assert sum(statistics.durations["GET"].counts) == 2
    assert statistics.durations["GET"].total > 0


def test_an_unknown_failure_of_a_write_is_never_called_safe() -> None:
    assert type(network_error(OSError("odd"), "POST", "/x")) is UnknownOutcomeError
    assert type(network_error(OSError("odd"), "GET", "/x")) is NetworkError
