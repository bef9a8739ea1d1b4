"""A certificate with its key, as bytes.

Both are read whole before anything is done with them, so that a context is made of one state of the files: OpenSSL
reads the certificate and the key one after the other, and a rotation may come between.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kscheduler.client.access.credential_files import check_regular

# Of a file with certificates or a key.
LARGEST_BYTES: Final = 1024 * 1024

# OpenSSL's reasons in words.
_PROBLEMS: Final = {
    "NO_CERTIFICATE_OR_CRL_FOUND": "there is no PEM certificate in it",
    "NO_START_LINE": "there is no PEM certificate, or no PEM key in it",
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "KEY_TYPE_MISMATCH": "the key does not belong to the certificate",
    "BAD_DECRYPT": "the key is encrypted; mount it without a password",
    "BAD_PASSWORD_READ": "the key is encrypted; mount it without a password",
    "EE_KEY_TOO_SMALL": "the key is too short for this OpenSSL",
    "CA_MD_TOO_WEAK": "its signature is too weak for this OpenSSL",
}


class KeyPairError(Exception):
    """Files that are no certificate with its key; the text names the file and what is wrong."""


@dataclass(frozen=True, slots=True, repr=False)
class KeyPair:
    """PEM: the certificate with its chain, and the private key."""

    certificate: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """Serve with this certificate. Raises `KeyPairError`; the context is of no use then."""
        try:
            with _as_file(self.certificate) as certificate, _as_file(self.key) as key:
                context.load_cert_chain(certificate, key, password=lambda: b"")  # never ask on a terminal
        except (ssl.SSLError, OSError, ValueError) as error:
            raise KeyPairError(tls_problem(error)) from None


def read_key_pair(certificate: str, key: str) -> KeyPair:
    """The contents of two files. Raises `KeyPairError`."""
    return KeyPair(read_pem(certificate), read_pem(key))


def read_pem(path: str) -> bytes:
    """A small file. Raises `KeyPairError`."""
    try:
        check_regular(path)
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        message = f"{path}: {error.strerror or error}"
        raise KeyPairError(message) from None
    if len(content) > LARGEST_BYTES:
        message = f"{path}: it is larger than {LARGEST_BYTES // 1024} KiB"
        raise KeyPairError(message)
    return content


def tls_problem(error: Exception) -> str:
    """What OpenSSL did not like, in words."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        return _PROBLEMS.get(reason) or f"it is not usable ({reason.lower().replace('_', ' ') or error})"
    return str(getattr(error, "strerror", None) or error)


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL can read the bytes: in memory where the system has such files (Linux)."""
    create = getattr(os, "memfd_create", None)
    if create is None or not Path("/proc/self/fd").is_dir():
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    number = create("kscheduler-pem")
    try:
        os.write(number, content)
        yield f"/proc/self/fd/{number}"
    finally:
        os.close(number)
