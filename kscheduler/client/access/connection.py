"""Where the API server is, and the credentials to use.

Service accounts and users with a token, a password or a certificate are read here and in `plain_user`, exec plugins
are run by `exec_plugin`; users of a provider such as OIDC are left to kubernetes_asyncio (`plugin_user`), which is
imported for them alone: its import takes twice the CPU of all the rest of a start. The result is a `Connection`: a URL,
credentials that renew themselves, TLS contexts that follow their files, and the proxy on the way, if there is one. Its
description never contains a secret.
"""

import asyncio
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from multidict import CIMultiDict, MultiMapping

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.api.addresses import is_loopback
from kscheduler.client.access.credentials import (
    Credentials,
    FixedCredentials,
    SayPluginIsSlow,
    TokenFile,
    ignore_slow_plugin,
)
from kscheduler.client.access.exec_plugin import ExecPlugin
from kscheduler.client.access.kubeconfig import KubeConfig, read_kubeconfig
from kscheduler.client.access.kubeconfig_rules import check_verification, kind_of_user, server_url
from kscheduler.client.access.plain_user import credentials_of, impersonation_of, tls_files_of
from kscheduler.client.access.proxies import Proxy, environment_proxy
from kscheduler.client.access.tls import TLSContexts, TLSFieldNames, TLSFiles
from kscheduler.client.errors import ConfigurationError, CredentialsError

_TLS_FIELDS = (
    *("certificate-authority", "certificate-authority-data", "insecure-skip-tls-verify", "tls-server-name"),
    *("client-certificate", "client-certificate-data"),
)
_SENT_IN_CLEAR = ("token", "tokenFile", "password", "exec", "auth-provider")
_NO_HEADERS: MultiMapping[str] = CIMultiDict[str]()
_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Connection:
    """How to reach one API server as one identity."""

    def __init__(
        self,
        base_url: str,
        description: str,
        credentials: Credentials,
        contexts: TLSContexts | None = None,
        proxy: str | None = None,
        warnings: tuple[str, ...] = (),
        impersonation: MultiMapping[str] = _NO_HEADERS,
    ) -> None:
        """`contexts` is `None` for plain http. The description and the warnings are for logs.

        `impersonation`: headers that ask to be somebody else, beside those that say who asks.
        """
        self.base_url = base_url.rstrip("/")
        self.description = description
        self.proxy = proxy
        """The URL of the proxy on the way, with its password; `None`: the server is reached directly."""
        self.warnings = warnings
        """What an operator should know of its safety: what is not verified, what is not sent."""
        self.contexts = contexts
        """TLS contexts that follow their files; `None`: the default checks, or plain http."""
        self._credentials = credentials
        self._renewing = asyncio.Lock()
        self._impersonation = impersonation
        self._header = ""
        self._headers: Mapping[str, str] = impersonation

    def __repr__(self) -> str:
        return f"Connection({self.description})"

    async def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request; the same object until the credentials change.

        A name may have several values (`Impersonate-Group`): `items` gives each.
        """
        header = await self._credentials.authorization()
        if header != self._header:
            self._header = header
            headers = CIMultiDict({"Authorization": header} if header else {})
            headers.extend(self._impersonation)
            self._headers = headers
        return self._headers

    def current_headers(self) -> Mapping[str, str] | None:
        """The same, where nothing has to be waited for and nothing has changed; otherwise `None`."""
        return self._headers if self._credentials.current() == self._header else None

    async def refresh(self, rejected: Mapping[str, str]) -> bool:
        """Get new headers after a 401 to `rejected`; whether they differ, so that a retry makes sense."""
        async with self._renewing:  # of many refused requests only the first renews
            if await self.headers() is rejected:
                await self._credentials.renew()
            return await self.headers() is not rejected

    def ssl_context(self) -> ssl.SSLContext | bool:
        """The TLS context for a new connection; `True` (the default checks) for plain http."""
        return True if self.contexts is None else self.contexts.context()

    @property
    def server_name(self) -> str | None:
        """The name to expect in the server's certificate, where it differs from the URL's host."""
        return (self.contexts.files.server_name or None) if self.contexts is not None else None


def host_of(url: str) -> str:
    """Host and port of a server's URL, for messages and labels; without user and password."""
    return (urlsplit(url).netloc or url).rpartition("@")[2]


