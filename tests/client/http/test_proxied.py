"""Through a proxy: everything that is asked of an API server, whose name only the proxy knows."""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from kscheduler.client.access.connection import load_connection
from kscheduler.client.rest import APIClient

CERTIFICATES = Path(__file__).parents[1] / "certificates"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://kube.internal.example:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: admin-token, as: jane, as-groups: [dev, ops]}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@dataclass
class Tunnels:
    """A proxy that leads every name to one port of this machine."""

    port_behind: int
    port: int = 0
    heads: list[str] = field(default_factory=list)
    """What was asked of it: first lines and headers."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await self.pass_on(reader, writer)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Without asking where to."""
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", self.port_behind)
        await asyncio.gather(_copied(reader, behind_writer), _copied(behind_reader, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@dataclass
class Server:
    port: int = 0
    seen: list[tuple[str, list[str], str]] = field(default_factory=list)
    """Path, groups and credentials."""

    async def answer(self, request: web.Request) -> web.Response:
        groups = request.headers.getall("Impersonate-Group", [])
        self.seen.append((request.path, groups, request.headers.get("Authorization", "")))
        return web.json_response({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []})


@asynccontextmanager
async def behind_a_proxy() -> AsyncIterator[tuple[Server, Tunnels]]:
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "first.crt", CERTIFICATES / "first.key")
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    proxy = Tunnels(server.port)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listener.sockets[0].getsockname()[1]
    try:
        yield server, proxy
    finally:
        listener.close()
        await runner.cleanup()


@pytest.mark.parametrize("password", [pytest.param("", id="open"), pytest.param("me:secret@", id="with a password")])
async def test_requests_and_watches_reach_a_server_whose_name_only_the_proxy_knows(
    tmp_path: Path, password: str
) -> None:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    async with behind_a_proxy() as (server, proxy):
        environ = {"HTTPS_PROXY": f"http://{password}127.0.0.1:{proxy.port}"}
        connection = await load_connection(kubeconfig=str(path), environ=environ)
        async with APIClient(connection) as client:
            await client.get("/version")
            async with client.stream("/api/v1/pods", {"watch": "true"}) as lines:
                async for _ in lines:
                    pass
    groups, bearer = ["dev", "ops"], "Bearer admin-token"
    assert server.seen == [("/version", groups, bearer), ("/api/v1/pods", groups, bearer)]
    assert [head.partition(" HTTP/")[0] for head in proxy.heads] == ["CONNECT kube.internal.example:6443"] * 2
    sent = f"Proxy-Authorization: Basic {b64encode(b'me:secret').decode()}"
    assert all((sent in head) is bool(password) and "admin-token" not in head for head in proxy.heads)
