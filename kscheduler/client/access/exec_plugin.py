"""A kubeconfig user whose credentials a program prints: client-go's exec plugins.

The program gets what it may know in KUBERNETES_EXEC_INFO (an ExecCredential: whether it may ask the user, and, where
the kubeconfig says `provideClusterInfo`, which cluster it is for), and prints an ExecCredential with a token, a client
certificate with its key, or both. It is run again when what it gave has expired, and once when the server answers 401.

Whatever it prints else is not shown, for it may be a secret; of its standard error the message has the words with
secrets taken out. An interactive program talks to the terminal directly.
"""

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import SayPluginIsSlow, ignore_slow_plugin
from kscheduler.client.access.kubeconfig import KubeConfig
from kscheduler.client.access.kubeconfig_rules import token_fault
from kscheduler.client.access.plain_user import tls_files_of
from kscheduler.client.access.tls import TLSContexts, TLSFiles
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.telemetry.logs.clean import redacted, short_line

# An exec plugin that takes longer is reported: some wait for input, or for a network that is down.
SLOW_PLUGIN_SECONDS = 5.0
_INFO: Final = "KUBERNETES_EXEC_INFO"
# The cluster's extension that is passed on to the plugin.
_CLUSTER_EXTENSION: Final = "client.authentication.k8s.io/exec"
_LONGEST_HINT: Final = 1000