def plain_connection(url: str, environ: Mapping[str, str] = os.environ) -> Connection:
    """A server without credentials, such as `kubectl proxy` on http://127.0.0.1:8001. Raises `ConfigurationError`."""
    url = server_url(url, "--master")
    contexts = TLSContexts(TLSFiles()) if url.startswith("https:") else None
    proxy = environment_proxy(url, environ)
    return Connection(url, _through(proxy, url), FixedCredentials(), contexts, proxy.url if proxy else None)


async def load_connection(
    *,
    master: str = "",
    kubeconfig: str = "",
    context: str = "",
    named_by: str = "--kubeconfig",
    allow_exec: bool = True,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = REAL_CLOCK,
    say_slow: SayPluginIsSlow = ignore_slow_plugin,
) -> Connection:
    """Find the API server as kubectl does: arguments, $KUBECONFIG, ~/.kube/config, then the pod's service account.

    `master` alone is a server without credentials; with `kubeconfig` it replaces the server's URL. `context` names an
    entry of the kubeconfig to use instead of its current-context. `named_by`: who names `kubeconfig`, for messages.
    `say_slow` is called when an exec plugin takes long.
    Raises `ConfigurationError`: one line that names the file and the field.
    """
    if master and not kubeconfig:
        if context:
            message = f"--context {context}: --master alone needs no kubeconfig, and so no context; give one of the two"
            raise ConfigurationError(message)
        return plain_connection(master, environ)
    named_by, paths = (named_by, [kubeconfig]) if kubeconfig else kubeconfigs_found(environ)
    if context and not paths:
        message = f"--context {context}: there is no kubeconfig: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config"
        raise ConfigurationError(message)
    if paths:
        config = read_kubeconfig(paths, context, named_by)
        server = server_url(master, "--master") if master else config.server
        proxy = config.proxy or environment_proxy(server, environ)
        return await _from_kubeconfig(config, server, proxy, allow_exec=allow_exec, clock=clock, say_slow=say_slow)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return load_service_account(environ, clock)
    message = (
        "no API server: there is no --master, no --kubeconfig, $KUBECONFIG is not set, "
        "~/.kube/config does not exist, and this is not a pod (`kscheduler cluster` runs one to try things on)"
    )
    raise ConfigurationError(message)


def current_namespace(
    *,
    master: str = "",
    kubeconfig: str = "",
    context: str = "",
    named_by: str = "--kubeconfig",
    environ: Mapping[str, str] = os.environ,
) -> str:
    """The namespace that kubectl would take with the same arguments. Raises `ConfigurationError`."""
    found = kubeconfigs_found(environ) if not (master or kubeconfig) else ("", [])
    named_by, paths = (named_by, [kubeconfig]) if kubeconfig else found
    if paths:
        return read_kubeconfig(paths, context, named_by).namespace
    account_namespace = Path(_ACCOUNT) / "namespace"
    if not master and "KUBERNETES_SERVICE_HOST" in environ and account_namespace.exists():
        return account_namespace.read_text(encoding="utf-8").strip() or "default"
    return "default"


def kubeconfigs_found(environ: Mapping[str, str] = os.environ) -> tuple[str, list[str]]:
    """Who names the files that kubectl takes by itself, and these; none where there are none.

    Missing files of $KUBECONFIG are skipped as in kubectl, unless all are.
    """
    named = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if named:
        return "$KUBECONFIG", [path for path in named if Path(path).expanduser().exists()] or named[:1]
    default = Path(environ["HOME"]) / ".kube" / "config" if environ.get("HOME") else None
    return "~/.kube/config", [str(default)] if default is not None and default.exists() else []


