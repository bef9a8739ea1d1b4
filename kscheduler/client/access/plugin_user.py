"""A kubeconfig user whose credentials a program or a provider hands out: exec plugins, OIDC and the like.

kubernetes_asyncio runs the plugin, reads its answer and knows when it expires. It is asked for new credentials when
they expire, and once when the server answers 401, as client-go does. Its import costs a second of CPU (a thousand
modules of models that nobody uses here): only `connection` imports this module, and only for such users.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import REREAD_SECONDS, SayPluginIsSlow, ignore_slow_plugin
from kscheduler.client.access.kubeconfig import KubeConfig, token_fault
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.client.lists import collector_paused
from kscheduler.logs import redacted

with collector_paused():  # a thousand modules are imported
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import ConfigException
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

UNREADABLE = (ValueError, KeyError, TypeError, AssertionError, AttributeError)
"""What kubernetes_asyncio raises by accident over settings that it does not expect."""
_PLUGIN_PROBLEMS = (
    ("exec: failed to decode process output", "what it prints is no ExecCredential in JSON"),
    ("exec: malformed response. missing key", "what it prints is no ExecCredential: there is no"),
    ("exec: malformed request. missing key", "there is no"),
    ("exec: process returned", "it ended with exit code"),
)
"""The library's words about exec plugins, and our words for them; the text after them stays."""

SLOW_PLUGIN_SECONDS = 5.0
"""An exec plugin that takes longer is reported: some wait for input, or for a network that is down."""


async def run_plugin(config: KubeConfig, where: str, clock: Clock, say_slow: SayPluginIsSlow) -> "LoaderCredentials":
    """The credentials of the user in `config`, asked for once. Raises `ConfigurationError`."""
    # The library logs each error before it raises it; only our own line should be seen.
    logging.getLogger("kubernetes_asyncio.config").setLevel(logging.CRITICAL)
    configuration = Configuration()
    plugin = SlowPlugin(config.exec_command, say_slow)
    try:
        loader = KubeConfigLoader(config.tree, active_context=config.context, config_base_path="")
        with plugin.timed():
            await load_with(loader, configuration)
    except (ConfigException, CredentialsError, *UNREADABLE) as error:
        # By its name: uvloop's "no such file" does not name the file.
        program = f"users.exec {config.exec_command}: " if config.exec_command else ""
        message = f"{where}: {program}{reason_of(error)}"
        raise ConfigurationError(message) from None
    return LoaderCredentials(loader, configuration, clock, plugin)


class LoaderCredentials:
    """Credentials from kubernetes_asyncio's loader: exec plugins, OIDC and the like."""

    def __init__(
        self, loader: Any, configuration: Any, clock: Clock = REAL_CLOCK, plugin: "SlowPlugin | None" = None
    ) -> None:
        """`loader` and `configuration` come from the library, already loaded once."""
        self._loader = loader
        self._plugin = plugin or SlowPlugin("", ignore_slow_plugin)
        self._configuration = configuration
        self._clock = clock
        self._contexts: TLSContexts | None = None
        self._one_at_a_time = asyncio.Lock()
        self._looked_at = clock.monotonic()

    @property
    def files(self) -> TLSFiles:
        """The TLS settings of the cluster and of the user; inline data is in temporary files of the library."""
        return _tls_files(self._configuration)

    def give_certificates_to(self, contexts: TLSContexts) -> None:
        """Pass client certificates that an exec plugin returns on to `contexts`."""
        self._contexts = contexts

    async def authorization(self) -> str:
        """The loader's header; the loader is called again when its credentials may have expired."""
        expires = hasattr(self._loader, "exec_plugin_expiry") or bool(self._loader.provider)
        if expires and self._clock.monotonic() - self._looked_at >= REREAD_SECONDS:
            await self._load()
        return self._header()

    async def renew(self) -> None:
        """Run the plugin again, whatever it said about expiry."""
        if hasattr(self._loader, "exec_plugin_expiry"):
            del self._loader.exec_plugin_expiry
        await self._load()

    async def _load(self) -> None:
        async with self._one_at_a_time:
            self._looked_at = self._clock.monotonic()
            with self._plugin.timed():
                await load_with(self._loader, self._configuration)
            if self._contexts is None:
                return
            try:
                self._contexts.follow(self.files)
            except ConfigurationError as error:  # the plugin's answer is not a certificate
                raise CredentialsError(str(error)) from error

    def _header(self) -> str:
        return str(self._configuration.api_key.get("BearerToken", "")).strip()


class SlowPlugin:
    """Reports an exec plugin that takes long, and again each time the duration has doubled."""

    def __init__(self, command: str, say: SayPluginIsSlow, first_seconds: float = SLOW_PLUGIN_SECONDS) -> None:
        """`command`: empty where there is no plugin."""
        self._command = command
        self._say = say
        self._first = first_seconds
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time the plugin, which runs in the body of the `with` statement."""
        if self._command:
            self._arm(self._first, self._first)
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _arm(self, delay: float, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay, self._report, seconds)

    def _report(self, seconds: float) -> None:
        self._say(self._command, seconds)
        self._arm(seconds, 2 * seconds)


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
    for raised, meaning in _PLUGIN_PROBLEMS:
        if raised in text:
            return meaning + redacted(text.partition(raised)[2])  # what the plugin has printed on standard error
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
