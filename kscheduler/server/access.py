"""Who may see what: a gate in front of the paths.

    HTTPS (`DelegatedAccess`)     health checks are open; everything else is for whom the API server allows it, by
                                  path and verb, as in kube-scheduler
    plain, health and metrics     there is nothing else behind that port (`OpenAccess`)
    plain on loopback             everything for anyone who is on this machine (`LoopbackAccess`), for development;
                                  /waiting-pods, which decides about pods, for the token of --permit-token-file only

The permit token opens guarded paths over HTTPS, too, besides what the API server allows: programs that let pods go at
Permit keep working. It is compared here and never sent to the API server.

A browser that may not see the status page is sent to its form (`browser_login`); the token that it returns as a cookie
counts for that page as one in a header does.

Against DNS rebinding (a page in a browser on this machine uses a host name that resolves to 127.0.0.1) a plain request
counts as local only if its Host field is an address or localhost.
"""

from collections.abc import Callable
from typing import Final, Protocol
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web
from multidict import CIMultiDict

from kscheduler.api.addresses import is_loopback, is_named_safely
from kscheduler.server import browser_login
from kscheduler.server.connections import ConnectionSlots
from kscheduler.server.login.authentication import BEHIND_PROXY, Authenticator, UnauthenticatedError
from kscheduler.server.login.client_certificates import ClientCertificate, certificate_of
from kscheduler.server.login.permissions import OpenPaths, Permissions
from kscheduler.server.login.reviews import ReviewError
from kscheduler.server.login.user import forbidden, unauthorized, undecided
from kscheduler.server.waiting_pods import WAITING_PODS
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.verbosity import verbose

_log = get_logger("server")

HEALTH: Final = ("/healthz", "/livez", "/readyz")
# Anyone who may read the configuration may also read names of objects in `/readyz?verbose`.
CONFIGZ: Final = "/configz"

_WHO_MAY: Final = (
    "only from this machine, by address or as localhost (kubectl port-forward), "
    "or with the token of --permit-token-file\n"
)


class PermitToken(Protocol):
    """The token that grants access, such as `waiting_pods.PermitTokenFile`."""

    def admits(self, authorization: str) -> bool:
        """Whether the header has the token. Raises `OSError`, `ValueError` if the token cannot be read."""
        ...


class Access(Protocol):
    """Decides about requests."""

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a request that is not allowed; `None` if it is."""
        ...

    async def shows_names(self, request: web.Request) -> bool:
        """Whether the client may see names of objects on an open path."""
        ...


class OpenAccess:
    """Everything behind the port is for everybody, but names of objects are for nobody."""

    async def refusal(self, _request: web.Request) -> web.Response | None:
        return None

    async def shows_names(self, _request: web.Request) -> bool:
        return False


def peer_of(request: web.Request) -> str:
    """The client's address; empty when the connection is gone."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_addressed_safely(request: web.Request) -> bool:
    """Whether the Host field is an address or localhost; browsers always send one."""
    return is_named_safely(request.headers.get(hdrs.HOST, ""))


def is_permit_token(token: PermitToken | None, request: web.Request) -> bool:
    """Whether the request has the permit token. A token that cannot be read grants nothing."""
    if token is None:
        return False
    try:
        return token.admits(request.headers.get(hdrs.AUTHORIZATION, ""))
    except (OSError, ValueError):
        return False


class LoopbackAccess(msgspec.Struct, frozen=True):
    """For the plain port on this machine."""

    token: PermitToken | None = None
    peer: Callable[[web.Request], str] = peer_of

    async def refusal(self, request: web.Request) -> web.Response | None:
        """`/waiting-pods` answers by itself; everything but health is for this machine, or for the token."""
        is_open = request.path in HEALTH or request.path.startswith(WAITING_PODS)
        if is_open or await self.shows_names(request):
            return None
        if self.token is None:
            return web.Response(text=f"403: Forbidden\n{_WHO_MAY}", status=403)
        headers = {hdrs.WWW_AUTHENTICATE: "Bearer"}
        return web.Response(text=f"401: Unauthorized\n{_WHO_MAY}", status=401, headers=headers)

    async def shows_names(self, request: web.Request) -> bool:
        """Whether the request comes from this machine or has the token."""
        is_here = is_loopback(self.peer(request)) and is_addressed_safely(request)
        return is_here or is_permit_token(self.token, request)


