"""How the secure port is served, as the command line says it: files, TLS versions, cipher suites.

Versions and suites have the names that Go gives them, which are the values of kube-scheduler's flags. OpenSSL's names
are others, and it chooses the suites of TLS 1.3 by itself, as Go does. Suites that Go calls insecure are accepted with
a warning if this OpenSSL still has them.
"""

import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

# `--cert-dir` holds `kube-scheduler.crt` and `kube-scheduler.key`, so that kube-scheduler's folder can be used.
PAIR_NAME = "kube-scheduler"


class NamedPair(msgspec.Struct, frozen=True):
    """`--tls-sni-cert-key`: files, and the names that they are for; without names those of the certificate."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()


class TLSSettings(msgspec.Struct, frozen=True):
    """Certificates, versions and cipher suites. Without files a certificate is made at the start."""

    certificate_file: str = ""
    key_file: str = ""
    folder: str = ""
    """Where a certificate that was made is kept; empty: in memory."""
    named_pairs: tuple[NamedPair, ...] = ()
    min_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    bind_address: str = "0.0.0.0"


# What is served by `--tls-min-version`: never less than TLS 1.2.
VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = {
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
# Values that are accepted, though TLS 1.2 is the least that is served.
RAISED: Final = frozenset({"VersionTLS10", "VersionTLS11"})

# Always on, in Go as here, named or not.
OF_TLS13: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})

PREFERRED: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
INSECURE: Final[Mapping[str, str]] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
KNOWN: Final = OF_TLS13 | PREFERRED.keys() | INSECURE.keys()

# Without the flag: forward secrecy and authenticated encryption only.
_DEFAULT: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"


def cipher_list(names: Sequence[str]) -> str:
    """OpenSSL's list for TLS 1.2 and below. Names must be `KNOWN`."""
    chosen = [{**PREFERRED, **INSECURE}[name] for name in names if name not in OF_TLS13]
    return ":".join(dict.fromkeys(chosen)) or _DEFAULT


def unavailable(names: Sequence[str]) -> list[str]:
    """Those of the names that this OpenSSL does not have."""
    return [name for name in names if name not in OF_TLS13 and not _has(cipher_list([name]))]


def _has(openssl_name: str) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.set_ciphers(openssl_name)
    except ssl.SSLError:
        return False
    return any(cipher["name"] == openssl_name for cipher in context.get_ciphers())
