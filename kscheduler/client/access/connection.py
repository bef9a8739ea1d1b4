"""Where the API server is, and the credentials to use.

kubernetes_asyncio loads the configuration (kubeconfig, in-cluster, exec plugins, OIDC, TLS); its API client, models and
watch are not used. The result is a `Connection`: a URL, credentials that renew themselves, and TLS contexts that
follow their files. Its description never contains a secret.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import (
    UNREADABLE,
    Credentials,
    FixedCredentials,
    LoaderCredentials,
    SayPluginIsSlow,
    SlowPlugin,
    TokenFile,
    ignore_slow_plugin,
    load_with,
    reason_of,
    tls_files_of,
)
from kscheduler.client.access.kubeconfig import KubeConfig, check_server_url, read_kubeconfig
from kscheduler.client.access.tls import TLSContexts, TLSFiles, TLSPlaces
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.client.watch import collector_paused

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
    ) -> None:
        """`contexts` is `None` for plain http. The description is for logs."""
        self.base_url = base_url.rstrip("/")
        self.description = description
        self.proxy = proxy
        self._credentials = credentials
        self._contexts = contexts
        self._renewing = asyncio.Lock()
        self._header = ""
        self._headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"Connection({self.description})"

    async def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request; the same object until the credentials change."""
        header = await self._credentials.authorization()
        if header != self._header:
            self._header = header
            self._headers = {"Authorization": header} if header else {}
        return self._headers

    async def refresh(self, rejected: Mapping[str, str]) -> bool:
        """Get new headers after a 401 to `rejected`; whether they differ, so that a retry makes sense."""
        async with self._renewing:  # of many refused requests only the first renews
            if await self.headers() is rejected:
                await self._credentials.renew()
            return await self.headers() is not rejected

    def ssl_context(self) -> ssl.SSLContext | bool:
        """The TLS context for a new connection; `True` (the default checks) for plain http."""
        return True if self._contexts is None else self._contexts.context()

    @property
    def server_name(self) -> str | None:
        """The name to expect in the server's certificate, where it differs from the URL's host."""
        return (self._contexts.files.server_name or None) if self._contexts is not None else None


def host_of(url: str) -> str:
    """Host and port of a server's URL, for messages and labels; without user and password."""
    return (urlsplit(url).netloc or url).rpartition("@")[2]


def plain_connection(url: str) -> Connection:
    """A server without credentials, such as `kubectl proxy` on http://127.0.0.1:8001."""
    check_server_url(url, "--master")
    contexts = TLSContexts(TLSFiles()) if url.startswith("https:") else None
    return Connection(url, url, FixedCredentials(), contexts)


async def load_connection(
    *,
    master: str = "",
    kubeconfig: str = "",
    context: str = "",
    allow_exec: bool = True,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = REAL_CLOCK,
    say_slow: SayPluginIsSlow = ignore_slow_plugin,
) -> Connection:
    """Find the API server as kubectl does: arguments, $KUBECONFIG, ~/.kube/config, then the pod's service account.

    `master` alone is a server without credentials; with `kubeconfig` it replaces the server's URL. `context` names an
    entry of the kubeconfig to use instead of its current-context. `say_slow` is called when an exec plugin takes long.
    Raises `ConfigurationError`: one line that names the file and the field.
    """
    if master and not kubeconfig:
        if context:
            message = f"--context {context}: --master alone needs no kubeconfig, and so no context; give one of the two"
            raise ConfigurationError(message)
        return plain_connection(master)
    paths = _kubeconfig_paths(kubeconfig, environ)
    if context and not paths:
        message = f"--context {context}: there is no kubeconfig: no --kubeconfig, no $KUBECONFIG, no ~/.kube/config"
        raise ConfigurationError(message)
    if paths:
        config = read_kubeconfig(paths, context)
        return await _from_kubeconfig(config, master, allow_exec=allow_exec, clock=clock, say_slow=say_slow)
    if "KUBERNETES_SERVICE_HOST" in environ:
        return load_service_account(environ, clock)
    message = (
        "no API server: there is no --master, no --kubeconfig, $KUBECONFIG is not set, "
        "~/.kube/config does not exist, and this is not a pod"
    )
    raise ConfigurationError(message)


def current_namespace(
    *, master: str = "", kubeconfig: str = "", context: str = "", environ: Mapping[str, str] = os.environ
) -> str:
    """The namespace that kubectl would take with the same arguments. Raises `ConfigurationError`."""
    paths = [] if master and not kubeconfig else _kubeconfig_paths(kubeconfig, environ)
    if paths:
        return read_kubeconfig(paths, context).namespace
    account_namespace = Path(_ACCOUNT) / "namespace"
    if not master and "KUBERNETES_SERVICE_HOST" in environ and account_namespace.exists():
        return account_namespace.read_text(encoding="utf-8").strip() or "default"
    return "default"


