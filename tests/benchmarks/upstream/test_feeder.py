"""The process that feeds the API server: all is sent, in its order where it is slow, and what is refused is told."""

import asyncio
import json
from pathlib import Path

import pytest

from benchmarks.real.floor_wire import BarePoster
from benchmarks.upstream.feeder import Feeder, Sender, read_requests, write_requests
from benchmarks.upstream.play import send
from benchmarks.upstream.requests import Batch, Request
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.controlplane import kubeconfig


def test_requests_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "requests"
    requests = [Request("/a", b'{"text": "with spaces"}'), Request("/b/status", b"{}", "PATCH")]
    write_requests(file, requests)
    assert list(read_requests(file)) == requests


async def test_a_connection_that_the_server_closes_while_it_is_idle_is_opened_again() -> None:
    closed: asyncio.Queue[None] = asyncio.Queue()

    async def answer_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok")
        writer.close()
        await writer.wait_closed()
        closed.put_nowait(None)

    async with await asyncio.start_server(answer_once, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with BarePoster(f"http://127.0.0.1:{port}", None, {}) as poster:
            for _ in range(3):
                done = await Sender([Request("/a", b"{}")], 0.0).send([poster])
                assert (done.requests, done.refused) == (1, ())
                await closed.get()
                assert await poster._reader.read() == b""  # the end of the connection has come


def namespace(name: str) -> Request:
    return Request("/api/v1/namespaces", json.dumps({"metadata": {"name": name}}).encode())


async def test_everything_is_sent_and_what_is_refused_is_told_or_raised(tmp_path: Path) -> None:
    async with EmbeddedAPIServer(seed=1, admin=True) as server:
        file = kubeconfig.write(tmp_path / "kubeconfig", server=server.url, token="t", authority=None)
        async with Feeder(file, tmp_path / "requests") as feeder:
            first = await feeder.send([namespace(f"ns-{number}") for number in range(100)])
            assert (first.requests, first.refused) == (100, ())
            again = await feeder.send([namespace("ns-1"), namespace("ns-2"), namespace("new")])
            assert [(one.code, one.count) for one in again.refused] == [(409, 2)]
            slow = await feeder.send([namespace(f"slow-{number}") for number in range(5)], per_second=100.0)
            assert slow.seconds >= 0.04
            patch = Request("/api/v1/namespaces/new", b'{"metadata": {"labels": {"a": "b"}}}', "PATCH")
            assert (await feeder.send([patch])).refused == ()
            await send(feeder, Batch((namespace("new"),), frozenset({409})))
            with pytest.raises(RuntimeError, match=r"1 of 1 requests were refused: 409 .*new"):
                await send(feeder, Batch((namespace("new"),)))
        assert not list((tmp_path / "requests").iterdir())
