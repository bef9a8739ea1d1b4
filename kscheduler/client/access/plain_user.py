"""A kubeconfig user with a token, a password, a client certificate or nothing at all: read as it stands.

The files have been checked (`kubeconfig`): what is named is there, what is inline is base64.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from multidict import CIMultiDict, MultiMapping

from kscheduler.aio import REAL_CLOCK, Clock
from kscheduler.client.access.credentials import Credentials, FixedCredentials, TokenFile
from kscheduler.client.access.kubeconfig import KubeConfig
from kscheduler.client.access.kubeconfig_rules import has_certificate
from kscheduler.client.access.tls import TLSFiles

# What may stand in a header's name, without the percent sign.
_SENT_AS_THEY_ARE: Final = frozenset(b"!#$&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


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


def impersonation_of(user: Mapping[str, Any]) -> MultiMapping[str]:
    """The headers that ask the API server to take us for somebody else: `as` and its companions; none without `as`.

    The API server asks whether who really calls may do that (the verb `impersonate`), and answers 403 if not. Each
    group and each extra value is a header of its own with the same name: a list in one header would be one long group.
    """
    headers = CIMultiDict[str]()
    if not user.get("as"):
        return headers
    headers["Impersonate-User"] = user["as"]
    if user.get("as-uid"):
        headers["Impersonate-Uid"] = user["as-uid"]
    for group in user.get("as-groups") or ():
        headers.add("Impersonate-Group", group)
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            headers.add(f"Impersonate-Extra-{_escaped(key)}", value)
    return headers


def _escaped(key: str) -> str:
    """A key as a part of a header's name; the API server takes the percent signs away again."""
    return "".join(chr(byte) if byte in _SENT_AS_THEY_ARE else f"%{byte:02X}" for byte in key.encode())


def tls_files_of(config: KubeConfig, certificate_pem: str = "", key_pem: str = "") -> TLSFiles:
    """Authority and client certificate; a file or inline data, or what a plugin gave. A key alone is passed over."""
    cluster, user = config.cluster, config.user if has_certificate(config.user) else {}
    return TLSFiles(
        authority=str(cluster.get("certificate-authority") or ""),
        certificate=str(user.get("client-certificate") or ""),
        key=str(user.get("client-key") or ""),
        verify=not cluster.get("insecure-skip-tls-verify", False),
        server_name=str(cluster.get("tls-server-name") or ""),
        authority_pem=_inline(cluster, "certificate-authority"),
        certificate_pem=certificate_pem or _inline(user, "client-certificate"),
        key_pem=key_pem or _inline(user, "client-key"),
    )


def _inline(entry: dict[str, Any], field: str) -> str:
    return base64.b64decode(entry.get(f"{field}-data") or "").decode("ascii", errors="replace")
