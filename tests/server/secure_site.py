"""A secure server on loopback, with its login, in front of an embedded API server."""

import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from kscheduler.aio import VirtualClock
from kscheduler.client.access.connection import Connection, plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.objects.access.reviews import token_request
from kscheduler.server import (
    Address,
    Endpoints,
    Health,
    HTTPServing,
    Limits,
    Offer,
    PermitTokenFile,
    Port,
    Server,
    WaitingPodsEndpoint,
)
from kscheduler.server.routes import PageForBrowsers
from kscheduler.service.login import Login, LoginConnections
from kscheduler.state.waiting_pods import WaitingPodTable
from kscheduler.telemetry.exposition import Exposition
from tests.server.pki import trusting

NOTE = "pods: shop/checkout-7 cannot be decoded"
READER = "system:serviceaccount:monitoring:prometheus"


def token_of(account: str) -> str:
    """A token that the embedded API server takes for the account's."""
    _, _, namespace, name = account.split(":")
    return str(token_request(namespace, name, {}, datetime.now(UTC))["status"]["token"])


@dataclass
class SecureSite:
    """The server, what it is made of, and how to ask it."""

    api: EmbeddedAPIServer
    login: Login
    server: Server
    clock: VirtualClock

    async def get(
        self,
        path: str,
        token: str = "",
        context: ssl.SSLContext | None = None,
        method: str = "GET",
        **headers: str,
    ) -> tuple[int, str]:
        """Status and text of a request over a connection of its own."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        base = f"https://127.0.0.1:{self.server.port}"
        connector = aiohttp.TCPConnector(ssl=context or trusting(), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, URL(f"{base}{path}", encoded=True), headers=sent) as response,
        ):
            return response.status, await response.text()

    async def status(self, path: str, token: str = "", context: ssl.SSLContext | None = None, **headers: str) -> int:
        """The status alone."""
        return (await self.get(path, token, context, **headers))[0]

    async def grant(self, user: str, *paths: str, verbs: tuple[str, ...] = ("get",), name: str = "") -> None:
        """Let a user read paths, as an administrator would; without paths take the right away."""
        role = name or f"reads-{abs(hash(user))}"
        group = "/apis/rbac.authorization.k8s.io/v1"
        async with APIClient(plain_connection(self.api.url)) as client:
            if not paths:
                await client.delete(f"{group}/clusterrolebindings/{role}")
                return
            rules = [{"nonResourceURLs": list(paths), "verbs": list(verbs)}]
            await client.post(f"{group}/clusterroles", _json("ClusterRole", role, rules=rules))
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            if user.startswith("group:"):
                subject = {**subject, "kind": "Group", "name": user.removeprefix("group:")}
            elif user.startswith("system:serviceaccount:"):
                _, _, namespace, account = user.split(":")
                subject = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
            binding = _json("ClusterRoleBinding", role, roleRef=reference, subjects=[subject])
            await client.post(f"{group}/clusterrolebindings", binding)

    def requests(self, part: str) -> int:
        """How many reviews of a kind were asked for: `authn` or `authz`."""
        metrics = self.login.metrics
        total = metrics.token_reviews if part == "authn" else metrics.access_reviews
        return sum(total.values())


def _json(kind: str, name: str, **fields: object) -> bytes:
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    return msgspec.json.encode({**head, **fields})


@asynccontextmanager
async def secure_site(
    serving: HTTPServing | None = None,
    *,
    token_file: Path | None = None,
    limits: Limits | None = None,
    connection: Connection | None = None,
    status_page: PageForBrowsers | None = None,
) -> AsyncIterator[SecureSite]:
    """Everything running; the login's own services are run by the test, since its clock is virtual."""
    clock = VirtualClock(wall=time.time())
    exposition = Exposition([])
    token = PermitTokenFile(token_file) if token_file is not None else None
    async with AsyncExitStack() as ends:
        api = await ends.enter_async_context(EmbeddedAPIServer(seed=1))
        queried = connection or plain_connection(api.url)
        login = Login(serving or HTTPServing(), LoginConnections(queried, queried), clock, token)
        endpoints = Endpoints(
            livez=Health("livez", {}),
            readyz=Health("readyz", {}, lambda: [NOTE]),
            healthz=Health("healthz", {}),
            exposition=exposition,
            component_config=lambda: b'{"kind":"KubeSchedulerConfiguration"}',
            waiting_pods=WaitingPodsEndpoint(WaitingPodTable(), token, clock),
            status_page=status_page,
        )
        contexts = login.contexts
        port = Port("https", Address("127.0.0.1", 0), Offer.EVERYTHING, login.access, lambda: contexts.current)
        server = Server(endpoints, port, limits=limits or Limits(turns_per_second=1_000_000.0))
        await server.start()
        ends.callback(exposition.close)
        ends.push_async_callback(server.aclose)
        await login.open(ends)
        yield SecureSite(api, login, server, clock)
