"""The embedded API server: a store, its rules and its HTTP front, as one async context manager.

    async with EmbeddedAPIServer() as server:
        print(server.url, server.kubeconfig_text())

Plain HTTP, no authentication: who reaches the port may do everything. So that no page in a browser on this machine
does, a request must name the server by its address, as localhost, or by a name that was given.

`serve` runs a server until cancelled, together with other services (hollow kubelets, a workload); they are async
context managers made from the server, started after it and stopped before it.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec
import yaml
from aiohttp import hdrs, web

from kscheduler.api.addresses import is_named_safely
from kscheduler.api.machinery.api_errors import ApiError, Object, bad_request, unknown_host
from kscheduler.api.machinery.resources import USUAL, ServedKinds
from kscheduler.embedded.apiserver import openapi
from kscheduler.embedded.apiserver.discovery import Discovery
from kscheduler.embedded.apiserver.fault_injection import FaultGate
from kscheduler.embedded.apiserver.faults import FaultRequest, Faults, mistake_in
from kscheduler.embedded.apiserver.handlers import Handlers, respond, respond_error
from kscheduler.embedded.apiserver.rendering import encode
from kscheduler.embedded.apiserver.service_proxy import ServiceProxy
from kscheduler.embedded.apiserver.watch_handler import Watches
from kscheduler.embedded.objects.registry import ObjectRegistry, utc_now
from kscheduler.embedded.objects.store import ObjectStore

_SHUTDOWN_SECONDS = 2.0


class EmbeddedAPIServer:
    """An API server on a port of this machine."""

    def __init__(
        self,
        *,
        now: Callable[[], datetime] = utc_now,
        seed: int | None = None,
        history_limit: int = 100_000,
        bookmark_seconds: float = 60.0,
        admin: bool = False,
        kinds: ServedKinds = USUAL,
        accept_hosts: Collection[str] = (),
    ) -> None:
        """Prepare the server without listening.

        Args:
            now: the clock of creation timestamps and ages.
            seed: makes UIDs, generated names and fault probabilities repeatable; None means a random seed.
            history_limit: changes per kind that watches can resume from; older ones answer 410.
            bookmark_seconds: time between the bookmarks of a watch.
            admin: whether POST /_faults is served.
            kinds: what is served, and the release that /version names.
            accept_hosts: names by which clients may call it, besides addresses and localhost.
        """
        self.store = ObjectStore(history_limit)
        self.registry = ObjectRegistry(self.store, now, random.Random(seed), kinds)
        self.registry.has_comparisons = kinds.has_comparisons
        self.faults = Faults(seed or 0)
        self.watches = Watches(self.registry, self.faults, bookmark_seconds)
        self.faults.drop_watches = self.watches.streams.drop
        self.faults.stall_watches = self.watches.streams.stall
        self.faults.resume_watches = self.watches.streams.resume
        self.faults.expire_history = self.store.compact
        self._handlers = Handlers(
            self.registry,
            self.watches,
            Discovery(self.registry.kinds, partial(openapi.document, self.registry.kinds)),
            kinds,
        )
        self._proxy = ServiceProxy(self.store)
        self._gate = FaultGate(self.faults, self._handle)
        self._admin = admin
        self._accept_hosts = frozenset(name.lower() for name in accept_hosts)
        self._runner: web.ServerRunner | None = None
        self._address = ("", 0)

    @property
    def url(self) -> str:
        """The server's URL, `http://host:port`."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 means any free port. Raises OSError if the port is taken."""
        runner = web.ServerRunner(
            web.Server(self._response, handler_cancellation=True, access_log=None), shutdown_timeout=_SHUTDOWN_SECONDS
        )
        await runner.setup()
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        bound = runner.addresses[0]
        self._address = (str(bound[0]), int(bound[1]))

    async def aclose(self) -> None:
        """End all watches, finish requests in flight, stop listening."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            self.watches.streams.drop()
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        if self._runner is None:
            await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def kubeconfig(self) -> Object:
        """A kubeconfig whose current context is this server."""
        name = "kscheduler-embedded"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }

    def kubeconfig_text(self) -> str:
        """The kubeconfig as YAML."""
        text: str = yaml.safe_dump(self.kubeconfig(), sort_keys=False)
        return text

    async def _response(self, request: web.BaseRequest) -> web.StreamResponse:
        for header, authority in _authorities(request):
            if not is_named_safely(authority, self._accept_hosts):
                return respond_error(unknown_host(header, authority))
        if self._admin and request.path == "/_faults":
            return await self._obey(request)
        return await self._gate.handle(request)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            proxied = await self._proxy.answer(request) if "/proxy" in request.path else None
        except ApiError as error:
            return respond_error(error)
        return proxied or await self._handlers.handle(request)

    async def _obey(self, request: web.BaseRequest) -> web.Response:
        """The admin endpoint: POST changes the faults, other methods show them."""
        if request.method == "POST":
            try:
                self.faults.obey(msgspec.json.decode(await request.read(), type=FaultRequest))
            except msgspec.DecodeError as error:
                return respond_error(bad_request(f"/_faults: {mistake_in(error)}"))
        return respond(encode({"active": self.faults.active, "happened": self.faults.happened}))


def _authorities(request: web.BaseRequest) -> Iterator[tuple[str, str]]:
    """Whom the request calls, and the site whose page sends it if a browser does."""
    yield hdrs.HOST, request.headers.get(hdrs.HOST, "")
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None:
        yield hdrs.ORIGIN, urlsplit(origin).netloc or origin


# A service that runs together with a server, such as hollow kubelets; called with the started server.
Service = Callable[[EmbeddedAPIServer], AbstractAsyncContextManager[object]]


async def serve(
    server: EmbeddedAPIServer,
    port: int,
    services: Iterable[Service] = (),
    *,
    host: str = "127.0.0.1",
    on_ready: Callable[[EmbeddedAPIServer], None] = lambda _: None,
) -> None:
    """Run a server and its services until cancelled.

    Args:
        server: prepared but not started.
        port: the port to listen on; 0 means any free port.
        services: called with the started server, in order; closed in reverse.
        host: address to listen on.
        on_ready: called once everything is running, to print the address.
    """
    async with AsyncExitStack() as stack:
        await server.start(host, port)
        await stack.enter_async_context(server)
        for service in services:
            await stack.enter_async_context(service(server))
        on_ready(server)
        await asyncio.get_running_loop().create_future()
