"""The login of the secure port: its certificate, its clients' authorities, and whom to ask about them.

Reviews go over four connections of their own, to the API server that the scheduler itself is connected to, unless
`--authentication-kubeconfig` or `--authorization-kubeconfig` name another.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.aio.tasks import BackgroundService
from kscheduler.client.access.connection import Connection, load_connection
from kscheduler.client.errors import ConfigurationError
from kscheduler.client.rest import APIClient
from kscheduler.client.rest_statistics import RESTStatistics
from kscheduler.config.errors import config_error
from kscheduler.server.access import DelegatedAccess, PermitToken
from kscheduler.server.connections import ConnectionSlots
from kscheduler.server.login.authentication import Authenticator
from kscheduler.server.login.authorities import ClientAuthorities
from kscheduler.server.login.cluster_authentication import ClusterAuthentication, LookupFailedError
from kscheduler.server.login.login_metrics import LoginMetrics
from kscheduler.server.login.permissions import PATH as ACCESS_REVIEWS
from kscheduler.server.login.permissions import OpenPaths, Permissions
from kscheduler.server.login.reviews import ANSWER_SECONDS, CONNECTIONS, Reviews
from kscheduler.server.login.tokens import PATH as TOKEN_REVIEWS
from kscheduler.server.login.tokens import TokenAuthenticator
from kscheduler.server.serving import HTTPServing
from kscheduler.server.tls.key_pairs import KeyPairError
from kscheduler.server.tls.serving_contexts import MadePair, ServingContexts
from kscheduler.telemetry.samples import Sample


class LoginConnections(msgspec.Struct, frozen=True):
    """The API servers that are asked."""

    authentication: Connection
    authorization: Connection

    @property
    def warnings(self) -> tuple[str, ...]:
        """Those of both, for the log."""
        return (*self.authentication.warnings, *self.authorization.warnings)


async def login_connections(serving: HTTPServing, own: Connection) -> LoginConnections:
    """As the flags say; otherwise the scheduler's own. Raises `ConfigurationError`."""
    if serving.secure_port is None:
        return LoginConnections(own, own)
    return LoginConnections(
        await _connection("--authentication-kubeconfig", serving.authentication.kubeconfig, own),
        await _connection("--authorization-kubeconfig", serving.authorization.kubeconfig, own),
    )


async def _connection(flag: str, kubeconfig: str, own: Connection) -> Connection:
    if not kubeconfig:
        return own
    try:
        return await load_connection(kubeconfig=kubeconfig, named_by=flag)
    except ConfigurationError as error:
        message = f"{flag}: {error}"
        raise ConfigurationError(message) from None


class Login:
    """All parts of the login, built but not running."""

    def __init__(
        self,
        serving: HTTPServing,
        connections: LoginConnections,
        clock: Clock,
        token: PermitToken | None,
        made: MadePair | None = None,
    ) -> None:
        """`made`: the certificate that this process has made already.

        Raises `ConfigError` if the files of certificates or authorities cannot be used.
        """
        self._serving = serving
        self._token = token
        self.metrics = LoginMetrics()
        self._clients = _clients(connections, clock)
        asks_who, asks_whether = self._clients[0], self._clients[-1]
        try:
            self.contexts = ServingContexts(serving.tls, clock, made)
            self.authorities = ClientAuthorities(serving.authentication, self.contexts.trust_clients)
        except KeyPairError as error:
            raise config_error("", str(error), "serving") from error
        self._cluster = ClusterAuthentication(asks_who, self.authorities, clock)
        metrics = self.metrics
        reviews = Reviews(asks_who, TOKEN_REVIEWS, metrics.token_reviews, metrics.token_review_seconds, clock)
        self._tokens = TokenAuthenticator(reviews, serving.authentication.token_cache_seconds, clock)
        metrics.tokens = self._tokens.cache
        self._authenticator = Authenticator(self.authorities, self._tokens, metrics, clock)
        reviews = Reviews(asks_whether, ACCESS_REVIEWS, metrics.access_reviews, metrics.access_review_seconds, clock)
        self._permissions = Permissions(reviews, serving.authorization, metrics, clock)

    def access(self, connection_slots: ConnectionSlots) -> DelegatedAccess:
        """The gate in front of the secure port."""
        open_paths = OpenPaths(self._serving.authorization.always_allow_paths)
        return DelegatedAccess(connection_slots, self._authenticator, self._permissions, open_paths, self._token)

    async def open(self, ends: AsyncExitStack) -> None:
        """Open the clients, which `ends` closes.

        Raises `ConfigurationError` where the cluster's authorities must be known at the start and cannot be read.
        """
        for client in self._clients:
            await ends.enter_async_context(client)
        ends.push_async_callback(self._tokens.cache.aclose)
        ends.push_async_callback(self._permissions.cache.aclose)
        if not self._serving.authentication.tolerate_lookup_failure:
            try:
                await self._cluster.look_up()
            except LookupFailedError as error:
                message = f"--authentication-tolerate-lookup-failure=false: {error}"
                raise ConfigurationError(message) from error

    def services(self) -> tuple[BackgroundService, ...]:
        """What keeps certificate and authorities up to date."""
        return (
            BackgroundService("serving-certificate", self.contexts.run),
            BackgroundService("client-authorities", self._cluster.run),
        )

    def samples(self) -> Iterable[Sample]:
        """A metrics `Source`."""
        yield from self.metrics.samples()
        yield from self.contexts.samples()

    def request_statistics(self) -> Sequence[Callable[[], RESTStatistics]]:
        """For the series of requests to the API server."""
        return [client.statistics for client in self._clients]


def _clients(connections: LoginConnections, clock: Clock) -> list[APIClient]:
    """One client, or two where the two questions go to different servers."""
    distinct = dict.fromkeys((connections.authentication, connections.authorization))
    return [
        APIClient(one, max_connections=CONNECTIONS, timeout_seconds=ANSWER_SECONDS, clock=clock) for one in distinct
    ]
