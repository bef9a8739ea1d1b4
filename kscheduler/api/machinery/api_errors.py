"""Errors in the API server's words: an HTTP code and a `Status` object that clients understand.

Every refusal inside the simulation is an `ApiError` with code, reason and details, so that the HTTP layer needs a
single place to turn it into a response. The texts follow the real server, because clients such as kubectl print them
and tests compare them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# A Kubernetes object as decoded JSON. Stored objects are never changed in place.
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldCause:
    """A violated rule: `reason` such as FieldValueInvalid; `field` is a path such as `spec.nodeName`."""

    reason: str
    message: str
    field: str

    def as_object(self) -> Object:
        """The cause as an entry of the Status field `details.causes`."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(Exception):
    """A refusal with its HTTP code; `status_object()` is the body."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status_object(self) -> Object:
        """The `Status` object of this error."""
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        status["code"] = self.code
        return status

    @property
    def retry_after_seconds(self) -> int | None:
        """The value of the Retry-After header, if any."""
        seconds = self.details.get("retryAfterSeconds")
        return int(seconds) if seconds else None


def _details(resource: str, group: str, name: str) -> Object:
    details: Object = {"kind": resource}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    return details


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(resource: str, group: str, name: str) -> ApiError:
    """404 for an object that is not stored."""
    message = f'{_qualified(resource, group)} "{name}" not found'
    return ApiError(404, "NotFound", message, _details(resource, group, name))


def no_such_path() -> ApiError:
    """404 for a path that no kind serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: str, group: str, name: str) -> ApiError:
    """409 for a creation under a taken name."""
    message = f'{_qualified(resource, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, group, name))


def conflict(resource: str, group: str, name: str, reason: str, causes: Sequence[Object] = ()) -> ApiError:
    """409 for a write that was based on an outdated state."""
    message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {reason}'
    details = _details(resource, group, name)
    if causes:
        details["causes"] = list(causes)
    return ApiError(409, "Conflict", message, details)


def stale_resource_version(resource: str, group: str, name: str) -> ApiError:
    """409 for an update whose resourceVersion is not the stored one."""
    reason = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, group, name, reason)


def precondition_failed(resource: str, group: str, metadata: Object, field: str, wanted: str, found: str) -> ApiError:
    """409 for a write or delete whose precondition (UID or version) does not match the stored object."""
    key = "/".join(("/registry", resource, *filter(None, (metadata.get("namespace"), metadata["name"]))))
    reason = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    reason += f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(resource, group, metadata["name"], reason)


def invalid(kind: str, group: str, name: str, causes: Iterable[FieldCause]) -> ApiError:
    """422 with all violated rules; a single rule is shown bare, several in brackets."""
    listed = list(causes)
    texts = [f"{cause.field}: {cause.message}" for cause in listed]
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _details(kind, group, name) | {"causes": [cause.as_object() for cause in listed]}
    qualified = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {shown}', details)


def bad_request(message: str) -> ApiError:
    """400 for a request that cannot be read."""
    return ApiError(400, "BadRequest", message)


def too_large(limit: int) -> ApiError:
    """413 for a body above the limit."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def forbidden(resource: str, group: str, name: str, reason: str) -> ApiError:
    """403 from admission."""
    message = f'{_qualified(resource, group)} "{name}" is forbidden: {reason}'
    return ApiError(403, "Forbidden", message, _details(resource, group, name))


def unknown_host(header: str, value: str) -> ApiError:
    """403 for a request that a page of another site may have sent."""
    message = (
        f"{header} {value[:80]!r}: this server answers requests to an address or localhost only, because a page of "
        "another site may send others; `kscheduler cluster --accept-hosts NAME` adds a name"
    )
    return ApiError(403, "Forbidden", message)


def expired(message: str) -> ApiError:
    """410: the history that the request needs is gone."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(content_type: str, accepted: Sequence[str]) -> ApiError:
    """415 for a body in an unsupported format."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message, {"received": content_type} if content_type else None)


def too_many_requests(message: str, retry_after_seconds: int = 0, causes: Sequence[Object] = ()) -> ApiError:
    """429, with Retry-After when a positive number of seconds is given."""
    details: Object = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    if causes:
        details["causes"] = list(causes)
    return ApiError(429, "TooManyRequests", message, details)


def too_large_resource_version(requested: int, current: int) -> ApiError:
    """504 for a resourceVersion that the server has not reached yet."""
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
