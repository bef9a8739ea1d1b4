"""Each row of the table of causes: its symptom, made for real where that can be done, proves its cause and no other."""

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

from kscheduler.aio import VirtualClock
from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.errors import (
    APIError,
    APIStatus,
    ClientError,
    CredentialsError,
    ForeignResponseError,
    NotSentError,
    status_of,
)
from kscheduler.client.http.over_aiohttp import our_error
from kscheduler.client.outage_cause import TABLE, Cause, Evidence, cause_of_failure, cause_of_refusal
from kscheduler.client.reachability import APIServerReachability, LogLine
from kscheduler.client.rest import APIClient
from tests.client.scripted import reply, scripted_server
from tests.client.test_outage_cause import get, post, watch

RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text()
Ask = Callable[[APIClient], Awaitable[object]]
ASKS = [pytest.param(get, id="get"), pytest.param(post, id="post"), pytest.param(watch, id="watch")]
READS = [pytest.param(get, id="get"), pytest.param(watch, id="watch")]


def caused_by(outer: Exception, cause: BaseException) -> Exception:
    outer.__cause__ = cause
    return outer


def tls(text: str) -> ssl.SSLError:
    return ssl.SSLError(1, text)


def refusal(code: int, body: str = '{"kind":"Status","message":"m"}') -> APIError:
    return APIError(status_of(code, body.encode()))


def broken(rule: aiohttp.http_exceptions.HttpProcessingError) -> Exception:
    """As aiohttp raises it, in our words."""
    error = aiohttp.ClientPayloadError("x")
    error.__cause__ = rule
    return our_error(error)


PROXY_KEY = ConnectionKey("h", 1, is_ssl=False, ssl=True, proxy=None, proxy_auth=None, proxy_headers_hash=None)
ROWS: list[tuple[str, BaseException | APIError]] = [
    ("too many open files", OSError(errno.EMFILE, "x")),
    ("cannot allocate memory", OSError(errno.ENOBUFS, "x")),
    ("cannot assign requested address", OSError(errno.EADDRNOTAVAIL, "x")),
    ("permission denied", PermissionError(errno.EACCES, "x")),
    ("token file", CredentialsError("token file: no such file")),
    (
        "proxy of the kubeconfig",
        our_error(aiohttp.ClientProxyConnectionError(PROXY_KEY, OSError(errno.ECONNREFUSED, "x"))),
    ),
    ("name or service not known", socket.gaierror(socket.EAI_NONAME, "x")),
    ("temporary failure in name resolution", socket.gaierror(socket.EAI_AGAIN, "x")),
    ("certificate has expired", tls("certificate verify failed: certificate has expired")),
    ("certificate is not yet valid", tls("certificate verify failed: certificate is not yet valid")),
    ("hostname mismatch", tls("certificate verify failed: Hostname mismatch, certificate is not valid for 'x'")),
    ("alert `certificate expired`", tls("sslv3 alert certificate expired")),
    ("any other alert", tls("tlsv13 alert certificate required")),
    ("wrong version number", tls("[SSL: WRONG_VERSION_NUMBER] wrong version number")),
    ("Client sent an HTTP request", refusal(400, "Client sent an HTTP request to an HTTPS server.\n")),
    ("certificate verify failed", tls("certificate verify failed: unable to get local issuer certificate")),
    ("any other failure of TLS", tls("no shared cipher")),
    ("connection refused", ConnectionRefusedError(errno.ECONNREFUSED, "x")),
    ("no route to host", OSError(errno.EHOSTUNREACH, "x")),
    ("no connection within 10 s", caused_by(NotSentError("no connection"), TimeoutError())),
    ("no answer in time", TimeoutError()),
    (
        "in the middle of an answer",
        our_error(aiohttp.ClientPayloadError("Not enough data to satisfy transfer length header.")),
    ),
    ("Content-Encoding", broken(aiohttp.http_exceptions.ContentEncodingError("x"))),
    ("does not begin as HTTP", broken(aiohttp.http_exceptions.BadStatusLine("SSH-2.0"))),
    ("breaks its rules", broken(aiohttp.http_exceptions.TransferEncodingError("Invalid character in chunk size"))),
    ("a 2xx to a write", ForeignResponseError("POST /binding: 200 with a page")),
    ("whatever has no row", ConnectionResetError(errno.ECONNRESET, "x")),
    ("3xx", refusal(302, "moved")),
    ("HTML page", refusal(502, "<html><title>502</title>")),
    ("401", refusal(401)),
    ("429", refusal(429)),
    ("any other 5xx", refusal(500)),
]


