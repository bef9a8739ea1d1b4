"""Each way in which an API server can be out of reach, made for real, is told by its cause and with what to do."""

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kscheduler.aio import VirtualClock
from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.access.credentials import FixedCredentials
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import ClientError, CredentialsError
from kscheduler.client.reachability import APIServerReachability, LogLine
from kscheduler.client.rest import APIClient
from tests.client.scripted import reply, scripted_server, stall, vanish
from tests.client.test_rest import closed_port

CERTIFICATES = Path(__file__).parent / "certificates"
HTML = "<html><head><title>502 Bad Gateway</title></head></html>"
Ask = Callable[[APIClient], Awaitable[object]]


# Seconds until a request is given up: long where an answer comes.
search_budget = 10.0


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "search_budget", 0.2)


async def get(client: APIClient) -> object:
    return await client.get("/api/v1/pods", retries=0, timeout_seconds=search_budget)


async def post(client: APIClient) -> object:
    return await client.post("/api/v1/pods", b"{}", retries=0, timeout_seconds=search_budget)


async def watch(client: APIClient) -> object:
    async with client.stream("/api/v1/pods", {"watch": "true"}, inactivity_seconds=search_budget) as stream:
        async for _ in stream:
            pass
    return None


async def line_after(connection: Connection, ask: Ask) -> LogLine:
    """What is logged when this request has failed and none has succeeded since."""
    clock = VirtualClock()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())
    async with APIClient(connection, clock=clock, reachability=reachability) as client:
        with pytest.raises(ClientError):
            await ask(client)
    (line,) = reachability.lines(clock.monotonic() + 5.0)
    return line


ASKS = [pytest.param(get, id="get"), pytest.param(post, id="post"), pytest.param(watch, id="watch")]


@pytest.mark.parametrize("ask", ASKS)
async def test_a_page_in_place_of_any_answer_is_an_outage_and_named_as_what_it_is(ask: Ask) -> None:
    """A captive portal answers 200 to whatever is asked; no API server does."""

    async def portal(_request: web.Request) -> web.StreamResponse:
        return web.Response(text="<!DOCTYPE html><title>Welcome</title>Please sign in.", content_type="text/html")

    async with scripted_server(portal) as server:
        line = await line_after(plain_connection(server.url), ask)
    assert line.fields["cause"] == "proxy"
    assert "answers for the API server" in str(line.fields["advice"])
    assert "answered 200" in str(line.fields["err"])
    assert "Welcome" in str(line.fields["err"])


@pytest.mark.parametrize("ask", ASKS)
async def test_a_proxy_that_nobody_listens_at_is_not_blamed_on_the_api_server(ask: Ask) -> None:
    proxy = f"http://127.0.0.1:{closed_port()}"
    line = await line_after(Connection("http://api.example:6443", "test", FixedCredentials(), proxy=proxy), ask)
    assert line.fields["cause"] == "proxy"
    assert "proxy-url" in str(line.fields["advice"])
    assert "kube-apiserver" not in str(line.fields["advice"])
    assert "no connection to the proxy 127.0.0.1:" in str(line.fields["err"])


@pytest.mark.parametrize("ask", ASKS)
async def test_a_proxy_whose_name_is_unknown_is_not_taken_for_the_api_server(ask: Ask) -> None:
    proxy = "http://no-such-proxy.invalid:3128"
    line = await line_after(Connection("http://api.example:6443", "test", FixedCredentials(), proxy=proxy), ask)
    assert line.fields["cause"] == "proxy"
    assert "HTTPS_PROXY" in str(line.fields["advice"])
    assert "the proxy's name cannot be looked up" in str(line.fields["err"])


@pytest.mark.parametrize("ask", [pytest.param(get, id="get"), pytest.param(watch, id="watch")])
async def test_a_proxy_that_does_not_let_us_through_is_named(ask: Ask) -> None:
    async with scripted_server() as proxy:  # which knows no CONNECT
        contexts = TLSContexts(TLSFiles())
        connection = Connection("https://api.example:6443", "test", FixedCredentials(), contexts, proxy.url)
        line = await line_after(connection, ask)
    assert line.fields["cause"] == "proxy"
    assert "the proxy does not let us through: it answers 404 Not Found" in str(line.fields["err"])


@pytest.mark.parametrize("ask", ASKS)
async def test_nobody_listens(ask: Ask) -> None:
    line = await line_after(plain_connection(f"http://127.0.0.1:{closed_port()}"), ask)
    assert line.fields["cause"] == "refused"


@pytest.mark.parametrize("ask", ASKS)
async def test_the_name_is_unknown(ask: Ask) -> None:
    line = await line_after(plain_connection("http://no-such-host.invalid:6443"), ask)
    assert line.fields["cause"] == "name_not_resolved"
    assert "DNS" in str(line.fields["advice"])


@pytest.mark.usefixtures("little_patience")
@pytest.mark.parametrize("ask", ASKS)
async def test_the_server_never_answers(ask: Ask) -> None:
    async with scripted_server(stall) as server:
        line = await line_after(plain_connection(server.url), ask)
    assert line.fields["cause"] == "timeout"


