"""The Authorization header, kept up to date; and files with secrets, which are mounted and rotated.

client-go's rules: a token file is read again each minute less ten seconds of leeway, and at once when the server
answers 401. Exec plugins are in `exec_plugin`, providers in `plugin_user`.
"""

import errno
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.kubeconfig_rules import token_fault
from kscheduler.client.errors import ConfigurationError, CredentialsError

# A minute less ten seconds of leeway.
REREAD_SECONDS = 50.0


class Credentials(Protocol):
    """What proves our identity."""

    def current(self) -> str | None:
        """The Authorization header, where nothing has to be read, run or asked for it; otherwise `None`."""
        ...

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

    def current(self) -> str | None:
        """The header as given."""
        return self._header

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

    def current(self) -> str | None:
        """The token, if it was read at most 50 seconds ago."""
        return self._header if self._clock.monotonic() - self._read_at < REREAD_SECONDS else None

    async def authorization(self) -> str:
        """The token read at most 50 seconds ago; while the file cannot be read, the last good one."""
        if self._clock.monotonic() - self._read_at >= REREAD_SECONDS:
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


# Called with the command of an exec plugin and the seconds it has been running.
SayPluginIsSlow = Callable[[str, float], None]


def ignore_slow_plugin(_command: str, _seconds: float) -> None:
    """The default where there is no log."""


# --- files with certificates, keys and tokens -----------------------------------------------------------------------

# Inode, size and time of the last change of the file behind all symlinks; `None`: it cannot be seen.
FileStamp = tuple[int, int, int] | None


def file_stamp(path: str) -> FileStamp:
    """The file's stamp as it is now."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def check_regular(path: str | Path) -> None:
    """Raises `OSError` for what is no regular file: a pipe or a device may keep its reader forever."""
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
