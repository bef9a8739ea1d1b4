"""A scheduler against an embedded API server, both in this event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import aiohttp

from kscheduler.client.access.connection import plain_connection
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.store import Change
from kscheduler.server.serving import HTTPServing
from kscheduler.service import App, Options
from tests.builders import Tree

# After this a test has failed; nothing waits so long when all is well.
SECONDS = 20.0


def put(server: EmbeddedAPIServer, collection: str, tree: Tree) -> None:
    """Store an object as it is: no admission, no validation."""
    kind = {"pods": "Pod", "nodes": "Node"}[collection]
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"creationTimestamp": created, "uid": f"{kind}-{tree['metadata'].get('name', '')}", **tree["metadata"]}
    if kind == "Node":
        metadata.pop("namespace", None)
    server.store.put(collection, {"apiVersion": "v1", "kind": kind, **tree, "metadata": metadata})


def node_of(server: EmbeddedAPIServer, name: str, namespace: str = "default") -> str:
    """The node that a pod is on, or empty."""
    record = server.store.get("pods", namespace, name)
    assert record is not None
    node: str = record.value["spec"].get("nodeName") or ""
    return node


async def until(server: EmbeddedAPIServer, condition: Callable[[], bool]) -> None:
    """Wait for a state of the API server's pods."""
    changed = asyncio.Event()

    def on_change(_: Change) -> None:
        changed.set()

    server.store.subscribe("pods", on_change)
    try:
        async with asyncio.timeout(SECONDS):
            while not condition():
                changed.clear()
                await changed.wait()
    finally:
        server.store.unsubscribe("pods", on_change)


def alone() -> LoadedConfig:
    """The default configuration without leader election, which stories of a single scheduler are not about."""
    return with_settings(default_configuration(), {"leaderElection.leaderElect": False}, "test")


@asynccontextmanager
async def running(
    server: EmbeddedAPIServer, options: Options | None = None
) -> AsyncIterator[tuple[App, asyncio.Event, "asyncio.Task[None]"]]:
    """The application from before its sync to its end, which must be orderly."""
    options = options or Options(alone(), serving=HTTPServing.plain_on_loopback())
    app = App(options, plain_connection(server.url))
    stop = asyncio.Event()
    task = asyncio.ensure_future(app.run(stop))
    try:
        yield app, stop, task
        assert not task.done(), "the scheduler ended by itself"
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await task


async def answer(app: App, path: str, accept: str = "*/*") -> tuple[int, str]:
    """One request to the scheduler's own server, once it listens."""
    async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(
                    f"http://127.0.0.1:{app.server.port}{path}", headers={"Accept": accept}
                ) as response:
                    return response.status, await response.text()
            except (RuntimeError, aiohttp.ClientConnectionError):
                await asyncio.sleep(0)
