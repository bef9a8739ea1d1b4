"""Errors as the API server words them: an HTTP code and a `Status` object that clients understand.

Every refusal inside the simulation is one exception type that carries the code, the reason and the details, so that
the HTTP layer needs exactly one place to turn it into a response. The texts follow the real server, because clients
(kubectl among them) print them and tests compare them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as decoded JSON. Stored ones are never changed in place."""


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One violated rule: `reason` as in FieldValueInvalid; `field` is a path like `spec.nodeName`."""

    reason: str
    message: str
    field: str

    def as_object(self) -> Object:
        """The cause as `Status.details.causes` holds it."""
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
        """What the Retry-After header says, if anything."""
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
    """409 for a create of a name that is taken."""
    message = f'{_qualified(resource, group)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, group, name))


def conflict(resource: str, group: str, name: str, why: str, causes: Sequence[Object] = ()) -> ApiError:
    """409 for a write that was based on something that is no longer so."""
    message = f'Operation cannot be fulfilled on {_qualified(resource, group)} "{name}": {why}'
    details = _details(resource, group, name)
    if causes:
        details["causes"] = list(causes)
    return ApiError(409, "Conflict", message, details)


def stale_resource_version(resource: str, group: str, name: str) -> ApiError:
    """409 for an update whose resourceVersion is not the stored one."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, group, name, why)


def precondition_failed(resource: str, group: str, metadata: Object, what: str, wanted: str, found: str) -> ApiError:
    """409 for a write or delete that is meant for another UID or version than the stored one."""
    key = "/".join(("/registry", resource, *filter(None, (metadata.get("namespace"), metadata["name"]))))
    why = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
    why += f"Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
    return conflict(resource, group, metadata["name"], why)


def invalid(kind: str, group: str, name: str, causes: Iterable[FieldCause]) -> ApiError:
    """422 with every violated rule; one rule is shown bare, several in brackets."""
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


def forbidden(resource: str, group: str, name: str, why: str) -> ApiError:
    """403 from admission."""
    message = f'{_qualified(resource, group)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, group, name))


def expired(message: str) -> ApiError:
    """410: the history that the request needs is gone."""
    return ApiError(410, "Expired", message)


def method_not_allowed() -> ApiError:
    """405 for a verb that the resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message)


def unsupported_media_type(content_type: str, accepted: Sequence[str]) -> ApiError:
    """415 for a body in a format that is not read here."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return ApiError(415, "UnsupportedMediaType", message, {"received": content_type} if content_type else None)


def too_many_requests(message: str, retry_after_seconds: int = 0, causes: Sequence[Object] = ()) -> ApiError:
    """429, with Retry-After when a positive number of seconds is given."""
    details: Object = {"retryAfterSeconds": retry_after_seconds} if retry_after_seconds else {}
    if causes:
        details["causes"] = list(causes)
    return ApiError(429, "TooManyRequests", message, details)


def too_large_resource_version(asked: int, current: int) -> ApiError:
    """504 for a resourceVersion from the future: the cache has not seen it yet."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1})
