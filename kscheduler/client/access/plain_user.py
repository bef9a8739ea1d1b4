"""A kubeconfig user with a token, a password, a client certificate or nothing at all: read as it stands.

The files have been checked (`kubeconfig`): what is named is there, what is inline is base64.
"""

import base64
from typing import Any

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import Credentials, FixedCredentials, TokenFile
from kscheduler.client.access.kubeconfig import KubeConfig
from kscheduler.client.access.tls import TLSFiles


def credentials_of(config: KubeConfig, clock: Clock = REAL_CLOCK) -> Credentials:
    """What goes into the Authorization header. Raises `ConfigurationError` for a token file that holds no token.

    As in client-go: of a token and a file with one, the file counts, as it is renewed.
    """
    user = config.user
    if user.get("tokenFile"):
        return TokenFile(user["tokenFile"], clock)
    if user.get("token"):
        return FixedCredentials(f"Bearer {user['token']}".strip())
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        return FixedCredentials(f"Basic {base64.b64encode(pair).decode()}")
    return FixedCredentials()


def tls_files_of(config: KubeConfig) -> TLSFiles:
    """Authority and client certificate; a file or inline data."""
    cluster, user = config.cluster, config.user
    return TLSFiles(
        authority=str(cluster.get("certificate-authority") or ""),
        certificate=str(user.get("client-certificate") or ""),
        key=str(user.get("client-key") or ""),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        server_name=str(cluster.get("tls-server-name") or ""),
        authority_pem=_inline(cluster, "certificate-authority"),
        certificate_pem=_inline(user, "client-certificate"),
        key_pem=_inline(user, "client-key"),
    )


def _inline(entry: dict[str, Any], field: str) -> str:
    return base64.b64decode(entry.get(f"{field}-data") or "").decode("ascii", errors="replace")