@pytest.mark.parametrize(("row", "proof"), [(row, proof) for row, (proof, _) in zip(TABLE, ROWS, strict=True)])
def test_the_rows_stand_in_the_order_of_these_tests(row: object, proof: str) -> None:
    assert proof in row.proof  # type: ignore[attr-defined]


@pytest.mark.parametrize("number", range(len(TABLE)), ids=[proof for proof, _ in ROWS])
def test_a_symptom_proves_its_row_and_none_before_it(number: int) -> None:
    _, failure = ROWS[number]
    diagnosed = cause_of_refusal(failure) if isinstance(failure, APIError) else cause_of_failure(failure)
    assert diagnosed is not None
    assert (diagnosed.cause, diagnosed.advice) == (TABLE[number].cause, TABLE[number].advice)


@pytest.mark.parametrize("row", TABLE, ids=[row.proof for row in TABLE])
def test_a_reader_finds_each_row_in_the_runbook(row: object) -> None:
    section = RUNBOOK.partition("## KschedulerAPIServerUnreachable")[2].partition("\n## ")[0]
    assert f"| `{row.cause}` | {row.proof} |" in section, row.proof  # type: ignore[attr-defined]


def test_every_cause_has_a_row_and_every_failure_a_cause() -> None:
    assert {row.cause for row in TABLE} == set(Cause)
    assert cause_of_failure(ZeroDivisionError("a bug")).cause is Cause.BROKEN
    assert not Evidence().has_number(0)


@pytest.mark.parametrize("code", [403, 404, 409, 410, 422])
def test_what_the_api_server_judges_is_no_outage(code: int) -> None:
    assert cause_of_refusal(refusal(code)) is None


@pytest.mark.parametrize("code", [403, 404, 500, 503])
def test_a_page_is_never_the_api_servers_word(code: int) -> None:
    diagnosed = cause_of_refusal(refusal(code, "<html><title>Blocked</title></html>"))
    assert diagnosed is not None
    assert diagnosed.cause is Cause.PROXY


# --- symptoms made for real -------------------------------------------------------------------------------------------


async def line_of(connection: Connection, ask: Ask) -> LogLine:
    """What is logged when this request has failed and none has succeeded since."""
    clock = VirtualClock()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())
    async with APIClient(connection, clock=clock, reachability=reachability) as client:
        with pytest.raises(ClientError):
            await ask(client)
    (line,) = reachability.lines(clock.monotonic() + 5.0)
    return line


