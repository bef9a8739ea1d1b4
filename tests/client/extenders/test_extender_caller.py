"""Calls to an extender that answers well, late, too much, by half, or sends us elsewhere."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from kscheduler.client.access.proxies import proxy_variable
from kscheduler.client.access.tls import TLSFiles
from kscheduler.client.extenders import ExtenderAddress
from kscheduler.client.extenders.caller import (
    MAX_CALLS,
    CallGivenUpError,
    CheckingResolver,
    ExtenderCaller,
    ExtenderError,
    ExtenderNotReachedError,
    ExtenderStatusError,
    ForbiddenTargetError,
    open_checked_socket,
)
from tests.client.http.raw_server import OK, Peer, answer_all, raw_server

CERTIFICATES = Path(__file__).parents[1] / "certificates"
NO_TLS = TLSFiles()
# Long enough for any machine; what must run out is given less.
SECONDS = 20.0


@asynccontextmanager
async def caller_of(
    url: str, seconds: float = SECONDS, tls: TLSFiles = NO_TLS, largest_answer: int = 1000
) -> AsyncIterator[ExtenderCaller]:
    caller = ExtenderCaller(ExtenderAddress("http://shown", url, seconds, tls), largest_answer=largest_answer)
    try:
        yield caller
    finally:
        await caller.close()


async def refusal(caller: ExtenderCaller) -> str:
    with pytest.raises(ExtenderError) as reported:
        await caller.call("filter", b"{}")
    return str(reported.value)


async def test_a_call_is_a_post_of_json_to_the_verb_without_any_credentials() -> None:
    seen: list[bytes] = []

    async def keep(peer: Peer) -> None:
        while True:
            seen.append(await peer.request())
            peer.say(OK)

    async with raw_server(keep) as server, caller_of(f"{server.url}/root//") as caller:
        assert await caller.call("filter", b'{"a":1}') == b"ok"
        assert await caller.call("prioritize", b"{}") == b"ok"
        assert len(server.peers) == 1
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /root/filter HTTP/1.1\r\n")
    assert body == b'{"a":1}'
    assert b"content-type: application/json" in head.lower()
    assert b"authorization" not in head.lower()
    assert b"cookie" not in head.lower()
    assert seen[1].startswith(b"POST /root/prioritize ")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
            "with extender at URL http://shown/filter, code 500",
        ),
        (b"HTTP/1.1 204 Empty\r\n\r\n", "code 204"),
        (
            b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/keys?token=s3cret\r\nContent-Length: 0\r\n\r\n",
            "code 307: it sends us to http://169.254.169.254/keys, and redirects are not followed",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "URL http://shown: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000, "the answer has more than 1000 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "the answer has more than 1000 bytes"),
        (b"", "URL http://shown: "),
        (b"no HTTP at all\r\n\r\n", "URL http://shown: "),
    ],
    ids=["error", "no content", "redirect", "half", "large", "large without length", "nothing", "noise"],
)
async def test_what_is_no_answer_is_an_error_that_names_verb_and_address(answer: bytes, words: str) -> None:
    async def play(peer: Peer) -> None:
        await peer.request()
        peer.say(answer)

    async with raw_server(play) as server, caller_of(server.url) as caller:
        text = await refusal(caller)
        assert text.startswith("failed filter with extender at URL http://shown")
        assert words in text
        assert server.requests == 1, "nothing is followed and nothing is repeated"


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
async def test_a_call_ends_with_its_time_also_in_the_middle_of_an_answer(begun: bytes) -> None:
    async def stall(peer: Peer) -> None:
        await peer.request()
        peer.say(begun)
        await peer.reader.read()

    async with raw_server(stall) as server, caller_of(server.url, seconds=0.05) as caller:
        assert await refusal(caller) == "failed filter with extender at URL http://shown: no answer within 0.05 s"


async def test_calls_at_a_time_are_bounded_and_the_others_wait() -> None:
    held, full, release = 0, asyncio.Event(), asyncio.Event()

    async def hold(peer: Peer) -> None:
        nonlocal held
        while True:
            await peer.request()
            held += 1
            if held == MAX_CALLS:
                full.set()
            await release.wait()
            peer.say(OK)

    async with raw_server(hold) as server, caller_of(server.url) as caller:
        calls = [asyncio.ensure_future(caller.call("filter", b"{}")) for _ in range(MAX_CALLS + 3)]
        await full.wait()
        assert server.requests == MAX_CALLS
        release.set()
        assert await asyncio.gather(*calls) == [b"ok"] * len(calls)
        assert len(server.peers) == MAX_CALLS


async def test_nobody_listens_and_closed() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with caller_of(f"http://127.0.0.1:{bound.getsockname()[1]}") as caller:
            assert "connection refused" in await refusal(caller)
    assert "no longer configured" in await refusal(caller)


async def test_what_certainly_was_not_sent_is_known() -> None:
    """A pod that was to be bound is not bound then, and nobody has to look."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{bound.getsockname()[1]}"
        for url in (nobody, "http://none.invalid:1", "http://169.254.169.254", "ftp://x", "https://127.0.0.1:1"):
            async with caller_of(url) as caller:
                with pytest.raises(ExtenderNotReachedError):
                    await caller.call("bind", b"{}")


