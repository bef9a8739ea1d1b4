"""TLS contexts that follow their files: rotated CA bundles and client certificates are picked up without a restart."""

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import FileStamp, check_regular, file_stamp
from kscheduler.client.errors import ConfigurationError

# How often the files' times are read; a rotation is followed within this time.
_LOOK_EVERY_SECONDS = 10.0

# OpenSSL's reasons in words; a reason that is not here says nothing more to a user.
_PEM_PROBLEMS = {
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no PEM certificate in it",
    "NO_START_LINE": "there is no PEM certificate in it",
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
}

_Fingerprint = tuple[FileStamp, ...]


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """Files with the authority and the client certificate; empty means none."""

    authority: str = ""
    certificate: str = ""
    key: str = ""
    verify: bool = True
    server_name: str = ""
    authority_pem: str = ""
    """The authority itself, from inline data instead of a file. Likewise the next two."""
    certificate_pem: str = ""
    key_pem: str = field(default="", repr=False)


class TLSFieldNames(msgspec.Struct, frozen=True):
    """The kubeconfig fields behind the settings, for messages."""

    authority: str = ""
    identity: str = ""


NO_FIELDS: Final = TLSFieldNames()


class TLSContexts:
    """Hands out the TLS context; a new one after the files have changed, so that new connections use them."""

    # frozen
    def __init__(self, files: TLSFiles, clock: Clock = REAL_CLOCK, places: TLSFieldNames = NO_FIELDS) -> None:
        self._clock = clock
        self._places = places
        self.follow(files)

    def follow(self, files: TLSFiles) -> None:
        """Use other files from now on. Raises `ConfigurationError` when they cannot be read."""
        self.files = files
        self._fingerprint = _fingerprint(files)
        self._looked_at = self._clock.monotonic()
        self._context = _build(files, self._places)

    def context(self) -> ssl.SSLContext:
        """The context for a new connection."""
        now = self._clock.monotonic()
        if now - self._looked_at >= _LOOK_EVERY_SECONDS:
            self._looked_at = now
            self._rebuild_if_changed()
        return self._context

    def _rebuild_if_changed(self) -> None:
        fingerprint = _fingerprint(self.files)
        if fingerprint == self._fingerprint:
            return
        try:
            self._context = _build(self.files, self._places)
        except ConfigurationError:
            return  # half-written files during a rotation: keep what works and look again next time
        self._fingerprint = fingerprint


def _build(files: TLSFiles, places: TLSFieldNames) -> ssl.SSLContext:
    # The machine's authorities take 30 ms to load; most clusters have their own authority.
    own_authority = files.authority or files.authority_pem
    context = _with_authority(files, places) if own_authority else ssl.create_default_context()
    # Python 3.13 began to demand key identifiers that many clusters' authorities lack; Go never has.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not files.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if files.certificate or files.certificate_pem:
        _load_identity(context, files, places)
    return context


def _with_authority(files: TLSFiles, places: TLSFieldNames) -> ssl.SSLContext:
    """Trust this authority and no other."""
    try:
        with _readable(files.authority, files.authority_pem) as authority:
            return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        message = f"{places.authority or f'certificate-authority {files.authority}'}: {_text(error)}"
        raise ConfigurationError(message) from None


def _load_identity(context: ssl.SSLContext, files: TLSFiles, places: TLSFieldNames) -> None:
    try:
        with (
            _readable(files.certificate, files.certificate_pem) as certificate,
            _readable(files.key, files.key_pem) as key,
        ):
            context.load_cert_chain(certificate, key or None)
    except (OSError, ssl.SSLError) as error:
        named = f"client-certificate {files.certificate} with client-key {files.key or '(none)'}"
        message = f"{places.identity or named}: {_text(error)}"
        raise ConfigurationError(message) from None


@contextmanager
def _readable(path: str, pem: str) -> Iterator[str]:
    """A path to read `pem` from: Python's `load_cert_chain` takes nothing else.

    On Linux the file is in memory: a key should not lie on a disk, and in a pod there may be no place to write.
    """
    if not pem:
        if path:
            check_regular(path)
        yield path
    elif sys.platform == "linux":
        with open(os.memfd_create("inline data of a kubeconfig"), "wb") as file:  # noqa: PTH123  # there is no path
            file.write(pem.encode())
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem.encode())
            file.flush()
            yield file.name


def _text(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return _PEM_PROBLEMS.get(error.reason or "", "not a usable PEM file")
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def _fingerprint(files: TLSFiles) -> _Fingerprint:
    return tuple(file_stamp(path) for path in (files.authority, files.certificate, files.key) if path)
