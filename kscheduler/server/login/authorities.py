"""The authorities of clients: from files or from the cluster, and the rules for front proxies.

What the flags name wins; what they leave out comes from the cluster's ConfigMap `extension-apiserver-authentication`,
as in kube-scheduler. Each change is handed on to the TLS contexts.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from kscheduler.server.login.client_certificates import AuthorityBundle, AuthorityBundleError, RequestHeaderRules
from kscheduler.server.tls.key_pairs import KeyPairError, read_pem


class RequestHeaderSettings(msgspec.Struct, frozen=True):
    """The `--requestheader-*` flags, which count where `client_ca_file` is given."""

    client_ca_file: str = ""
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()


class AuthenticationSettings(msgspec.Struct, frozen=True):
    """How clients prove who they are."""

    kubeconfig: str = ""
    """For TokenReviews and the ConfigMap; empty: as the scheduler itself is connected."""
    client_ca_file: str = ""
    request_header: RequestHeaderSettings = msgspec.field(default_factory=RequestHeaderSettings)
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_cache_seconds: float = 10.0


class ClientAuthorities:
    """The bundles in force."""

    def __init__(self, settings: AuthenticationSettings, trust: Callable[[Sequence[str]], None]) -> None:
        """`trust` is called with the authorities' PEM at each change. Raises `KeyPairError` for unusable files."""
        self._settings = settings
        self._trust = trust
        self.clients: AuthorityBundle | None = None
        self.front_proxies: RequestHeaderRules | None = None
        self._from_cluster: tuple[AuthorityBundle | None, RequestHeaderRules | None] = (None, None)
        self.look()

    @property
    def asks_cluster(self) -> bool:
        """Whether anything is left for the cluster to say."""
        settings = self._settings
        missing = not (settings.client_ca_file and settings.request_header.client_ca_file)
        return missing and not settings.skip_lookup

    def take_from_cluster(self, clients: AuthorityBundle | None, front_proxies: RequestHeaderRules | None) -> None:
        """What the ConfigMap says; parts that flags have named are left as they are. Raises `KeyPairError`."""
        self._from_cluster = clients, front_proxies
        self.look()

    def look(self) -> None:
        """Read the files again. Raises `KeyPairError`; then everything stays as it is."""
        self._apply(*self._merged(*self._read_files()))

    async def follow(self) -> None:
        """The same, with the files read in a thread: a mount may not answer."""
        self._apply(*self._merged(*await asyncio.to_thread(self._read_files)))

    def _read_files(self) -> tuple[AuthorityBundle | None, AuthorityBundle | None]:
        settings, header = self._settings, self._settings.request_header
        clients = read_bundle(settings.client_ca_file) if settings.client_ca_file else None
        return clients, read_bundle(header.client_ca_file) if header.client_ca_file else None

    def _merged(
        self, own_clients: AuthorityBundle | None, own_front_proxies: AuthorityBundle | None
    ) -> tuple[AuthorityBundle | None, RequestHeaderRules | None]:
        """What the flags' files say, and the cluster's word for the rest."""
        header = self._settings.request_header
        clients, rules = self._from_cluster
        if own_clients is not None:
            clients = own_clients
        if own_front_proxies is not None:
            rules = RequestHeaderRules(
                own_front_proxies,
                header.username_headers,
                header.uid_headers,
                header.group_headers,
                header.extra_prefixes,
                header.allowed_names,
            )
        return clients, rules

    def _apply(self, clients: AuthorityBundle | None, rules: RequestHeaderRules | None) -> None:
        if (clients, rules) == (self.clients, self.front_proxies):
            return
        bundles = [bundle.pem for bundle in (clients, rules.authority if rules is not None else None) if bundle]
        self._trust(bundles)
        self.clients, self.front_proxies = clients, rules


def read_bundle(path: str) -> AuthorityBundle:
    """Authorities from a file. Raises `KeyPairError`."""
    try:
        return AuthorityBundle.parse(read_pem(path).decode("utf-8", errors="replace"))
    except AuthorityBundleError as error:
        message = f"{path}: {error}"
        raise KeyPairError(message) from None
