"""A GET that a policy makes: what the server may not do to us."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from kscheduler.config.durations import seconds
from kscheduler.config.plugin_args import HTTPSource
from kscheduler.framework.plugin import RefreshError
from kscheduler.plugins.policies import measurements
from kscheduler.plugins.policies.measurements import fetched
from tests.plugins.policies.servers import http_server


async def test_the_body_comes_with_the_token_of_the_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc\n")

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer abc"
        return web.Response(text=f"{request.path}?{request.query_string}")

    async with http_server(answer) as url:
        source = HTTPSource(url + "/base/", bearer_token_file=str(token))
        assert await fetched(source) == b"/base/?"
        assert await fetched(source, "/more", {"q": "a b"}) == b"/base/more?q=a b"


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (web.Response(status=302, headers={"Location": "/elsewhere"}), "redirects are not followed"),
        (web.Response(status=503), "503 Service Unavailable"),
        (web.Response(headers={"Content-Encoding": "gzip"}, body=b"x"), "compressed"),
        (web.Response(body=b"x" * 2_000), "more than 0 MiB"),
    ],
    ids=["redirect", "refusal", "compressed", "too-large"],
)
async def test_what_is_no_plain_answer_is_an_error(
    response: web.Response, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurements, "MAX_BYTES", 1_000)

    async def answer(_: web.Request) -> web.Response:
        return response

    async with http_server(answer) as url:
        with pytest.raises(RefreshError, match=text):
            await fetched(HTTPSource(url))


async def test_a_server_that_says_nothing_is_given_up() -> None:
    queried = asyncio.Event()

    async def answer(_: web.Request) -> web.Response:
        queried.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with http_server(answer) as url:
        with pytest.raises(RefreshError, match="no answer within 50ms"):
            await fetched(HTTPSource(url, timeout=seconds(0.05)))
    assert queried.is_set()


@pytest.mark.parametrize("host", ["169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "[fe80::1%25lo]"])
async def test_no_link_local_address_is_called_however_it_is_written(host: str) -> None:
    with pytest.raises(RefreshError, match="link-local"):
        await fetched(HTTPSource(f"http://{host}/latest"))


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="direct")

    async with http_server(answer) as url:
        assert await fetched(HTTPSource(url)) == b"direct"


@pytest.mark.parametrize("text", ["", "two words", "-----BEGIN PRIVATE KEY-----\nabc\n", "a\r\nHost: b", "\xff"])
async def test_a_file_that_is_no_token_is_not_sent(text: str, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RefreshError) as caught:
        await fetched(HTTPSource("http://127.0.0.1:1", bearer_token_file=str(file)))
    assert str(caught.value) == f"bearerTokenFile {file}: there is no bearer token in it"


async def test_the_schedulers_own_token_is_sent_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounted, link = tmp_path / "mounted", tmp_path / "link"
    mounted.mkdir()
    (mounted / "token").write_text("abc")
    link.symlink_to(mounted / "token")
    monkeypatch.setattr(measurements, "OWN_CREDENTIALS", (mounted,))
    with pytest.raises(RefreshError, match="token is never sent to another server"):
        await fetched(HTTPSource("http://127.0.0.1:1", bearer_token_file=str(link)))


@pytest.mark.parametrize("field", ["bearer_token_file", "ca_file"])
async def test_a_file_that_is_not_there_is_named(field: str, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    source = HTTPSource("http://127.0.0.1:1", **{field: missing})  # type: ignore[arg-type]
    with pytest.raises(RefreshError, match=f"{missing}: No such file"):
        await fetched(source)


async def test_nobody_there_is_an_error_with_the_url() -> None:
    with pytest.raises(RefreshError, match=r"http://127\.0\.0\.1:1: "):
        await fetched(HTTPSource("http://127.0.0.1:1"))


@pytest.mark.parametrize("field", ["bearer_token_file", "ca_file"])
async def test_a_pipe_is_no_file_to_wait_for(tmp_path: Path, field: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(RefreshError, match="it is no regular file"):
        await fetched(replace(HTTPSource("http://127.0.0.1:1"), **{field: str(pipe)}))


async def test_a_mount_that_hangs_holds_one_thread_and_not_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    answers, queried = threading.Event(), []

    def hanging(source: HTTPSource) -> Any:
        queried.append(source)
        answers.wait(20)
        return {}, True

    monkeypatch.setattr(measurements, "_credentials", hanging)
    source = HTTPSource("http://127.0.0.1:1", bearer_token_file=str(token), timeout=seconds(0.05))
    try:
        with pytest.raises(RefreshError, match="token could not be read within 50ms"):
            await fetched(source)
        with pytest.raises(RefreshError, match="is still being read: does its mount answer"):
            await fetched(source)
        assert len(queried) == 1
    finally:
        answers.set()
    monkeypatch.undo()
    said = "still being read"
    async with asyncio.timeout(20):
        while "still being read" in said:
            with pytest.raises(RefreshError) as caught:
                await fetched(source)
            said = str(caught.value)
            await asyncio.sleep(0)
    assert "127.0.0.1:1" in said, "the mount has answered, and nobody listens at that port"


async def test_a_large_answer_is_parsed_beside_the_loop() -> None:
    def where(_: bytes) -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    assert await measurements.in_thread_if_large(where, b"x" * measurements.LARGE_BYTES) == here
    assert await measurements.in_thread_if_large(where, b"x" * (measurements.LARGE_BYTES + 1)) != here
