"""How the secure port is served, as the command line says it."""

from dataclasses import dataclass

# `--cert-dir` holds `kube-scheduler.crt` and `kube-scheduler.key`, so that kube-scheduler's folder can be used.
PAIR_NAME = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class NamedPair:
    """`--tls-sni-cert-key`: files, and the names that they are for; without names those of the certificate."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TLSSettings:
    """Certificates, versions and cipher suites. Without files a certificate is made at the start."""

    certificate_file: str = ""
    key_file: str = ""
    folder: str = ""
    """Where a certificate that was made is kept; empty: in memory."""
    named_pairs: tuple[NamedPair, ...] = ()
    min_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    bind_address: str = "0.0.0.0"
