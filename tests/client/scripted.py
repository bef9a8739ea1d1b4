"""A small HTTP server whose every answer is written by the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
from aiohttp import web
from multidict import CIMultiDictProxy

Explanation = Callable[[web.Request], Awaitable[web.StreamResponse]]
# How kube-apiserver answers a Binding, to the byte.
SUCCESS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'


@dataclass
class PodSelection:
    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes


@dataclass
class ScriptedServer:
    """Answers requests with `answers` in turn, the last one forever; remembers what was asked."""

    url: str = ""
    answers: list[Explanation] = field(default_factory=list)
    requests: list[PodSelection] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(PodSelection(request.method, request.path, dict(request.query), request.headers, body))
        self.arrived.set()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    async def received(self, count: int) -> None:
        """Wait until so many requests have come."""
        while len(self.requests) < count:
            self.arrived.clear()
            await self.arrived.wait()


def reply(body: str | bytes = b"{}", status: int = 200, **headers: str) -> Explanation:
    async def answer(_request: web.Request) -> web.StreamResponse:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        raw = body.encode() if isinstance(body, str) else body
        return web.Response(body=raw, status=status, headers=named, content_type="application/json")

    return answer


async def applied(request: web.Request) -> web.StreamResponse:
    """What an API server answers to a write that it has applied: the object; to a Binding or an eviction a Status."""
    *_, name, subresource = request.path.split("/")
    if subresource in ("binding", "eviction"):
        return await reply(SUCCESS, 201)(request)
    body = msgspec.json.decode(await request.read())
    if request.method == "POST":
        return await reply(msgspec.json.encode(body), 201)(request)
    kind = "Event" if name == "events" else "Pod"
    named = {"name": subresource if kind == "Event" else name} | body.get("metadata", {})
    return await reply(msgspec.json.encode({**body, "kind": kind, "metadata": named}))(request)


def lines(*chunks: str | bytes, then: Callable[[], Awaitable[object]] | None = None, cut: bool = False) -> Explanation:
    """Stream chunks, wait for `then`, and end the stream in good order, or cut the connection."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk.encode() if isinstance(chunk, str) else chunk)
        if then is not None:
            await then()
        if cut:
            drop(request)
        return response

    return answer


def drop(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


async def vanish(request: web.Request) -> web.StreamResponse:
    """Read the request and reset the connection."""
    drop(request)
    return web.Response()


async def stall(_request: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    return web.Response()


@asynccontextmanager
async def scripted_server(*answers: Explanation, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(answers=list(answers))
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.05)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()