async def test_an_answer_that_was_lost_is_no_refusal() -> None:
    async def hang_up(peer: Peer) -> None:
        await peer.request()

    async def refuse(peer: Peer) -> None:
        await peer.request()
        peer.say(b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")

    for serve, kind in ((hang_up, ExtenderError), (refuse, ExtenderStatusError)):
        async with raw_server(serve) as server, caller_of(server.url) as caller:
            with pytest.raises(ExtenderError) as failure:
                await caller.call("bind", b"{}")
            assert type(failure.value) is kind


async def test_what_this_process_ends_itself_is_not_the_extenders_fault() -> None:
    async def say_nothing(peer: Peer) -> None:
        await peer.request()
        await asyncio.get_running_loop().create_future()

    async with raw_server(say_nothing) as server, caller_of(server.url) as caller:
        with pytest.raises(CallGivenUpError, match="this process does not lead"):
            await caller.call("bind", b"{}", lambda: False)
        under_way = asyncio.create_task(caller.call("filter", b"{}"))
        await asyncio.sleep(0.05)
        await caller.close()
        with pytest.raises(CallGivenUpError):
            await under_way
        with pytest.raises(CallGivenUpError, match="no longer configured"):
            await caller.call("filter", b"{}")


@pytest.mark.parametrize("url", ["", "extender", "ftp://user:s3cret@x", "http://user:s3cret@", "http://[::1"])
async def test_an_address_that_is_no_url_is_reported_without_its_password(url: str) -> None:
    async with caller_of(url) as caller:
        text = await refusal(caller)
    assert text.startswith("failed filter with extender at URL http://shown: ")
    assert "s3cret" not in text


# --- TLS --------------------------------------------------------------------------------------------------------------


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "first.crt", CERTIFICATES / "first.key")
    return context


@pytest.mark.parametrize(
    ("tls", "words"),
    [
        (TLSFiles(verify=False), ""),
        (TLSFiles(authority=str(CERTIFICATES / "first.crt")), ""),
        (TLSFiles(authority_pem=(CERTIFICATES / "first.crt").read_text()), ""),
        (TLSFiles(authority=str(CERTIFICATES / "second.crt")), "the server's certificate is not trusted"),
        (TLSFiles(authority=str(CERTIFICATES / "first.crt"), server_name="other"), "certificate is not trusted"),
        (TLSFiles(authority=str(CERTIFICATES / "none.crt")), "No such file or directory"),
        (TLSFiles(), "the server's certificate is not trusted"),
    ],
)
async def test_certificates_are_checked_as_configured(tls: TLSFiles, words: str) -> None:
    async with raw_server(answer_all, server_side()) as server, caller_of(server.url, tls=tls) as caller:
        if words:
            assert words in await refusal(caller)
        else:
            assert await caller.call("filter", b"{}") == b"ok"


# --- forbidden --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "0xa9fea9fe",
        "[::ffff:169.254.169.254]",
        "[fe80::1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[::169.254.169.254]",
    ],
)
async def test_a_link_local_address_is_never_called(host: str) -> None:
    async with caller_of(f"http://{host}:1") as caller:
        assert "is link-local: extenders are not called there" in await refusal(caller)


@pytest.mark.parametrize("host", ["[fd00:ec2::254]", "100.100.100.200"])
async def test_an_address_of_metadata_is_never_called(host: str) -> None:
    async with caller_of(f"http://{host}:1") as caller:
        assert "hands out credentials of the machine: extenders are not called there" in await refusal(caller)


def test_no_socket_is_opened_for_a_link_local_address() -> None:
    with pytest.raises(ForbiddenTargetError):
        open_checked_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("169.254.169.254", 80)))
    open_checked_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80))).close()


class _Fixed(AbstractResolver):
    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in self._addresses
        ]

    async def close(self) -> None:
        return


async def test_a_name_with_a_link_local_address_among_others_is_refused() -> None:
    assert len(await CheckingResolver(_Fixed("10.0.0.1", "10.0.0.2")).resolve("extender")) == 2
    with pytest.raises(ForbiddenTargetError, match=r"extender has the address 169\.254\.1\.1, which is link-local"):
        await CheckingResolver(_Fixed("10.0.0.1", "169.254.1.1")).resolve("extender")


@pytest.mark.parametrize(
    ("url", "environ", "expected"),
    [
        ("http://x.kube-system", {"HTTP_PROXY": "http://p"}, "HTTP_PROXY"),
        ("https://x", {"https_proxy": "http://p"}, "https_proxy"),
        ("https://x", {"HTTP_PROXY": "http://p"}, ""),
        ("http://x", {"HTTP_PROXY": ""}, ""),
        ("http://x.svc", {"HTTP_PROXY": "http://p", "NO_PROXY": ".svc"}, ""),
        ("http://localhost:1", {"HTTP_PROXY": "http://p"}, ""),
        ("http://127.0.0.1:1", {"HTTP_PROXY": "http://p"}, ""),
        ("", {"HTTP_PROXY": "http://p"}, ""),
    ],
)
def test_a_proxy_that_is_not_used_is_known(url: str, environ: dict[str, str], expected: str) -> None:
    assert proxy_variable(url, environ) == expected


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with raw_server(answer_all) as proxy, raw_server(answer_all) as server, caller_of(server.url) as caller:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert await caller.call("filter", b"{}") == b"ok"
        assert (proxy.requests, server.requests) == (0, 1)
