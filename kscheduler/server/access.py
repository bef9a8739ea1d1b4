"""Who may see what, as long as there is neither TLS nor authentication on this port.

Probes and scrapes come from elsewhere and bring no token: health, `/metrics` and `/version` are open to whoever reaches
the port. What tells of the configuration or names objects is for this machine (`kubectl port-forward` and `kubectl
exec` arrive there) and for who brings the token of `--permit-token-file`. A browser on this machine may ask for a page
of somebody else whose name was made to mean 127.0.0.1 (DNS rebinding): by a name other than localhost nobody is taken
to be this machine; an address cannot be given another meaning. Limit: behind a reverse proxy on the same
machine everybody comes from this machine; such a proxy has to authenticate, as kube-rbac-proxy does.
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import urlsplit

from aiohttp import hdrs, web

OPEN: Final = ("/healthz", "/livez", "/metrics", "/readyz", "/version")
"""For everybody who reaches the port."""
GUARDED: Final = ("/configz", "/readyz?verbose (names of objects)")
"""For this machine, and for the token."""
TOKEN_ONLY: Final = ("/waiting-pods",)
"""For the token alone, wherever it comes from: whoever may write there decides what runs."""

_WHO_MAY: Final = (
    "only from this machine, by address or as localhost (kubectl port-forward), "
    "or with the token of --permit-token-file\n"
)


class Token(Protocol):
    """What opens doors; `waiting_pods.PermitTokenFile` is one."""

    def admits(self, authorization: str) -> bool:
        """Whether the header carries it. Raises `OSError`, `ValueError` where the token cannot be read."""
        ...


def peer_of(request: web.Request) -> str:
    """The address of whoever asks; empty when the connection is gone."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone. A name that is no address cannot tell."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host == "localhost"
    inner = getattr(address, "ipv4_mapped", None)  # how a socket for both families shows IPv4
    return bool((inner or address).is_loopback)


def is_asked_by_address(request: web.Request) -> bool:
    """Whether the Host field is an address or localhost; browsers always send one."""
    given = request.headers.get(hdrs.HOST, "")
    try:
        host = (urlsplit(f"//{given}").hostname or "").removesuffix(".")
        return not given or host == "localhost" or bool(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """Decides about one server's requests."""

    token: Token | None = None
    peer: Callable[[web.Request], str] = peer_of

    def admits(self, request: web.Request) -> bool:
        """Whether whoever asks may see what is guarded."""
        is_here = is_loopback(self.peer(request)) and is_asked_by_address(request)
        return is_here or self._brings_token(request)

    def _brings_token(self, request: web.Request) -> bool:
        if self.token is None:
            return False
        try:
            return self.token.admits(request.headers.get(hdrs.AUTHORIZATION, ""))
        except (OSError, ValueError):
            return False  # a token that cannot be read opens nothing

    def refusal(self) -> web.Response:
        """The answer to who is not admitted."""
        if self.token is None:
            return web.Response(text=f"403: Forbidden\n{_WHO_MAY}", status=403)
        headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
        return web.Response(text=f"401: Unauthorized\n{_WHO_MAY}", status=401, headers=headers)
