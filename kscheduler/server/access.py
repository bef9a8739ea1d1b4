"""Access control, as long as this port has neither TLS nor authentication.

Probes and scrapes come from other machines without a token, so health, `/metrics` and `/version` are open. Paths that
show the configuration or names of objects are for this machine (where `kubectl port-forward` and `kubectl exec` arrive)
and for clients with the token of `--permit-token-file`. Against DNS rebinding (a page in a browser on this machine uses
a host name that resolves to 127.0.0.1) a request counts as local only if its Host field is an address or localhost.
Limit: behind a reverse proxy on the same machine all requests are local; such a proxy has to authenticate, as
kube-rbac-proxy does.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from aiohttp import hdrs, web

OPEN: Final = ("/healthz", "/livez", "/metrics", "/readyz", "/version")
"""Open to everybody who can reach the port."""
GUARDED: Final = ("/configz", "/readyz?verbose (names of objects)")
"""For requests from this machine or with the token."""
TOKEN_ONLY: Final = ("/waiting-pods",)
"""For requests with the token only, since writing there decides what runs."""

_WHO_MAY: Final = (
    "only from this machine, by address or as localhost (kubectl port-forward), "
    "or with the token of --permit-token-file\n"
)


class Token(Protocol):
    """The token that grants access, such as `waiting_pods.PermitTokenFile`."""

    def admits(self, authorization: str) -> bool:
        """Whether the header has the token. Raises `OSError`, `ValueError` if the token cannot be read."""
        ...


def peer_of(request: web.Request) -> str:
    """The client's address; empty when the connection is gone."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only. Of names only localhost counts."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    inner = getattr(address, "ipv4_mapped", None)  # how a socket for both families shows IPv4
    return bool((inner or address).is_loopback)


def is_asked_by_address(request: web.Request) -> bool:
    """Whether the Host field is an address or localhost; browsers always send one."""
    host_field = request.headers.get(hdrs.HOST, "")
    try:
        host = (urlsplit(f"//{host_field}").hostname or "").removesuffix(".")
        return not host_field or host == "localhost" or bool(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """Decides who may see guarded paths."""

    token: Token | None = None
    peer: Callable[[web.Request], str] = peer_of

    def admits(self, request: web.Request) -> bool:
        """Whether the client may see guarded information."""
        is_here = is_loopback(self.peer(request)) and is_asked_by_address(request)
        return is_here or self._brings_token(request)

    def _brings_token(self, request: web.Request) -> bool:
        if self.token is None:
            return False
        try:
            return self.token.admits(request.headers.get(hdrs.AUTHORIZATION, ""))
        except (OSError, ValueError):
            return False  # an unreadable token grants nothing

    def refusal(self) -> web.Response:
        """The answer to a client without access."""
        if self.token is None:
            return web.Response(text=f"403: Forbidden\n{_WHO_MAY}", status=403)
        headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
        return web.Response(text=f"401: Unauthorized\n{_WHO_MAY}", status=401, headers=headers)
