"""A client that is too slow, too many or too large loses its connection, and probes are answered all the while."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from kscheduler.server import Limits
from kscheduler.telemetry.samples import Numbers
from tests.server.site import Site, StartSite

GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"


async def closed_by_server(reader: asyncio.StreamReader) -> bytes:
    """What the server sent until it closed; a test that waits here forever is ended by its timeout."""
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /liv", id="half-a-line"),
        pytest.param(GET, id="no-end-of-head"),
        pytest.param(b"\r\n\r\n\r\n", id="empty-lines"),
    ],
)
async def test_half_a_request_is_closed_after_its_time(start_site: StartSite, sent: bytes) -> None:
    site = await start_site(Limits(head_seconds=0.1))
    async with site.raw() as (reader, writer):
        writer.write(sent)
        assert await closed_by_server(reader) == b""


async def test_dripping_bytes_does_not_extend_the_time_for_a_head(start_site: StartSite) -> None:
    site = await start_site(Limits(head_seconds=0.2))
    async with site.raw() as (reader, writer):
        ended = asyncio.create_task(closed_by_server(reader))
        writer.write(GET)
        for _ in range(1000):
            writer.write(b"X-A: b\r\n")
            done, _ = await asyncio.wait({ended}, timeout=0.02)
            if done:
                break
        assert ended.done()
        assert await ended == b""


async def test_half_a_second_request_is_closed_after_the_time_for_a_head_too(start_site: StartSite) -> None:
    site = await start_site(Limits(head_seconds=0.3, idle_seconds=60.0))
    async with site.raw() as (reader, writer):
        writer.write(GET + b"\r\n")
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")
        writer.write(b"GET /liv")
        assert await closed_by_server(reader) == b""


async def test_a_connection_is_reused_and_closed_when_idle_too_long(start_site: StartSite) -> None:
    site = await start_site(Limits(idle_seconds=0.5))
    async with site.raw() as (reader, writer):
        for _ in range(3):
            writer.write(GET + b"\r\n")
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")
        assert await closed_by_server(reader) == b""


async def test_pipelined_requests_are_all_answered(site: Site) -> None:
    async with site.raw() as (reader, writer):
        writer.write((GET + b"\r\n") * 5)
        for _ in range(5):
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")


async def test_a_probe_gets_through_while_all_places_are_held_by_half_sent_requests(start_site: StartSite) -> None:
    site = await start_site(Limits(connections=10, head_seconds=60.0))
    async with AsyncExitStack() as held:
        for _ in range(10):
            _, writer = await held.enter_async_context(site.raw())
            writer.write(b"GET /livez HTTP/1.1\r\n")
        assert await site.text("/livez") == (200, "ok")
        assert site.server.connections <= 10


async def test_the_place_is_taken_from_who_has_waited_longest(start_site: StartSite) -> None:
    site = await start_site(Limits(connections=2, head_seconds=60.0))
    async with site.raw() as (first_reader, first), site.raw() as (second_reader, second):
        for reader, writer in ((first_reader, first), (second_reader, second), (first_reader, first)):
            writer.write(GET + b"\r\n")
            await reader.readuntil(b"\r\n\r\nok")
        assert await site.text("/livez") == (200, "ok")
        assert await closed_by_server(second_reader) == b""
        first.write(GET + b"\r\n")
        assert b"200 OK" in await first_reader.readuntil(b"\r\n\r\nok")


async def test_who_has_had_an_answer_gives_its_place_up_before_who_still_asks(start_site: StartSite) -> None:
    site = await start_site(Limits(connections=2, head_seconds=60.0))
    async with site.raw() as (querying_reader, querying), site.raw() as (answered_reader, answered):
        querying.write(GET)
        answered.write(GET + b"\r\n")
        await answered_reader.readuntil(b"\r\n\r\nok")
        assert await site.text("/livez") == (200, "ok")
        assert await closed_by_server(answered_reader) == b""
        querying.write(b"\r\n")
        assert b"200 OK" in await querying_reader.readuntil(b"\r\n\r\nok")


async def test_a_head_that_is_too_large_is_refused(start_site: StartSite) -> None:
    site = await start_site(Limits(head_bytes=4096))
    async with site.raw() as (reader, writer):
        writer.write(GET)
        for i in range(100):
            writer.write(b"X-%d: %s\r\n" % (i, b"y" * 100))
        assert (await closed_by_server(reader)).startswith(b"HTTP/1.1 431 ")


async def test_a_head_just_below_the_limit_is_served_however_it_is_cut(start_site: StartSite) -> None:
    site = await start_site(Limits(head_bytes=1024))
    head = GET + b"X-Long: " + b"y" * 900 + b"\r\n\r\n"
    for cut in range(len(head) - 6, len(head)):
        async with site.raw() as (reader, writer):
            writer.write(head[:cut])
            await writer.drain()
            await site.text("/livez")  # meanwhile the first piece has been read
            writer.write(head[cut:])
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\nok")


async def test_a_body_that_says_it_is_too_long_is_refused_and_the_connection_ends(site: Site) -> None:
    async with site.client.post("/livez", data=b"x" * 100_000) as response:
        assert response.status == 413
        assert response.headers["Connection"] == "close"
        reported = await response.json()
    assert (reported["reason"], reported["code"]) == ("RequestEntityTooLarge", 413)
    assert reported["message"] == "the body of 100000 bytes is larger than the limit of 65536"


async def test_a_body_is_never_taken_for_the_next_request(site: Site) -> None:
    async with site.raw() as (reader, writer):
        smuggled = b"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled))
        writer.write(smuggled)
        answer = await closed_by_server(reader)
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_a_body_that_never_comes_does_not_hold_the_connection(start_site: StartSite) -> None:
    site = await start_site(Limits(head_seconds=0.2))
    async with site.raw() as (reader, writer):
        writer.write(GET + b"Content-Length: 60000\r\n\r\nhalf")
        assert b"200 OK" in await closed_by_server(reader)


async def test_who_does_not_read_the_answer_loses_the_connection(start_site: StartSite) -> None:
    site = await start_site(Limits(answer_seconds=0.3, idle_seconds=0.5))
    for number in range(2000):
        site.observations.extension_point("Filter", "Success", f"profile-{number}", 0.001)
    async with site.raw() as (reader, writer):
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a StreamWriter's transport also reads
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 8)
        async with asyncio.timeout(20):
            while not site.exposition.renderings or site.server.connections > 1:  # the one of these probes stays
                assert await site.text("/livez") == (200, "ok")
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        received = await closed_by_server(reader)
    whole = (await site.exposition.render()).body
    assert len(received) < 8 * len(whole)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50, id="tls-hello"),
        pytest.param(b"GET\r\n\r\n", id="no-path"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="unknown-version"),
        pytest.param(GET + b"Content-Length: x\r\n\r\n", id="length-is-no-number"),
        pytest.param(GET + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", id="two-lengths"),
    ],
)
async def test_garbage_is_refused_and_the_server_goes_on(site: Site, sent: bytes) -> None:
    async with site.raw() as (reader, writer):
        writer.write(sent)
        answer = await closed_by_server(reader)
        assert answer == b"" or answer.split(b" ")[1] == b"400"
    assert await site.text("/livez") == (200, "ok")


def closed(site: Site) -> dict[str, float]:
    """How many connections the server closed, by reason, without those that it did not."""
    (numbers,) = [
        sample
        for sample in site.server.samples()
        if isinstance(sample, Numbers) and sample.series.labels == ("reason",)
    ]
    return {reason: count for (reason,), count in numbers.values.items() if count}


async def test_a_connection_that_was_too_slow_is_counted(start_site: StartSite) -> None:
    site = await start_site(Limits(head_seconds=0.1))
    async with site.raw() as (reader, _):
        await closed_by_server(reader)
    assert closed(site) == {"timeout": 1}


async def test_a_connection_that_was_too_large_is_counted(start_site: StartSite) -> None:
    site = await start_site(Limits(head_bytes=512))
    async with site.raw() as (reader, writer):
        writer.write(b"X" * 600)
        await closed_by_server(reader)
    assert closed(site) == {"too_large": 1}


async def test_a_connection_that_was_displaced_is_counted_in_the_exposition(start_site: StartSite) -> None:
    site = await start_site(Limits(connections=1))
    site.exposition.add(site.server.samples)
    async with site.raw() as (reader, _):
        _, text = await site.text("/metrics")
        await closed_by_server(reader)
    assert 'kscheduler_http_connections_closed_total{reason="displaced"} 1.0\n' in text
