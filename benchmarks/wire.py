"""CPU of one small POST over TLS: aiohttp, and the connections of our own.

    python -m benchmarks.wire --requests 20000 --rounds 3
    python -m benchmarks.wire --calls

A server in a process of its own answers each POST as kube-apiserver answers a Binding; what it costs is not counted.
Both clients take turns on the same loop (uvloop where it is installed), in rounds, and the best round counts: on a
machine that others use as well the others are noise. `in memory` is the writing of the request and the reading of the
answer alone, without a socket; `no socket` is the whole way of a Binding, to a transport that answers by itself.
`--calls` counts what one Binding calls in this process, in Python and in builtin functions, from `PodWriter.bind` to
the answer, on an open connection: a measure that other work does not move.
"""

import argparse
import asyncio
import os
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from cProfile import Profile
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import cast

from kscheduler.client.access.connection import Connection
from kscheduler.client.access.credentials import FixedCredentials
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.http import pool
from kscheduler.client.http.http1 import HttpRequest, ResponseParser, header_lines, request_bytes
from kscheduler.client.http.over_aiohttp import AiohttpTransport
from kscheduler.client.http.pool import HTTPPool
from kscheduler.client.http.transport import Transport
from kscheduler.client.pod_writes import PodWriter, binding_body, pod_path
from kscheduler.client.rest import APIClient
from tests.controlplane import certificates

TOKEN = "t" * 900  # a service account's
BODY = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
ANSWER = (
    b"HTTP/1.1 201 Created\r\nAudit-Id: 6b3c7d0e-9a56-4d0f-8d5c-6f1b7f0f5f3e\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 6b3c7d0e-9a56-4d0f-8d5c-6f1b7f0f5f3e\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 6b3c7d0e-9a56-4d0f-8d5c-6f1b7f0f5f3e\r\n"
    b"Date: Sat, 21 Nov 2026 17:00:00 GMT\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
)
POD = "bench", "pod-00001", "6b3c7d0e-9a56-4d0f-8d5c-6f1b7f0f5f3e", "node-00001"
PATH = f"{pod_path('bench', 'pod-00001')}/binding"
BINDING = binding_body(*POD)
COUNTED_REQUESTS = 1000


class Answering(asyncio.Protocol):
    """Answers whatever ends in a body of the announced length; of a pipeline one request in each turn of its loop."""

    def __init__(self) -> None:
        self._received = b""
        self._behind = 0
        """Requests that are read and not answered."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its type

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        self._received += data
        while True:
            head, end, body = self._received.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
            if not end or len(body) < length:
                return
            self._received = body[length:]
            self._behind += 1
            if self._behind == 1:
                self._answer()

    def _answer(self) -> None:
        self._transport.write(ANSWER)
        self._behind -= 1
        if self._behind:
            asyncio.get_running_loop().call_soon(self._answer)


def serve(folder: Path, pipe: Pipe) -> None:
    """The server's process; tells its port and ends by SIGTERM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "serving.crt", folder / "serving.key")

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, ssl=context)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    run(forever())


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A server's URL while it runs."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve, args=(folder, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(30):
            raise RuntimeError("the server did not start")
        yield f"https://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join(10)


