"""What is no HTTP is refused with 400 in a word, counted, and told once a minute, however much of it comes."""

import logging

import pytest
import structlog

from kscheduler.aio import VirtualClock
from kscheduler.server import Limits
from kscheduler.server.malformed import MalformedRequests
from kscheduler.telemetry.samples import Numbers
from tests.server.site import Site, StartSite
from tests.server.test_limits import closed_by_server

MALFORMED = [
    pytest.param(b"GET /livez HTTP/1.1\r\n\r\n", id="no-host"),
    pytest.param(b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", id="two-hosts"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 50, id="tls-hello"),
    pytest.param(bytes(range(256)) + b"\r\n\r\n", id="binary"),
    pytest.param(b"G(T /livez HTTP/1.1\r\nHost: x\r\n\r\n", id="method-that-is-none"),
    pytest.param(b"GET\r\n\r\n", id="no-path"),
    pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="unknown-version"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="http2"),
    pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nNo colon here\r\n\r\n", id="header-without-colon"),
    pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", id="length-is-no-number"),
    pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nA: " + b"y" * 9000 + b"\r\n\r\n", id="long-header"),
]


@pytest.mark.parametrize("sent", MALFORMED)
async def test_the_answer_is_400_and_reports_nothing_about_the_server(
    site: Site, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as lines:
        async with site.raw() as (reader, writer):
            writer.write(sent)
            answer = await closed_by_server(reader)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert body == b"400: Bad Request\n"
    assert b"Server: kscheduler" in head
    assert b"Python" not in answer
    assert b"aiohttp" not in answer
    assert [line["event"] for line in lines] == ["malformed_http_requests"]
    assert not caplog.records, "aiohttp has nothing to add"
    assert await site.text("/livez") == (200, "ok")


async def test_a_thousand_requests_without_a_host_are_one_line(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as lines:
        for _ in range(1000):
            async with site.raw() as (reader, writer):
                writer.write(b"GET /livez HTTP/1.1\r\n\r\n")
                await closed_by_server(reader)
    assert len(lines) + len(caplog.records) == 1
    assert "Host" in lines[0]["last_reason"]
    (counted,) = [one for one in site.server.samples() if isinstance(one, Numbers) and "malformed" in one.series.name]
    assert counted.values == {(): 1000}


async def test_lines_come_once_a_minute_and_report_how_many_there_were() -> None:
    clock = VirtualClock()
    malformed = MalformedRequests(clock)
    with structlog.testing.capture_logs() as lines:
        for _ in range(180):
            malformed.note("127.0.0.1", "Missing 'Host' header\x1b[2J\n in request")
            await clock.advance(1.0)
    assert [line["count"] for line in lines] == [1, 60, 60]
    assert lines[0]["last_peer"] == "127.0.0.1"
    assert lines[0]["last_reason"] == "Missing 'Host' header [2J  in request"


async def test_half_a_request_that_is_given_up_is_no_line(start_site: StartSite) -> None:
    site = await start_site(Limits(head_seconds=0.1))
    with structlog.testing.capture_logs() as lines:
        async with site.raw() as (reader, writer):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")
            await closed_by_server(reader)
    assert lines == []


async def test_http_1_0_needs_no_host(site: Site) -> None:
    async with site.raw() as (reader, writer):
        writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
        assert (await closed_by_server(reader)).startswith(b"HTTP/1.0 200 ")


async def test_a_compressed_body_that_is_none_is_refused_without_a_line(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Left to itself, aiohttp unpacks it while it throws it away, and logs a traceback."""
    with caplog.at_level(logging.WARNING), structlog.testing.capture_logs() as lines:
        async with site.raw() as (reader, writer):
            head = b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 8\r\n\r\n"
            writer.write(head + b"nonsense")
            assert b" 415 " in await closed_by_server(reader)
    assert lines == []
    assert not caplog.records