async def _from_kubeconfig(
    config: KubeConfig, url: str, proxy: Proxy | None, *, allow_exec: bool, clock: Clock, say_slow: SayPluginIsSlow
) -> Connection:
    where = f"kubeconfig {':'.join(config.files)}: context {config.context}"
    if config.user.get("exec") and not allow_exec:
        message = f"{where}: users.exec runs a program of the kubeconfig's choice; it must be allowed explicitly"
        raise ConfigurationError(message)
    if url != config.server:  # as with kubectl's --server: the name belongs to the kubeconfig's own server
        config.cluster.pop("tls-server-name", None)
    speaks_tls = url.startswith("https:")
    if speaks_tls:
        check_verification(config.cluster, config.cluster_name, config.cluster_place)
    credentials: Credentials
    plugin: ExecPlugin | None = None
    match kind_of_user(config.user):
        case "exec":
            credentials = plugin = ExecPlugin(config, url, clock, say_slow)
            await plugin.begin(where)
            files = plugin.files
        case "auth-provider":
            from kscheduler.client.access.plugin_user import ask_provider

            credentials = provider = await ask_provider(config, where, clock)
            files = provider.files
        case "plain":
            credentials, files = credentials_of(config, clock), tls_files_of(config)
    contexts = TLSContexts(files, clock, _places(config)) if speaks_tls else None
    if plugin is not None and contexts is not None:
        plugin.give_certificates_to(contexts)
    warnings = tuple(_warnings(config, url, speaks_tls=speaks_tls))
    user = config.user.get("as")
    described = _through(proxy, f"{url} ({where}{f', impersonating {user}' if user else ''})")
    by = proxy.url if proxy else None
    return Connection(url, described, credentials, contexts, by, warnings, impersonation_of(config.user))


def _warnings(config: KubeConfig, url: str, *, speaks_tls: bool) -> Iterator[str]:
    """What anybody on the way to the API server could do with these settings."""
    cluster, user = config.cluster, config.user
    if speaks_tls and cluster.get("insecure-skip-tls-verify"):
        yield (
            f"{config.cluster_place}.insecure-skip-tls-verify: the server's certificate is not verified: anyone on "
            "the way reads and changes everything, and gets the credentials; give certificate-authority instead"
        )
    if speaks_tls or is_loopback(urlsplit(url).hostname or ""):
        return
    unused = [name for name in _TLS_FIELDS if cluster.get(name) or user.get(name)]
    if unused:
        yield f"{url} is plain HTTP: {', '.join(unused)} of the kubeconfig are not used, and no certificate is verified"
    if any(user.get(name) for name in _SENT_IN_CLEAR):
        yield f"{url} is plain HTTP: the user's token or password is sent where everybody on the way can read it"


def _through(proxy: Proxy | None, described: str) -> str:
    return described if proxy is None else f"{described} through {proxy.shown} ({proxy.place})"


def _places(config: KubeConfig) -> TLSFieldNames:
    """The fields that hold authority and client certificate."""
    return TLSFieldNames(
        _place(config.cluster, config.cluster_place, "certificate-authority"),
        f"{config.user_place}.exec: the certificate that the plugin returned"
        if kind_of_user(config.user) == "exec"
        else _place(config.user, config.user_place, "client-certificate"),
    )


def _place(entry: dict[str, Any], where: str, field: str) -> str:
    return f"{where}.{field}-data" if entry.get(f"{field}-data") else f"{where}.{field}: {entry.get(field, '')}"


def load_service_account(environ: Mapping[str, str], clock: Clock = REAL_CLOCK, folder: str = _ACCOUNT) -> Connection:
    """The pod's own service account. Raises `ConfigurationError`."""
    token, authority = f"{folder}/token", f"{folder}/ca.crt"
    try:
        url = _server_of_the_cluster(environ)
        credentials = TokenFile(token, clock)
        contexts = TLSContexts(TLSFiles(authority=_not_empty(authority)), clock)
        proxy = environment_proxy(url, environ)
    except (ConfigurationError, CredentialsError) as error:
        message = f"in-cluster configuration ({token}, {authority}, $KUBERNETES_SERVICE_HOST): {error}"
        raise ConfigurationError(message) from None
    described = _through(proxy, f"{url} (service account of this pod)")
    return Connection(url, described, credentials, contexts, proxy.url if proxy else None)


def _server_of_the_cluster(environ: Mapping[str, str]) -> str:
    """The URL from the variables that the kubelet sets; an IPv6 address gets its brackets."""
    host, port = (environ.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        message = "$KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT must both be set"
        raise ConfigurationError(message)
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return server_url(url, "$KUBERNETES_SERVICE_HOST, $KUBERNETES_SERVICE_PORT")


def _not_empty(path: str) -> str:
    """The path of the authority; an empty file would mean the machine's own authorities to OpenSSL."""
    try:
        size = Path(path).stat().st_size
    except OSError as error:
        message = f"certificate-authority {path}: {error.strerror or error}"
        raise ConfigurationError(message) from None
    if not size:
        message = f"certificate-authority {path}: it is empty"
        raise ConfigurationError(message)
    return path