class ExecPlugin:
    """Credentials that a program hands out."""

    def __init__(
        self, config: KubeConfig, server: str, clock: Clock = REAL_CLOCK, say_slow: SayPluginIsSlow = ignore_slow_plugin
    ) -> None:
        """Runs nothing yet. `server`: the API server's URL, which may come from another place than the kubeconfig."""
        self._config = config
        self._settings: Mapping[str, Any] = config.user["exec"]
        self._server = server
        self._clock = clock
        self._slow = SlowPlugin(config.exec_command, say_slow)
        self._one_at_a_time = asyncio.Lock()
        self._expires_at: float | None = None
        """Wall-clock seconds; `None`: what it gave holds until the server refuses it."""
        self._header = ""
        self._contexts: TLSContexts | None = None
        self.files: TLSFiles = tls_files_of(config)
        """The TLS settings of the cluster and the client certificate that the plugin gave."""

    async def begin(self, where: str) -> None:
        """Run it for the first time. Raises `ConfigurationError`."""
        try:
            await self._run()
        except CredentialsError as error:
            message = f"{where}: users.exec {self._config.exec_command}: {error}"
            raise ConfigurationError(message) from None

    def give_certificates_to(self, contexts: TLSContexts) -> None:
        """Pass client certificates that the plugin returns from now on to `contexts`."""
        self._contexts = contexts

    def current(self) -> str | None:
        """The header, unless it has expired."""
        return None if self._is_expired() else self._header

    async def authorization(self) -> str:
        """The header. The program is run again when what it gave has expired. Raises `CredentialsError`."""
        if self._is_expired():
            async with self._one_at_a_time:
                if self._is_expired():  # of many requests only the first runs it
                    await self._run()
        return self._header

    async def renew(self) -> None:
        """Run it again, whatever it said about expiry. Raises `CredentialsError`."""
        async with self._one_at_a_time:
            await self._run()

    def _is_expired(self) -> bool:
        return self._expires_at is not None and self._clock.time() > self._expires_at

    async def _run(self) -> None:
        with self._slow.timed():
            status = self._status_in(await self._printed())
        token, certificate, key = (_text(status, name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not (token or certificate or key):
            message = "it returned neither a token nor a certificate with its key"
            raise CredentialsError(message)
        if bool(certificate) != bool(key):
            message = f"it returned {'a certificate without its key' if certificate else 'a key without a certificate'}"
            raise CredentialsError(message)
        if token and (fault := token_fault(token.strip())):
            message = f"the token (Bearer) that it returned: {fault}"
            raise CredentialsError(message)
        expires_at = _moment(status.get("expirationTimestamp"))
        self._take_certificate(certificate, key)
        # Only now, when everything has been found to be good.
        self._expires_at = expires_at
        self._header = f"Bearer {token.strip()}" if token else ""

    def _take_certificate(self, certificate: str, key: str) -> None:
        files = tls_files_of(self._config, certificate, key)
        if files == self.files:
            return
        if self._contexts is not None:
            try:
                self._contexts.follow(files)
            except ConfigurationError as error:  # what the plugin gave is no certificate
                raise CredentialsError(str(error)) from error
        self.files = files

    async def _printed(self) -> bytes:
        is_interactive = self._is_interactive()
        environ = {**os.environ, **{entry["name"]: str(entry.get("value", "")) for entry in self._list("env")}}
        environ[_INFO] = json.dumps(self._info(is_interactive=is_interactive))
        try:
            program = await asyncio.create_subprocess_exec(
                self._config.exec_command,
                *map(str, self._list("args")),
                env=environ,
                stdin=None if is_interactive else DEVNULL,
                stdout=PIPE,
                stderr=None if is_interactive else PIPE,  # a prompt must be seen
            )
        except OSError as error:  # uvloop's "no such file" does not name the file
            hint = short_line(str(self._settings.get("installHint") or ""), _LONGEST_HINT)
            is_missing = bool(hint) and isinstance(error, FileNotFoundError | PermissionError)
            message = f"{error.strerror or error}" + (f": {hint}" if is_missing else "")
            raise CredentialsError(message) from None
        try:
            printed, complaint = await program.communicate()
        finally:
            if program.returncode is None:  # nobody waits for it any longer
                program.kill()
                await program.wait()
        if program.returncode:
            words = " ".join((complaint or b"").decode(errors="replace").split())
            message = f"it ended with exit code {program.returncode}" + (f". {redacted(words)}" if words else "")
            raise CredentialsError(message)
        return printed

    def _is_interactive(self) -> bool:
        """Whether it may ask the user. (`interactiveMode` has been checked.)"""
        mode = self._settings.get("interactiveMode") or "IfAvailable"
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not is_terminal:
            message = "its interactiveMode is Always, and standard input is no terminal"
            raise CredentialsError(message)
        return mode != "Never" and is_terminal

    def _info(self, *, is_interactive: bool) -> dict[str, Any]:
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self._settings.get("provideClusterInfo"):
            spec = {"cluster": self._cluster(), **spec}
        return {"kind": "ExecCredential", "apiVersion": self._settings["apiVersion"], "spec": spec}

    def _cluster(self) -> dict[str, Any]:
        """What the plugin may know of the cluster, as in client.authentication.k8s.io; what is not set is left out."""
        cluster = self._config.cluster
        extensions = cluster.get("extensions") or ()
        info = {
            "server": self._server,
            "tls-server-name": cluster.get("tls-server-name"),
            "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
            "certificate-authority-data": cluster.get("certificate-authority-data") or self._authority(),
            "proxy-url": cluster.get("proxy-url"),
            "disable-compression": cluster.get("disable-compression"),
            "config": next((one.get("extension") for one in extensions if one.get("name") == _CLUSTER_EXTENSION), None),
        }
        return {name: value for name, value in info.items() if value}

    def _authority(self) -> str:
        path = self._config.cluster.get("certificate-authority")
        if not path:
            return ""
        try:
            return base64.b64encode(Path(path).read_bytes()).decode("ascii")
        except OSError as error:
            message = f"certificate-authority {path}: {error.strerror or error}"
            raise CredentialsError(message) from None

    def _status_in(self, printed: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(printed)
        except ValueError as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "not UTF-8"
            message = f"what it prints is no ExecCredential in JSON: {reason}"
            raise CredentialsError(message) from None
        if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
            message = "what it prints is no ExecCredential"
            raise CredentialsError(message)
        version, wanted = answer.get("apiVersion"), self._settings["apiVersion"]
        if version != wanted:
            message = f"it returned the version {short_line(str(version), 100)}; the kubeconfig asks for {wanted}"
            raise CredentialsError(message)
        status = answer.get("status")
        if not isinstance(status, dict):
            message = "what it prints is no ExecCredential: there is no 'status'"
            raise CredentialsError(message)
        return status

    def _list(self, field: str) -> list[Any]:
        return self._settings.get(field) or []


def _text(status: Mapping[str, Any], field: str) -> str:
    value = status.get(field)
    if value is not None and not isinstance(value, str):
        message = f"what it prints is no ExecCredential: status.{field} is no string"
        raise CredentialsError(message)
    return value or ""


def _moment(written: Any) -> float | None:
    """Wall-clock seconds of an RFC 3339 time."""
    if not written:
        return None
    try:
        moment = datetime.fromisoformat(written)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.tzinfo is None:
        message = "what it prints is no ExecCredential: status.expirationTimestamp is no time"
        raise CredentialsError(message)
    return moment.timestamp()


class SlowPlugin:
    """Reports an exec plugin that takes long, and again each time the duration has doubled."""

    def __init__(self, command: str, say: SayPluginIsSlow, first_seconds: float = SLOW_PLUGIN_SECONDS) -> None:
        """`command`: the program, as the kubeconfig names it."""
        self._command = command
        self._say = say
        self._first = first_seconds
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time the plugin, which runs in the body of the `with` statement."""
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