def _for_browser(request: web.Request, refused: web.Response) -> web.Response:
    """A page's refusal as the way to the form, for a browser that has shown no other credentials."""
    is_page = request.method == "GET" and "text/html" in request.headers.get(hdrs.ACCEPT, "")
    is_unknown = refused.status in (401, 403) and hdrs.AUTHORIZATION not in request.headers
    if not (is_page and is_unknown and browser_login.is_of_page(request.path)):
        return refused
    return web.Response(status=303, headers={hdrs.LOCATION: f"{browser_login.LOGIN}?next={quote(request.path)}"})


class DelegatedAccess:
    """For HTTPS: the API server knows the users and what they may do."""

    def __init__(
        self,
        connection_slots: ConnectionSlots,
        authenticator: Authenticator,
        permissions: Permissions,
        open_paths: OpenPaths,
        token: PermitToken | None = None,
    ) -> None:
        """`connection_slots` keeps what is known about each connection's certificate."""
        self._connection_slots = connection_slots
        self._authenticator = authenticator
        self._permissions = permissions
        self._open_paths = open_paths
        self._token = token

    async def refusal(self, request: web.Request) -> web.Response | None:
        """Open paths need no login: health is told even while the API server cannot authenticate callers."""
        if self._open_paths.has(request.path) or browser_login.is_open(request.path):
            return None
        refused = await self._refusal(request, request.method.lower(), request.path)
        return refused if refused is None else _for_browser(request, refused)

    async def refusal_of_token(self, token: str, path: str) -> str | None:
        """Why a token that was typed in does not open a path; `None`: it does."""
        try:
            headers = CIMultiDict({hdrs.AUTHORIZATION: f"Bearer {token}"})
            user = await self._authenticator.authenticate(headers, None)
            decision = await self._permissions.decide(user, "get", path)
        except UnauthenticatedError:
            return "The API server does not accept this token: it may have expired, or belong to another cluster."
        except ReviewError as error:
            _log.info("http_login_undecided", path=path, err=str(error))
            return "The API server cannot be asked about this token now. Try again in a moment."
        if decision.is_allowed:
            return None
        return f"{user.name} may not get {path}: it needs a ClusterRole with nonResourceURLs /ui and /ui/*, verb get."

    async def shows_names(self, request: web.Request) -> bool:
        """Anyone who may get `/configz` may. Nobody is asked about a client without credentials."""
        has_token = request.headers.get(hdrs.AUTHORIZATION) or request.headers.get(BEHIND_PROXY)
        if not has_token and self._certificate(request) is None:
            return False
        return await self._refusal(request, "get", CONFIGZ) is None

    async def _refusal(self, request: web.Request, verb: str, path: str) -> web.Response | None:
        is_guarded = path in {CONFIGZ, WAITING_PODS} or path.startswith(f"{WAITING_PODS}/")
        if is_guarded and is_permit_token(self._token, request):
            return None
        try:
            user = await self._authenticator.authenticate(
                browser_login.with_cookie(request) if browser_login.cookie_token(request) else request.headers,
                self._certificate(request),
            )
        except UnauthenticatedError as error:
            if verbose(4):
                _log.info("http_unauthenticated", path=path, peer=request.remote, err=str(error))
            return unauthorized(request)
        try:
            decision = await self._permissions.decide(user, verb, path)
        except ReviewError as error:
            return undecided(request, error)
        if decision.is_allowed:
            return None
        if verbose(4):
            _log.info("http_forbidden", path=path, verb=verb, user=user.name, reason=decision.reason)
        return forbidden(request, user, verb, path, decision.reason)

    def _certificate(self, request: web.Request) -> ClientCertificate | None:
        """What the handshake has proved; worked out once per connection."""
        connection = self._connection_slots.of(request.transport)
        if connection is None or connection.transport is None:
            return None
        if not connection.is_identified:
            connection.identity = certificate_of(connection.transport.get_extra_info("ssl_object"))
            connection.is_identified = True
        known = connection.identity
        return known if isinstance(known, ClientCertificate) else None
