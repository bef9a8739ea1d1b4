"""Authorities and certificates for tests, made in memory."""

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


@dataclass(frozen=True)
class Pair:
    """PEM: a certificate and its key."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """The paths of both files."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        key.write_bytes(self.key)
        return str(certificate), str(key)

    def client_context(self, folder: Path) -> ssl.SSLContext:
        """A client that shows the certificate and trusts everybody."""
        context = trusting()
        context.load_cert_chain(*self.write(folder, f"client-{abs(hash(self.certificate))}"))
        return context


def trusting() -> ssl.SSLContext:
    """A client that trusts everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Authority:
    """Signs certificates."""

    def __init__(self, name: str, parent: "Authority | None" = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        signer, signed_by = (parent.key, parent.name) if parent else (self.key, self.name)
        builder = _builder(self.name, signed_by, self.key.public_key(), days=10)
        self.certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            signer, hashes.SHA256()
        )
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)

    def client(
        self, name: str, *organizations: str, days: float = 5.0, uids: tuple[str, ...] = (), server: bool = False
    ) -> Pair:
        """A client's certificate, or one that only servers may use."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, one) for one in organizations]
        parts += [x509.NameAttribute(UID, one) for one in uids]
        if name:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        return self._issue(x509.Name(parts), days, [x509.ExtendedKeyUsage([usage])])

    def serving(self, *names: str, days: float = 5.0) -> Pair:
        """A server's certificate."""
        listed: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, days, [x509.SubjectAlternativeName(listed)])

    def _issue(self, subject: x509.Name, days: float, extensions: list[x509.ExtensionType]) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.name, key.public_key(), days)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        return Pair(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: float
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=20))
        .not_valid_after(now + timedelta(days=days))
    )
