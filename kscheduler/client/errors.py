"""What can go wrong between us and the API server, classified by what the caller may conclude.

- `APIError`: the server answered and refused. Nothing was applied.
- `NotSentError`: the request never reached a server. Nothing was applied; trying again is safe.
- `UnknownOutcomeError`: a write was sent and no answer came. It may have been applied: read before trying again.
  `ForeignResponseError`: something came that is not what an API server answers, which proves as little.
- `NetworkError`: a read got no answer. (The two above are subclasses.)
"""

import html
import re
import socket

import msgspec

from kscheduler.client.retry_after import bounded


class ConfigurationError(ValueError):
    """The connection cannot be configured. One line that names the file, the field and what is wrong."""


class ClientError(Exception):
    """A request did not do what it should."""


class NetworkError(ClientError):
    """No answer came."""


class NotSentError(NetworkError):
    """The request certainly reached no server: refused, unknown host, failed TLS handshake."""


class UnknownOutcomeError(NetworkError):
    """A write was sent and its answer was lost; it may or may not have been applied."""


class ForeignResponseError(UnknownOutcomeError):
    """The answer was a 2xx, but not what an API server answers: something in between has answered, and of a write
    nobody knows whether it was applied. For a read it means that nothing was read.
    """


class LineTooLongError(NetworkError):
    """A line longer than any Kubernetes object; the stream is not a watch."""


class StalledError(NetworkError):
    """Nothing arrived within the time allowed: the connection is half open, or the server hangs."""


class FencedError(ClientError):
    """A write was not sent: this process has lost the right to write (leader election), or does not have it yet."""


class ProxyError(NotSentError):
    """The proxy on the way is not reached, or does not let us through."""


class ProxyNameError(socket.gaierror):
    """It is the proxy's name that cannot be looked up, not the API server's, which the proxy looks up itself."""


class CredentialsError(ClientError):
    """No credentials could be obtained: the token file is unreadable, or the exec plugin failed."""


class StatusCause(msgspec.Struct, frozen=True):
    """An element of a refusal's `details.causes`."""

    reason: str = ""
    message: str = ""
    field: str = ""


class _WireDetails(msgspec.Struct, rename="camel"):
    causes: list[StatusCause] = []
    retry_after_seconds: float | None = None


class APIStatus(msgspec.Struct, rename="camel"):
    """`kind: Status`, the body of every refusal and the object of a watch's ERROR event."""

    kind: str = ""
    """`Status`; empty where the body was something else, such as a proxy's error page."""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _WireDetails | None = None


_decoder = msgspec.json.Decoder(APIStatus)
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}
# The plain text of `k8s.io/apiserver/pkg/server/filters`.
_OVERLOADED = "Too many requests, please try again later"
_LONGEST_TEXT = 512
_LONGEST_PAGE = 8 * 1024
_PAGE = "an HTML page"
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)


class APIError(ClientError):
    """The API server refused the request; the message is the server's."""

    def __init__(
        self,
        status: APIStatus,
        *,
        method: str = "",
        path: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        self.code = status.code
        """The HTTP status."""
        self.is_status = bool(status.kind)
        """Whether the API server itself refused: its refusals are Status objects, a proxy's are not."""
        self.is_page = not status.kind and status.message.startswith(_PAGE)
        """Whether an HTML page came in place of an answer."""
        self.reason = status.reason or _REASONS.get(status.code, "")
        """Kubernetes' word for it, such as `NotFound`."""
        self.message = status.message
        """The server's text."""
        self.causes = tuple(status.details.causes) if status.details else ()
        from_body = status.details.retry_after_seconds if status.details else None
        requested_delay = from_body if retry_after_seconds is None else retry_after_seconds
        self.retry_after_seconds = None if requested_delay is None else bounded(requested_delay)
        self.method = method
        self.path = path
        where = f" ({method} {path})" if path else ""
        super().__init__(f"{status.code} {self.reason}: {self.message}{where}")

    @property
    def is_conflict(self) -> bool:
        """409: the object has moved on, or the precondition (uid, resourceVersion) does not hold."""
        return self.code == 409 and not self.is_already_exists

    @property
    def is_already_exists(self) -> bool:
        """409 to a create: the name is taken."""
        return self.reason == "AlreadyExists"

    @property
    def is_not_found(self) -> bool:
        """404: there is no such object."""
        return self.code == 404

    @property
    def is_gone(self) -> bool:
        """410: the resourceVersion is no longer in the history."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def is_too_large_resource_version(self) -> bool:
        """504: the server has not yet seen this resourceVersion."""
        is_named = any(cause.reason == "ResourceVersionTooLarge" for cause in self.causes)
        return is_named or "too large resource version" in self.message.lower()

    @property
    def is_too_many_requests(self) -> bool:
        """429: certainly not applied."""
        return self.code == 429

    @property
    def is_overload(self) -> bool:
        """429 of the API server's own priority and fairness, in its words: it has too many requests of anybody's. A
        webhook's or a quota's 429 is a Status, and may be meant for one namespace only.
        """
        return self.is_too_many_requests and not self.is_status and self.message.startswith(_OVERLOADED)

    @property
    def is_unauthorized(self) -> bool:
        """401."""
        return self.code == 401

    @property
    def is_forbidden(self) -> bool:
        """403: RBAC, or an admission plugin."""
        return self.code == 403

    @property
    def is_invalid(self) -> bool:
        """422 or 400: the request will never be accepted as it is."""
        return self.code in (400, 422)

    @property
    def is_timeout(self) -> bool:
        """408 or 504: the server gave up; a write may have been applied."""
        return self.code in (408, 504)

    @property
    def is_server_error(self) -> bool:
        """5xx: the server's fault."""
        return self.code >= 500


def status_of(code: int, body: bytes) -> APIStatus:
    """The Status in a refusal's body; any other body becomes the message of a new Status, cut to a line."""
    try:
        status = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _status_without_details(code, body)
    if not status.code:
        status.code = code
    return status


class _WithoutDetails(msgspec.Struct):
    """A Status whose details cannot be read, such as a `retryAfterSeconds` of 1e400."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""


_without_details = msgspec.json.Decoder(_WithoutDetails)


def _status_without_details(code: int, body: bytes) -> APIStatus:
    try:
        status = _without_details.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return APIStatus(code=code, message=text_of(body))
    return APIStatus(status.kind, status.code or code, status.reason, status.message)


def text_of(body: bytes) -> str:
    """The body as one line. Of a proxy's HTML page only the title, which says who answered."""
    text = " ".join(body[:_LONGEST_PAGE].decode(errors="replace").split())
    if not text.startswith("<"):
        return text[:_LONGEST_TEXT] or "no message"
    title = _TITLE.search(text)
    title_text = f" ({html.unescape(title[1]).strip()[:_LONGEST_TEXT]})" if title else ""
    return f"{_PAGE}{title_text} in place of an answer: a proxy, or no API server"