def _kubeconfig_paths(kubeconfig: str, environ: Mapping[str, str]) -> list[str]:
    """A file given as argument must exist. Missing files of $KUBECONFIG are skipped as in kubectl, unless all are."""
    if kubeconfig:
        return [kubeconfig]
    named = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if named:
        return [path for path in named if Path(path).expanduser().exists()] or named[:1]
    default = Path(environ["HOME"]) / ".kube" / "config" if environ.get("HOME") else None
    return [str(default)] if default is not None and default.exists() else []


async def _from_kubeconfig(
    config: KubeConfig, master: str, *, allow_exec: bool, clock: Clock, say_slow: SayPluginIsSlow
) -> Connection:
    where = f"kubeconfig {':'.join(config.files)}: context {config.context}"
    _refuse_what_is_not_supported(config, where, allow_exec=allow_exec)
    plugin = SlowPlugin(_command_of(config), say_slow)
    with plugin.timed():
        loader, configuration = await _load(config, where)
    url = master or config.server
    if master:
        check_server_url(master, "--master")
    contexts = None
    if url.startswith("https:"):
        contexts = TLSContexts(tls_files_of(configuration), clock, _places(config))
    credentials = _credentials(config, loader, configuration, clock, plugin)
    if isinstance(credentials, LoaderCredentials) and contexts is not None:
        credentials.give_certificates_to(contexts)
    return Connection(url, f"{url} ({where})", credentials, contexts, configuration.proxy)


def _places(config: KubeConfig) -> TLSPlaces:
    """The fields that hold authority and client certificate. Inline data wins over a file, as in kubectl."""
    return TLSPlaces(
        _place(config.cluster, config.cluster_place, "certificate-authority"),
        f"{config.user_place}.exec: the certificate that the plugin returned"
        if "exec" in config.user and not config.user.get("client-certificate")
        else _place(config.user, config.user_place, "client-certificate"),
    )


def _place(entry: dict[str, Any], where: str, field: str) -> str:
    return f"{where}.{field}-data" if entry.get(f"{field}-data") else f"{where}.{field}: {entry.get(field, '')}"


def _refuse_what_is_not_supported(config: KubeConfig, where: str, *, allow_exec: bool) -> None:
    if "exec" in config.user and not allow_exec:
        message = f"{where}: users.exec runs a program of the kubeconfig's choice; it must be allowed explicitly"
        raise ConfigurationError(message)
    for field in ("as", "as-uid", "as-groups", "as-user-extra"):
        if field in config.user:
            message = f"{where}: users.{field}: impersonation is not supported"
            raise ConfigurationError(message)


async def _load(config: KubeConfig, where: str) -> tuple[Any, Any]:
    with collector_paused():  # a thousand modules are imported
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader

    # The library logs each error before it raises it; only our own line should be seen.
    logging.getLogger("kubernetes_asyncio.config").setLevel(logging.CRITICAL)
    configuration = Configuration()
    try:
        loader = KubeConfigLoader(config.tree, active_context=config.context, config_base_path="")
        await load_with(loader, configuration)
    except (ConfigException, CredentialsError, *UNREADABLE) as error:
        message = f"{where}: {_plugin_of(config)}{reason_of(error)}"
        raise ConfigurationError(message) from None
    return loader, configuration


def _command_of(config: KubeConfig) -> str:
    plugin = config.user.get("exec")
    return str(plugin.get("command")) if isinstance(plugin, dict) else ""


def _plugin_of(config: KubeConfig) -> str:
    """The exec plugin's name, for errors: uvloop's "no such file" does not name the file."""
    command = _command_of(config)
    return f"users.exec {command}: " if command else ""


def _credentials(config: KubeConfig, loader: Any, configuration: Any, clock: Clock, plugin: SlowPlugin) -> Credentials:
    user = config.user
    if "exec" in user or "auth-provider" in user:
        return LoaderCredentials(loader, configuration, clock, plugin)
    if user.get("tokenFile") and not user.get("token"):
        return TokenFile(user["tokenFile"], clock)
    return FixedCredentials(str(configuration.api_key.get("BearerToken", "")).strip())


def load_service_account(environ: Mapping[str, str], clock: Clock = REAL_CLOCK, folder: str = _ACCOUNT) -> Connection:
    """The pod's own service account. Raises `ConfigurationError`."""
    with collector_paused():
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException, load_incluster_config

    token, authority = f"{folder}/token", f"{folder}/ca.crt"
    configuration = Configuration()
    try:
        load_incluster_config(
            configuration,
            try_refresh_token=False,
            token_filename=token,
            cert_filename=authority,
            environ=dict(environ),
        )
    except (ConfigException, OSError) as error:
        message = f"in-cluster configuration ({token}, {authority}, $KUBERNETES_SERVICE_HOST): {error}"
        raise ConfigurationError(message) from None
    contexts = TLSContexts(tls_files_of(configuration), clock)
    url = configuration.host
    return Connection(url, f"{url} (service account of this pod)", TokenFile(token, clock), contexts)