@asynccontextmanager
async def answering(raw: bytes) -> AsyncIterator[str]:
    """A server that reads a request, sends these bytes and closes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("ask", READS)
@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        pytest.param(CHUNKED + b'\r\n40\r\n{"type":', Cause.BROKEN, id="cut within a chunk"),
        pytest.param(CHUNKED + b'\r\n9\r\n{"type":\n\r\n', Cause.BROKEN, id="cut between chunks"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", Cause.BROKEN, id="cut before its length"),
        pytest.param(b"", Cause.BROKEN, id="closed before the answer"),
        pytest.param(CHUNKED + b'\r\nzz\r\n{"type":', Cause.MALFORMED, id="a chunk without a size"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 99_999 + b"\r\n\r\n", Cause.MALFORMED, id="a long header"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", Cause.NOT_HTTP, id="another protocol"),
        pytest.param(b"<html>hello</html>\r\n\r\n", Cause.NOT_HTTP, id="html without a head"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n{}\n", Cause.ENCODED, id="gzip"
        ),
        pytest.param(
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", Cause.TLS, id="https"
        ),
    ],
)
async def test_what_comes_in_place_of_an_answer_has_its_right_name(raw: bytes, cause: Cause, ask: Ask) -> None:
    async with answering(raw) as url:
        line = await line_of(plain_connection(url), ask)
    assert line.fields["cause"] == cause
    for ugly in ("^", "TransferEncodingError", "url="):
        assert ugly not in str(line.fields["err"])


@pytest.mark.parametrize("ask", ASKS)
async def test_a_redirect_is_named_with_its_target_and_without_what_is_secret_in_it(ask: Ask) -> None:
    answer = reply("", 302, Location="https://user:secret@login.example/start?token=secret#x")
    async with scripted_server(answer) as server:
        line = await line_of(plain_connection(server.url), ask)
    assert line.fields["cause"] == Cause.REDIRECT
    assert "a redirect to https://login.example/start" in str(line.fields["err"])
    assert "secret" not in str(line.fields)


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = socket.socket()
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe.fileno(), hard))
    probe.close()
    # The number that `probe` had is beyond the limit now; those below it are taken by holding them.
    held = list[socket.socket]()
    try:
        while True:
            try:
                held.append(socket.socket())
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each in held:
            each.close()


@pytest.mark.parametrize("ask", ASKS)
async def test_our_own_file_descriptors_are_not_blamed_on_load_balancers(ask: Ask) -> None:
    async with scripted_server(reply()) as server:
        clock = VirtualClock()
        reachability = APIServerReachability("api.example:6443", clock.monotonic())
        async with APIClient(plain_connection(server.url), clock=clock, reachability=reachability) as client:
            with no_descriptors_left(), pytest.raises(ClientError):
                await ask(client)
        (line,) = reachability.lines(clock.monotonic() + 5.0)
    assert line.fields["cause"] == Cause.DESCRIPTORS
    assert "too many open files" in str(line.fields["err"])
    assert "load balancer" not in str(line.fields["advice"])


def test_a_credential_that_cannot_be_opened_for_want_of_descriptors_is_not_missing() -> None:
    failure = caused_by(CredentialsError("token file: too many open files"), OSError(errno.EMFILE, "x"))
    assert cause_of_failure(failure).cause is Cause.DESCRIPTORS


def test_no_advice_is_given_twice_under_different_causes() -> None:
    by_advice: dict[str, set[Cause]] = {}
    for row in TABLE:
        by_advice.setdefault(row.advice, set()).add(row.cause)
    assert [causes for causes in by_advice.values() if len(causes) > 1] == []


def test_a_refusal_without_a_kind_is_still_judged_by_its_code() -> None:
    assert cause_of_refusal(APIError(APIStatus(code=500))) is not None


# --- new connections, while old ones live -----------------------------------------------------------------------------


def lines_of(reachability: APIServerReachability, since: int, until: int) -> list[tuple[str, object]]:
    """What is logged, while a request over a living connection succeeds each second."""
    found: list[tuple[str, object]] = []
    for second in range(since, until):
        reachability.succeeded(float(second))
        found += [(line.message, line.fields.get("cause")) for line in reachability.lines(float(second))]
    return found


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        pytest.param(socket.gaierror(socket.EAI_AGAIN, "x"), Cause.NAME_SERVER, id="dns"),
        pytest.param(OSError(errno.EMFILE, "x"), Cause.DESCRIPTORS, id="descriptors"),
        pytest.param(tls("certificate verify failed: certificate has expired"), Cause.TLS, id="certificate"),
        pytest.param(ConnectionRefusedError(errno.ECONNREFUSED, "x"), Cause.REFUSED, id="refused"),
    ],
)
def test_that_no_connection_can_be_made_is_reported_though_open_ones_serve(failure: OSError, cause: Cause) -> None:
    reachability = APIServerReachability("api.example:6443")
    reachability.failed(caused_by(NotSentError("no connection"), failure), 1.0)
    assert lines_of(reachability, 1, 60) == [("new_connections_fail", cause)]
    (note,) = reachability.notes(60.0)
    assert "no new connection can be made for 59 s" in note
    assert reachability.probe_interval(60.0) is not None
    assert reachability.must_reconnect()
    assert lines_of(reachability, 60, 70) == [("new_connections_still_fail", cause)]
    reachability.connected(70.0)
    assert lines_of(reachability, 70, 80) == [("new_connections_work_again", None)]
    assert not reachability.must_reconnect()
    assert reachability.statistics(80.0).outages[cause] == 1


def test_an_outage_is_not_reported_twice() -> None:
    reachability = APIServerReachability("api.example:6443")
    refused = caused_by(NotSentError("no connection"), ConnectionRefusedError(errno.ECONNREFUSED, "x"))
    for second in range(1, 130):
        reachability.failed(refused, float(second))
        assert not any("new_connections" in line.message for line in reachability.lines(float(second)))


def test_a_request_that_is_cut_says_nothing_about_new_connections() -> None:
    reachability = APIServerReachability("api.example:6443")
    reachability.failed(ConnectionResetError(errno.ECONNRESET, "x"), 1.0)
    assert lines_of(reachability, 1, 60) == []
