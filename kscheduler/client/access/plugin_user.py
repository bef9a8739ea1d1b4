"""A kubeconfig user whose credentials a provider hands out (`auth-provider`): OIDC and the like.

kubernetes_asyncio asks the provider and knows when its token expires. It is asked for new credentials when they
expire, and once when the server answers 401, as client-go does. Its import costs a second of CPU (a thousand
modules of models that nobody uses here): only `connection` imports this module, and only for such users.
"""

import asyncio
import logging
from typing import Any

import aiohttp

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import REREAD_SECONDS
from kscheduler.client.access.kubeconfig import KubeConfig
from kscheduler.client.access.kubeconfig_rules import token_fault
from kscheduler.client.access.tls import TLSFiles
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.client.lists import collector_paused

with collector_paused():  # a thousand modules are imported
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

# What kubernetes_asyncio raises by accident over settings that it does not expect.
UNREADABLE = (ValueError, KeyError, TypeError, AssertionError, AttributeError)


async def ask_provider(config: KubeConfig, where: str, clock: Clock) -> "LoaderCredentials":
    """The credentials of the user in `config`, asked for once. Raises `ConfigurationError`."""
    # The library logs each error before it raises it; only our own line should be seen.
    logging.getLogger("kubernetes_asyncio.config").setLevel(logging.CRITICAL)
    configuration = Configuration()
    try:
        loader = KubeConfigLoader(config.tree, active_context=config.context, config_base_path="")
        await load_with(loader, configuration)
    except (ConfigException, CredentialsError, *UNREADABLE) as error:
        message = f"{where}: {reason_of(error)}"
        raise ConfigurationError(message) from None
    return LoaderCredentials(loader, configuration, clock)


class LoaderCredentials:
    """Credentials from kubernetes_asyncio's loader: OIDC and the like."""

    def __init__(self, loader: Any, configuration: Any, clock: Clock = REAL_CLOCK) -> None:
        """`loader` and `configuration` come from the library, already loaded once."""
        self._loader = loader
        self._configuration = configuration
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._looked_at = clock.monotonic()

    @property
    def files(self) -> TLSFiles:
        """The TLS settings of the cluster and of the user; inline data is in temporary files of the library."""
        return _tls_files(self._configuration)

    def current(self) -> str | None:
        """The loader's header, if it was asked at most 50 seconds ago."""
        return self._header() if self._clock.monotonic() - self._looked_at < REREAD_SECONDS else None

    async def authorization(self) -> str:
        """The loader's header; the loader is called again when its credentials may have expired."""
        if self._clock.monotonic() - self._looked_at >= REREAD_SECONDS:
            await self.renew()
        return self._header()

    async def renew(self) -> None:
        """Ask the provider, which knows whether its token still holds."""
        async with self._one_at_a_time:
            self._looked_at = self._clock.monotonic()
            await load_with(self._loader, self._configuration)

    def _header(self) -> str:
        return str(self._configuration.api_key.get("BearerToken", "")).strip()


async def load_with(loader: Any, configuration: Any) -> None:
    """Let the library's loader fill its configuration; whatever it raises becomes a `CredentialsError`."""
    try:
        await loader.load_and_set(configuration)
    except (ConfigException, OSError, aiohttp.ClientError, *UNREADABLE) as error:
        raise CredentialsError(reason_of(error)) from error
    scheme, _, token = str(configuration.api_key.get("BearerToken", "")).strip().partition(" ")
    if fault := token_fault(
        token.strip()
    ):  # from an exec plugin or a provider; the kubeconfig's token was checked before
        message = f"the token ({scheme}) that it returned: {fault}"
        raise CredentialsError(message)


def reason_of(error: BaseException) -> str:
    """One line of text; an error that the library raises by accident keeps its type's name, for bug reports."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError) and error.strerror:
        return error.strerror  # without the number; the caller names the program
    if isinstance(error, UNREADABLE):
        return f"kubernetes_asyncio cannot read it ({type(error).__name__}: {text})"
    return text or type(error).__name__


def _tls_files(configuration: Any) -> TLSFiles:
    return TLSFiles(
        authority=configuration.ssl_ca_cert or "",
        certificate=configuration.cert_file or "",
        key=configuration.key_file or "",
        verify=bool(configuration.verify_ssl),
        server_name=configuration.tls_server_name or "",
    )