@pytest.mark.usefixtures("little_patience")
async def test_the_handshake_is_never_answered() -> None:
    """Somebody listens and says nothing to a TLS hello: the connection is not made in time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}"
        connection = Connection(url, url, FixedCredentials(), TLSContexts(TLSFiles()))
        line = await line_after(connection, get)
    assert line.fields["cause"] == "timeout"
    assert "no connection to" in str(line.fields["err"])


def test_words_alone_are_no_cause() -> None:
    """A plugin's or proxy's sentence may say "within" too."""
    reachability = APIServerReachability("api.example:6443")
    reachability.failed(ConnectionResetError("reset within the tunnel"), 1.0)
    (line,) = reachability.lines(5.0)
    assert line.fields["cause"] == "broken"


@pytest.mark.parametrize("ask", ASKS)
async def test_the_connection_is_cut(ask: Ask) -> None:
    async with scripted_server(vanish) as server:
        line = await line_after(plain_connection(server.url), ask)
    assert line.fields["cause"] == "broken"


@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        pytest.param(502, HTML, "proxy", id="html"),
        pytest.param(503, "no healthy upstream", "proxy", id="envoy"),
        pytest.param(503, '{"kind":"Status","code":503,"message":"shutting down"}', "server_error", id="own-503"),
        pytest.param(500, "[-]etcd failed: reason withheld", "server_error", id="own-readyz"),
        pytest.param(401, '{"kind":"Status","code":401}', "unauthorized", id="unauthorized"),
    ],
)
async def test_the_answer_is_no_good(ask: Ask, status: int, body: str, cause: str) -> None:
    async with scripted_server(reply(body, status)) as server:
        line = await line_after(plain_connection(server.url), ask)
    assert line.fields["cause"] == cause


@asynccontextmanager
async def speaking(greeting: bytes) -> AsyncIterator[int]:
    """Something else than an HTTP server."""

    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize("ask", [pytest.param(get, id="get"), pytest.param(watch, id="watch")])
async def test_what_answers_is_no_http_server(ask: Ask) -> None:
    async with speaking(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        line = await line_after(plain_connection(f"http://127.0.0.1:{port}"), ask)
    assert line.fields["cause"] in ("not_http", "broken"), "it may close before our request is out"


@pytest.mark.parametrize("ask", ASKS)
async def test_the_certificate_is_signed_by_somebody_else(ask: Ask) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "first.crt", CERTIFICATES / "first.key")
    async with scripted_server(reply(), tls=context) as server:
        connection = Connection(server.url, server.url, FixedCredentials(), TLSContexts(TLSFiles()))
        line = await line_after(connection, ask)
    assert line.fields["cause"] == "tls"
    assert "certificate-authority" in str(line.fields["advice"])


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        pytest.param("certificate verify failed: certificate has expired", "renew it", id="expired"),
        pytest.param("certificate is not yet valid", "clock", id="not-yet"),
        pytest.param("Hostname mismatch, certificate is not valid for 'x'", "tls-server-name", id="hostname"),
        pytest.param("sslv3 alert certificate expired", "client certificate has expired", id="own-expired"),
        pytest.param("tlsv13 alert certificate required", "client-certificate", id="own-missing"),
        pytest.param("[SSL: WRONG_VERSION_NUMBER] wrong version number", "http://", id="plain"),
    ],
)
def test_tls_errors_name_what_to_do(error: str, advice: str) -> None:
    reachability = APIServerReachability("api.example:6443")
    reachability.failed(ssl.SSLError(1, error), 1.0)
    (line,) = reachability.lines(5.0)
    assert line.fields["cause"] == "tls"
    assert advice in str(line.fields["advice"])


class NoCredentials(FixedCredentials):
    def current(self) -> None:
        """There is none."""

    async def authorization(self) -> str:
        raise CredentialsError("exec plugin aws-iam: exit code 1")


@pytest.mark.parametrize("ask", ASKS)
async def test_there_are_no_credentials(ask: Ask) -> None:
    line = await line_after(Connection("http://127.0.0.1:1", "x", NoCredentials()), ask)
    assert (line.message, line.fields["cause"]) == ("credentials_refused", "no_credentials")
    assert "aws-iam" in str(line.fields["err"])


async def test_a_watch_that_brings_something_is_a_sign_of_life() -> None:
    clock = VirtualClock()
    reachability = APIServerReachability("api.example:6443", clock.monotonic())
    async with (
        scripted_server(reply(b'{"type":"BOOKMARK"}\n')) as server,
        APIClient(plain_connection(server.url), clock=clock, reachability=reachability) as client,
        client.stream("/api/v1/pods", {"watch": "true"}) as stream,
    ):
        await clock.advance(100.0)
        assert reachability.problem(clock.monotonic()) is not None
        async for _ in stream:
            assert reachability.problem(clock.monotonic()) is None
            return
    raise AssertionError
