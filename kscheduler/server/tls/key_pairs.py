"""A certificate with its key, as bytes: from files, or self-signed where none is given, as kube-scheduler makes one.

Files are read whole before anything is done with them, so that a context is made of one state of the files: OpenSSL
reads the certificate and the key one after the other, and a rotation may come between.

A self-signed certificate encrypts, but proves nothing: clients must skip the verification. It is made in memory, with
an elliptic key (an RSA key takes a tenth of a second), for localhost, 127.0.0.1 and the bind address. `cryptography` is
imported for that only: it takes 50 ms of CPU, which a scheduler with a mounted certificate does not spend at its start.
"""

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from kscheduler.client.access.credentials import check_regular

# Of a file with certificates or a key.
LARGEST_BYTES: Final = 1024 * 1024
VALID_DAYS: Final = 365
# So long before its end a certificate in memory is made again.
RENEW_DAYS: Final = 30
_NAME: Final = "kscheduler"
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


def make_key_pair(addresses: Sequence[str], now: float) -> KeyPair:
    """A certificate from an hour ago for `VALID_DAYS`. `now`: seconds since the epoch."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_NAME}@{int(now)}")])
    begins = datetime.fromtimestamp(now, UTC) - timedelta(hours=1)  # clocks of clients differ
    names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.DNSName(_NAME)]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in dict.fromkeys(addresses)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
