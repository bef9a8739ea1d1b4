"""Client certificates: what the handshake has verified, and whose authority it was.

The TLS context trusts all authorities of clients together (`tls.serving_contexts`). Which bundle a chain leads to is
decided here, at each request: an authority that is withdrawn, or a certificate that has ended meanwhile, counts no
longer, although its connection is still open. A certificate of the front proxies' authority is therefore never taken
for a user's: who shows one may say in headers for whom it asks. Without it these headers mean nothing.
"""

import hashlib
import re
import ssl
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from multidict import CIMultiDict, CIMultiDictProxy

from kscheduler.server.login.user import RequestUser

_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
# Kubernetes' own attribute for a user's UID.
_UID: Final = "1.3.6.1.4.1.57683.2"
_CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
# A request's headers, as aiohttp has them; names in any case.
Headers = CIMultiDictProxy[str] | CIMultiDict[str]


class AuthorityBundleError(ValueError):
    """Text that is no bundle of certificates."""


class AuthorityBundle(msgspec.Struct, frozen=True):
    """Authorities, as PEM and by their encoding."""

    pem: str
    certificates: frozenset[bytes]

    @classmethod
    def parse(cls, pem: str) -> "AuthorityBundle":
        """From a file's or ConfigMap's text. Raises `AuthorityBundleError`."""
        blocks = _BLOCK.findall(pem)
        if not blocks:
            message = "there is no PEM certificate in it"
            raise AuthorityBundleError(message)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            encoded = [ssl.PEM_cert_to_DER_cert(block) for block in blocks]
            context.load_verify_locations(cadata="\n".join(blocks))
        except (ValueError, ssl.SSLError):
            message = "one of its PEM certificates cannot be read"
            raise AuthorityBundleError(message) from None
        return cls("\n".join(blocks), frozenset(encoded))


class ClientCertificate(msgspec.Struct, frozen=True):
    """What a handshake has proved about a client."""

    common_name: str
    organizations: tuple[str, ...]
    uids: tuple[str, ...]
    ends: float
    """Seconds since the epoch."""
    chain: tuple[bytes, ...]
    """Encoded, from the client's own to the authority that was trusted."""

    def is_of(self, bundle: AuthorityBundle | None, now: float) -> bool:
        """Whether its chain leads to one of the bundle's authorities, and it has not ended."""
        return bundle is not None and now <= self.ends and any(one in bundle.certificates for one in self.chain)

    def user(self) -> RequestUser | None:
        """The user that it names; `None` if it names nobody. Raises `ValueError` if it names more than one UID."""
        if not self.common_name:
            return None
        if len(self.uids) > 1 or "" in self.uids:
            message = f"expected 1 UID, but found multiple: {list(self.uids)}"
            raise ValueError(message)
        identifier = "X509SHA256=" + hashlib.sha256(self.chain[0]).hexdigest()
        uid = self.uids[0] if self.uids else ""
        return RequestUser(self.common_name, uid, self.organizations, ((_CREDENTIAL_ID, (identifier,)),))


def certificate_of(connection: ssl.SSLObject | None) -> ClientCertificate | None:
    """The client's verified certificate, if it has shown one."""
    if connection is None:
        return None
    shown = connection.getpeercert()
    if not shown:
        return None
    named = [pair for part in _pairs(shown.get("subject")) for pair in part]
    return ClientCertificate(
        common_name=next((value for kind, value in reversed(named) if kind == "commonName"), ""),
        organizations=tuple(value for kind, value in named if kind == "organizationName"),
        uids=tuple(value for kind, value in named if kind == _UID),
        ends=float(ssl.cert_time_to_seconds(str(shown["notAfter"]))),
        chain=tuple(_verified_chain(connection)),
    )


def _pairs(subject: Any) -> Sequence[Sequence[tuple[str, str]]]:
    return subject or ()


def _verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    public = getattr(connection, "get_verified_chain", None)
    if public is not None:
        return list(public())
    # Before Python 3.13 only the object inside has it.
    inside = connection._sslobj  # type: ignore[attr-defined]
    return [certificate.public_bytes(_DER) for certificate in inside.get_verified_chain()]


# `_ssl.ENCODING_DER`.
_DER: Final = 2


class RequestHeaderRules(msgspec.Struct, frozen=True):
    """Who may speak for others, and in which headers."""

    authority: AuthorityBundle
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()
    """Common names of the proxies' certificates; empty means any."""

    def user_in(self, headers: Headers) -> RequestUser | None:
        """The user that the headers name, if they name one."""
        name = _first(headers, self.username_headers)
        if not name:
            return None
        groups = [value for header in self.group_headers for value in headers.getall(header, []) if value]
        return RequestUser(name, _first(headers, self.uid_headers), tuple(groups), self._extra(headers))

    def _extra(self, headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        names = dict.fromkeys(name.lower() for name in headers)
        for prefix in self.extra_prefixes:
            for name in names:
                if name.startswith(prefix.lower()):
                    found.setdefault(unquote(name[len(prefix) :]), []).extend(headers.getall(name, []))
        return tuple(sorted((key, tuple(values)) for key, values in found.items()))


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    return next((value for value in (headers.get(name, "") for name in names) if value), "")
