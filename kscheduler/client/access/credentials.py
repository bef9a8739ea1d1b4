"""The Authorization header, kept up to date.

client-go's rules: a token file is read again each minute less ten seconds of leeway, and at once when the server
answers 401; exec plugins and OIDC run again when their credentials expire, and once on a 401.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.kubeconfig import token_fault
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.logs import redacted

_REREAD_SECONDS = 50.0
"""A minute less ten seconds of leeway."""


UNREADABLE = (ValueError, KeyError, TypeError, AssertionError, AttributeError)
"""What kubernetes_asyncio raises by accident over settings that it does not expect."""
_PLUGIN_PROBLEMS = (
    ("exec: failed to decode process output", "what it prints is no ExecCredential in JSON"),
    ("exec: malformed response. missing key", "what it prints is no ExecCredential: there is no"),
    ("exec: malformed request. missing key", "there is no"),
    ("exec: process returned", "it ended with exit code"),
)
"""The library's words about exec plugins, and our words for them; the text after them stays."""


class Credentials(Protocol):
    """What proves our identity."""

    async def authorization(self) -> str:
        """The Authorization header, or nothing. Raises `CredentialsError`."""
        ...

    async def renew(self) -> None:
        """Get new credentials: the server has refused the current ones. Raises `CredentialsError`."""
        ...


class FixedCredentials:
    """A header that never changes: an inline token, a password, a client certificate, nothing at all."""

    def __init__(self, header: str = "") -> None:
        self._header = header

    async def authorization(self) -> str:
        """The header as given."""
        return self._header

    async def renew(self) -> None:
        """There is nothing newer."""


class TokenFile:
    """A token in a file that is rotated: a service account's, or kubeconfig's `tokenFile`."""

    def __init__(self, path: str, clock: Clock = REAL_CLOCK) -> None:
        """Raises `ConfigurationError` if the file holds no token at the start."""
        self._path = Path(path)
        self._clock = clock
        self._read_at = clock.monotonic()
        self._header = ""
        try:
            self._read()
        except CredentialsError as error:
            raise ConfigurationError(str(error)) from None

    async def authorization(self) -> str:
        """The token read at most 50 seconds ago; while the file cannot be read, the last good one."""
        if self._clock.monotonic() - self._read_at >= _REREAD_SECONDS:
            self._read_at = self._clock.monotonic()
            await self._read_if_possible()
        return self._header

    async def renew(self) -> None:
        """Read the file now."""
        await self._read_if_possible()

    async def _read_if_possible(self) -> None:
        try:
            self._read()
        except CredentialsError:
            return  # in the middle of a rotation; if the old token has expired, the server answers 401

    def _read(self) -> None:
        try:
            token = self._path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            message = f"token file {self._path}: {getattr(error, 'strerror', None) or 'not ASCII text'}"
            raise CredentialsError(message) from None
        fault = token_fault(token) if token else "it is empty"
        if fault:
            message = f"token file {self._path}: {fault}"
            raise CredentialsError(message)
        self._header = f"Bearer {token}"
        self._read_at = self._clock.monotonic()


SLOW_PLUGIN_SECONDS = 5.0
"""An exec plugin that takes longer is reported: some wait for input, or for a network that is down."""

SayPluginIsSlow = Callable[[str, float], None]
"""Called with the command of an exec plugin and the seconds it has been running."""


def ignore_slow_plugin(_command: str, _seconds: float) -> None:
    """The default where there is no log."""


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

    def give_certificates_to(self, contexts: TLSContexts) -> None:
        """Pass client certificates that an exec plugin returns on to `contexts`."""
        self._contexts = contexts

    async def authorization(self) -> str:
        """The loader's header; the loader is called again when its credentials may have expired."""
        expires = hasattr(self._loader, "exec_plugin_expiry") or bool(self._loader.provider)
        if expires and self._clock.monotonic() - self._looked_at >= _REREAD_SECONDS:
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
                self._contexts.follow(tls_files_of(self._configuration))
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
    from kubernetes_asyncio.config import ConfigException

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


def tls_files_of(configuration: Any) -> TLSFiles:
    """The TLS settings in the library's configuration."""
    return TLSFiles(
        authority=configuration.ssl_ca_cert or "",
        certificate=configuration.cert_file or "",
        key=configuration.key_file or "",
        verify=bool(configuration.verify_ssl),
        server_name=configuration.tls_server_name or "",
    )