async def measured(send: Callable[[], object], requests: int, at_once: int) -> float:
    """Microseconds of CPU of this process per request, `at_once` of them under way."""

    async def one_after_the_other(count: int) -> None:
        for _ in range(count):
            await send()  # type: ignore[misc]  # a coroutine, of whatever type

    async with asyncio.TaskGroup() as warm:
        for _ in range(at_once):
            warm.create_task(one_after_the_other(10))
    began = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(one_after_the_other(requests // at_once))
    return (time.process_time() - began) / (requests // at_once * at_once) * 1e6


class MemoryTransport(asyncio.Transport):
    """Answers each request in the next turn of the loop, without a socket."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()

    def is_closing(self) -> bool:
        return False

    def write(self, data: object) -> None:
        del data
        self._loop.call_soon(self._protocol.data_received, ANSWER)

    def close(self) -> None:
        self._protocol.connection_lost(None)

    abort = close


class MemoryPool(HTTPPool):
    """Its connections lead nowhere."""

    async def _open_connection(self, context: ssl.SSLContext | None) -> pool.HTTPConnection:
        connection = pool.HTTPConnection(self, context)
        connection.connection_made(MemoryTransport(connection))
        return connection


class MemoryClient(APIClient):
    """Sends over a `MemoryPool`."""

    def _open_transport(self) -> Transport:
        return MemoryPool(self.connection)


def in_memory(requests: int) -> float:
    """Microseconds for writing a request and reading its answer."""
    lines = header_lines(
        [("Host", "127.0.0.1:6443"), ("User-Agent", "kscheduler"), ("Authorization", f"Bearer {TOKEN}")]
    )
    parser = ResponseParser()
    began = time.process_time()
    for _ in range(requests):
        request_bytes(HttpRequest("POST", PATH, BINDING, "application/json"), lines)
        parser.begin()
        parser.feed(ANSWER)
    return (time.process_time() - began) / requests * 1e6


async def compare(url: str, authority: Path, options: argparse.Namespace) -> None:
    """Print microseconds of CPU per request, of each way."""
    contexts = TLSContexts(TLSFiles(authority=str(authority)))
    connection = Connection(url, "benchmark", FixedCredentials(f"Bearer {TOKEN}"), contexts)
    identity = await connection.headers()
    request = HttpRequest("POST", PATH, BINDING, "application/json")
    transports: dict[str, Transport] = {"aiohttp": AiohttpTransport(connection), "own": HTTPPool(connection)}
    best: dict[str, float] = {}
    depth = options.pipeline_depth
    async with APIClient(connection) as client, APIClient(connection, pipeline_depth=depth) as joining:
        pods, together = PodWriter(client), PodWriter(joining)
        ways: dict[str, Callable[[], object]] = {
            "aiohttp": lambda: transports["aiohttp"].send(request, identity, 30.0),
            "own": lambda: transports["own"].send(request, identity, 30.0),
            "own, through APIClient.post": lambda: client.post(PATH, BINDING),
            "own, through PodWriter.bind": lambda: pods.bind(*POD),
            f"the same, in pipelines of {depth}": lambda: together.bind(*POD),
        }
        for _ in range(options.rounds):
            for name, send in ways.items():
                best[name] = min(best.get(name, 1e9), await measured(send, options.requests, options.at_once))
            async with MemoryClient(Connection("http://127.0.0.1:1", "benchmark", FixedCredentials())) as nowhere:
                writer = PodWriter(nowhere)
                no_socket = await measured(lambda: writer.bind(*POD), options.requests, 1)  # noqa: B023  # at once
            best["PodWriter.bind, no socket"] = min(best.get("PodWriter.bind, no socket", 1e9), no_socket)
            best["own, in memory"] = min(best.get("own, in memory", 1e9), in_memory(options.requests))
    for transport in transports.values():
        await transport.close()
    for name, microseconds in best.items():
        print(f"{name:<30}{microseconds:>8.1f} us of CPU per request")


async def count(url: str, authority: Path) -> None:
    """Print what one Binding calls, the most frequent first."""
    contexts = TLSContexts(TLSFiles(authority=str(authority)))
    async with APIClient(Connection(url, "benchmark", FixedCredentials(f"Bearer {TOKEN}"), contexts)) as client:
        pods = PodWriter(client)
        for _ in range(10):
            await pods.bind(*POD)
        profile = Profile()
        with profile:
            for _ in range(COUNTED_REQUESTS):
                await pods.bind(*POD)
    calls: dict[str, float] = {}
    builtin = 0.0
    for entry in profile.getstats():
        per_request = entry.callcount / COUNTED_REQUESTS
        if isinstance(entry.code, str):
            builtin += per_request
            name = entry.code
        else:
            name = f"{Path(entry.code.co_filename).name}:{entry.code.co_qualname}"
        calls[name] = calls.get(name, 0.0) + per_request
    print(f"{sum(calls.values()) - builtin:8.2f} Python calls per Binding")
    print(f"{builtin:8.2f} calls of builtin functions per Binding")
    for name, per_request in sorted(calls.items(), key=lambda one: (-one[1], one[0])):
        if per_request >= 0.5:
            print(f"{per_request:8.2f}   {name}")


def run(main: object) -> None:
    """Run a coroutine on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)  # type: ignore[arg-type]  # a coroutine, of whatever type
    else:
        uvloop.run(main)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wire", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts")
    parser.add_argument("--at-once", type=int, default=16, help="requests under way at a time")
    parser.add_argument("--pipeline-depth", type=int, default=4, help="requests that leave together at most")
    parser.add_argument("--calls", action="store_true", help="count calls per Binding, and measure no time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = certificates.create(Path(folder))
        with server(Path(folder)) as url:
            run(count(url, made.authority) if options.calls else compare(url, made.authority, options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
