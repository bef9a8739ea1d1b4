"""Keys and certificates of one control plane, made by the `openssl` command.

A certificate authority, a serving certificate for 127.0.0.1, and the key pair that signs ServiceAccount tokens. The API
server's clients prove who they are by tokens; client certificates are for the tests of kscheduler's own port. `openssl`
rather than a Python package: the standard
library makes no certificates, and every machine that has Debian's `ca-certificates` has `openssl` (it depends on it).
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

VALID_DAYS = "30"
SERVING = """\
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes.default.svc
extendedKeyUsage = serverAuth
basicConstraints = CA:FALSE
"""
AUTHORITY = ("-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature")
ELLIPTIC_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class CertificateError(RuntimeError):
    """openssl is missing or failed."""


@dataclass(frozen=True)
class Certificates:
    """PEM files."""

    authority: Path
    serving: Path
    serving_key: Path
    service_account_key: Path
    service_account_public: Path
    front_proxies: Path
    """The authority of front proxies."""


def create(folder: Path) -> Certificates:
    """New keys and certificates in `folder`. Raises CertificateError."""
    folder.mkdir(parents=True, exist_ok=True)
    create_authority(folder)
    create_serving(folder)
    request = ("req", "-x509", *ELLIPTIC_KEY, "-days", VALID_DAYS, "-subj", "/CN=kscheduler-tests-front-proxies")
    openssl(*request, *AUTHORITY, "-keyout", folder / "front-proxies.key", "-out", folder / "front-proxies.crt")
    create_service_account_keys(folder)
    return Certificates(
        authority=folder / "ca.crt",
        serving=folder / "serving.crt",
        serving_key=folder / "serving.key",
        service_account_key=folder / "service-account.key",
        service_account_public=folder / "service-account.pub",
        front_proxies=folder / "front-proxies.crt",
    )


def create_authority(folder: Path) -> None:
    request = ("req", "-x509", *ELLIPTIC_KEY, "-days", VALID_DAYS, "-subj", "/CN=kscheduler-tests")
    openssl(*request, *AUTHORITY, "-keyout", folder / "ca.key", "-out", folder / "ca.crt")


def create_serving(folder: Path) -> None:
    request, extensions = folder / "serving.csr", folder / "serving.ext"
    extensions.write_text(SERVING)
    openssl("req", *ELLIPTIC_KEY, "-subj", "/CN=kube-apiserver", "-keyout", folder / "serving.key", "-out", request)
    authority = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-CAcreateserial")
    signed = ("-days", VALID_DAYS, "-extfile", extensions, "-out", folder / "serving.crt")
    openssl("x509", "-req", "-in", request, *authority, *signed)


def create_client(folder: Path, name: str, organization: str, authority: str = "ca") -> tuple[Path, Path]:
    """A client's certificate and key, signed by `ca` or by `front-proxies`."""
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    extensions.write_text("extendedKeyUsage = clientAuth\nbasicConstraints = CA:FALSE\n")
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    openssl("req", *ELLIPTIC_KEY, "-subj", f"/O={organization}/CN={name}", "-keyout", key, "-out", request)
    signer = ("-CA", folder / f"{authority}.crt", "-CAkey", folder / f"{authority}.key", "-CAcreateserial")
    openssl("x509", "-req", "-in", request, *signer, "-days", VALID_DAYS, "-extfile", extensions, "-out", certificate)
    return certificate, key


def create_service_account_keys(folder: Path) -> None:
    private = folder / "service-account.key"
    openssl("genrsa", "-out", private, "2048")
    openssl("rsa", "-in", private, "-pubout", "-out", folder / "service-account.pub")


def openssl(*arguments: str | Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise CertificateError("no openssl on PATH: install it (Debian: apt-get install openssl)")
    finished = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
    if finished.returncode:
        raise CertificateError(f"openssl {arguments[0]} ended with {finished.returncode}: {finished.stderr.strip()}")
