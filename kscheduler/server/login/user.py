"""A user, as Kubernetes knows one; and refusals: Status objects, with the API server's texts."""

from typing import Any, Final

import msgspec
from aiohttp import hdrs, web
from msgspec.structs import replace

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
# Members may do everything without being looked up, as in kube-scheduler.
MASTERS: Final = "system:masters"


class RequestUser(msgspec.Struct, frozen=True):
    """Name, groups and additional information; hashable, since it is part of what an answer is remembered under."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def authenticated(self) -> "RequestUser":
        """The user as a member of `system:authenticated`."""
        if self.name == "system:anonymous" or {AUTHENTICATED, UNAUTHENTICATED} & set(self.groups):
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS: Final = RequestUser("system:anonymous", groups=(UNAUTHENTICATED,))
_ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TEXT_CLIENTS = ("curl/", "Wget/")
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    406: "NotAcceptable",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


def status_answer(request: web.Request, code: int, message: str, **more: Any) -> web.Response:
    """A failure as a Status object; with indentation for people, as the API server has it."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
    encoded = msgspec.json.encode({**body, "reason": _REASONS[code], **more, "code": code})
    if "pretty" in request.query or request.headers.get(hdrs.USER_AGENT, "").startswith(_TEXT_CLIENTS):
        encoded = msgspec.json.format(encoded) + b"\n"
    return web.Response(body=encoded, status=code, content_type="application/json")


def unauthorized(request: web.Request) -> web.Response:
    """Credentials that are wrong, or that cannot be checked now."""
    return status_answer(request, 401, "Unauthorized")


def forbidden(request: web.Request, user: RequestUser, verb: str, path: str, reason: str) -> web.Response:
    """A user who may not."""
    message = f"User {_quoted(user.name)} cannot {verb} path {_quoted(path)}".translate(_ESCAPED)
    full = f"forbidden: {message}: {reason}" if reason else f"forbidden: {message}"
    return status_answer(request, 403, full, details={})


def undecided(request: web.Request, error: Exception) -> web.Response:
    """Nobody can tell whether the user may: it is refused, as an error of the server."""
    text = f'Internal Server Error: "{request.path_qs}": {error}'.translate(_ESCAPED)
    return web.Response(text=f"{text}\n", status=500)


def _quoted(text: str) -> str:
    """As Go's %q."""
    return msgspec.json.encode(text).decode()
