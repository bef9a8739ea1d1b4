"""A self-signed serving certificate, as kube-scheduler makes one where none is given.

It encrypts, but proves nothing: clients must skip the verification. It is made in memory, with an elliptic key (an RSA
key takes a tenth of a second), for localhost, 127.0.0.1 and the bind address. `cryptography` is imported here only:
it takes 50 ms of CPU, which a scheduler with a mounted certificate does not spend at its start.
"""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from kscheduler.server.tls.key_pairs import KeyPair

VALID_DAYS: Final = 365
# So long before its end a certificate in memory is made again.
RENEW_DAYS: Final = 30
_NAME: Final = "kscheduler"


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
